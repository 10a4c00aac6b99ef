"""The Python of the pages on plug-ins keeps the contract of its kind, as `phyloop check-plugin` asks it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.contracts import checks_of
from scenarios.schema.plugins import import_plugins

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Forget the plug-ins of a page, whose keys no other test knows."""
    yield
    import_plugins({})


def code_of(page: str, word: str) -> str:
    """Return the example of a page that defines a thing by its word."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    (code,) = (one for one in blocks if f'Literal["{word}"]' in one)
    return str(code)


@pytest.mark.parametrize(
    ("page", "kind", "word"),
    [
        ("plugins", "data set", "stripes"),
        ("plugins", "mechanism", "l1-laplace"),
        ("scheduling", "selection", "fresh-and-near"),
    ],
)
def test_the_example_of_a_page_keeps_its_contract(page: str, kind: str, word: str, tmp_path: Path) -> None:
    code = code_of(page, word)
    file = tmp_path / f"{word.replace('-', '_')}_of_page.py"
    file.write_text(code)
    found = list(checks_of(file))
    assert len(found) > 1
    for one in found:
        assert (one.kind, one.word, one.problem) == (kind, word, None)


FACTS = "facts = ImageFacts(image_shape=(8, 8, 1), num_classes=2, num_train=400, num_test=100)"
RETURNED = "return (images[:400], labels[:400]), (images[400:], labels[400:])"
WRONG = {
    FACTS: ('facts = {"shape": (8, 8)}', "facts is of type dict; write"),
    RETURNED: ("return images, labels, images, labels", "read gives 4 things; return"),
    ".astype(np.uint8)[..., None]": ("[..., None] / 255", "train images are float64; write whole numbers"),
}


@pytest.mark.parametrize("line", WRONG)
def test_a_data_set_of_other_types_is_told_what_to_write(line: str, tmp_path: Path) -> None:
    code = code_of("plugins", "stripes")
    assert line in code
    (tmp_path / "wrong_set.py").write_text(code.replace(line, WRONG[line][0]))
    problems = [one.problem for one in checks_of(tmp_path / "wrong_set.py") if one.problem]
    assert WRONG[line][1] in problems[0]
