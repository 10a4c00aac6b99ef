"""Print what `phyloop check` says of every library scenario and of wrong ones, to compare before and after a change.

    python tests/helpers/check_answers.py [NUM_MUTANTS] [--changes] > before.txt

Mutants are those of `fuzz/mutations.py` and of `wrong_leaves.py`, drawn with a fixed seed; every case of `conflicts.py`
is among the scenarios. `--changes` prints also what following each remedy does.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import yaml
from conflicts import CONFLICTS
from hypothesis import HealthCheck, Phase, given, seed, settings
from wrong_leaves import wrong_leaves

from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LIBRARY, as_yaml
from scenarios.studies.check import check


def scenarios(num_mutants: int) -> Iterator[tuple[str, str]]:
    """Name and text of the library, of one scenario per conflict, and of mutants, half of them by one wrong leaf."""
    for path in sorted(LIBRARY.glob("*.yaml")):
        yield path.stem, path.read_text()
    for name, text in CONFLICTS.items():
        yield name, f"name: a\n{text}\n"
    if not num_mutants:
        return
    leaves = list(wrong_leaves())
    for leaf in random.Random(48).sample(leaves, min(num_mutants // 2, len(leaves))):
        yield str(leaf), as_yaml(leaf.document())
    sys.path.append(str(Path(__file__).parents[1] / "fuzz"))
    from mutations import spoilt_documents

    spoilt: list[str] = []

    @seed(48)
    @settings(
        max_examples=num_mutants - num_mutants // 2,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(spoilt_documents())
    def draw(document: object) -> None:
        spoilt.append(yaml.dump(document, sort_keys=False, allow_unicode=True))

    draw()
    yield from ((f"mutant {number}", text) for number, text in enumerate(islice(spoilt, num_mutants)))


def answers(num_mutants: int, *, changes: bool) -> Iterator[str]:
    """One line per error, under a line with the name of the scenario."""
    with tempfile.TemporaryDirectory() as folder:
        for file in LIBRARY.glob("*.yaml"):
            shutil.copy(file, folder)
        path = Path(folder) / "s.yaml"
        for name, text in scenarios(num_mutants):
            yield f"# {name!r}"
            try:
                path.write_text(text, encoding="utf-8", errors="surrogatepass")
                errors: tuple[ScenarioError, ...] = check(path).errors
            except Exception as error:  # a crash is an answer, too
                yield f"{type(error).__name__}: {error}"
                continue
            for one in errors:
                yield one.sentence().replace(f"{folder}/", "")
                if changes:
                    yield f"    gone {one.change.gone} new {one.change.new} sure {one.change.sure}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    numbers = [int(one) for one in sys.argv[1:] if one.isdigit()]
    for line in answers(numbers[0] if numbers else 2000, changes="--changes" in sys.argv):
        print(line)
