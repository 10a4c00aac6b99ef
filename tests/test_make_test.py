"""The summary of `make test` over a small suite: every part runs, the last line has the sums, the exit code tells."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from import_graph import imported_names

TREE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """`.ci/tests` as a module."""
    loader = importlib.machinery.SourceFileLoader("ci_tests", str(TREE / ".ci" / "tests"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


def closing_lines(
    script: ModuleType,
    files: dict[str, str],
    where: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture,
) -> tuple[int, list[str]]:
    """Run a suite with a part per file, and return the exit code and the lines after pytest's own."""
    (where / "tests").mkdir()
    for name, text in files.items():
        (where / "tests" / f"test_{name}.py").write_text(text)
    monkeypatch.chdir(where)
    monkeypatch.setitem(script.SUITES, "small", {name: f"test_{name}.py" for name in files})
    code = script.main("small", "-n0", "-p", "no:cacheprovider")
    return code, capfd.readouterr().out.splitlines()[-len(files) - 1 :]


def without_times(lines: list[str]) -> list[str]:
    """Seconds differ from run to run."""
    return [re.sub(r"in [\d.]+ ?s", "in T", " ".join(line.split())) for line in lines]


def test_a_failing_part_keeps_none_from_running(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    files = {
        "first": "def test_a(): pass\ndef test_b(): assert False\ndef test_c(): assert False\n",
        "second": "import pytest\ndef test_a(): pass\n@pytest.mark.skip(reason='x')\ndef test_b(): pass\n",
        "killed": "import os\ndef test_a(): os._exit(9)\n",
        "broken": "import nowhere\n",
    }
    code, lines = closing_lines(script, files, tmp_path, monkeypatch, capfd)
    assert code == 1
    first, second, killed, broken, last = without_times(lines)
    assert first == "first 2 failed, 1 passed in T"
    assert second == "second 1 passed, 1 skipped in T"
    assert killed == "killed 0 passed in T, ended with exit code 9"
    assert broken == "broken 0 passed, 1 errors in T"
    words = "2 failed, 2 passed, 1 skipped, 2 errors in T (4 parts; failed: first, killed, broken)"
    assert last == f"===== {words} ====="


def test_parts_that_pass_are_summed_up(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    files = dict.fromkeys(("first", "second"), "def test_a(): pass\ndef test_b(): pass\n")
    code, lines = closing_lines(script, files, tmp_path, monkeypatch, capfd)
    assert code == 0
    assert without_times(lines)[-1] == "===== 4 passed in T (2 parts) ====="


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("= 1 failed, 20 passed, 3 skipped, 4 deselected, 5 warnings, 2 errors in 61.20s (0:01:01) =", (1, 20, 3, 2)),
        ("= 7 passed in 0.12s =", (0, 7, 0, 0)),
        ("= 1 error in 0.12s =", (0, 0, 0, 1)),
        ("= 2 xfailed, 1 xpassed in 0.12s =", (0, 0, 0, 0)),
        ("", (0, 0, 0, 0)),
    ],
)
def test_counts_are_those_of_the_closing_line_of_pytest(script: ModuleType, line: str, counts: tuple[int, ...]) -> None:
    assert tuple(script.counted(line).values()) == counts


def test_every_test_file_belongs_to_one_part(script: ModuleType) -> None:
    """A new folder of tests that no part names would never run."""
    named = [path for name, part in script.SUITES["all"].items() if name != "reference" for path in part.split()]
    there = [
        path.name
        for path in (TREE / "tests").iterdir()
        if path.name.startswith("test_") or (path.is_dir() and any(path.rglob("test_*.py")))
    ]
    assert sorted(named) == sorted(there)
    for part in (script.PORTABLE, script.REFERENCE):
        assert [name for name in part.split() if not (TREE / "tests" / name).exists()] == []


def test_the_reference_depends_on_nothing_that_its_digest_leaves_out(script: ModuleType) -> None:
    """Its tests, and the helpers that these import, import nothing of ours but phy."""
    ours = {path.stem: path for path in (TREE / "tests" / "helpers").glob("*.py")}
    files = [file for name in script.DEPENDS_ON if name.startswith("tests") for file in _python_files(TREE / name)]
    imported = {name for file in files for name in imported_names(file)}
    tops = {name.split(".")[0] for name in imported}
    assert "phy" in tops
    assert tops & {"fl", "privacy", "scenarios", "phyloop", "docs", "benchmarks"} == set()
    assert tops & ours.keys() == set(script.HELPERS)
    texts = [file.read_text() for file in files]
    assert not any(re.search(r"-m.{1,4}(phyloop|scenarios)|shared/|examples/", text) for text in texts)


def _python_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [*path.rglob("*.py")]


@pytest.fixture
def small_tree(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files in place of the tree, and parts that pass unless `failing` names them; returns the parts that ran."""
    monkeypatch.chdir(tmp_path)
    for name in ("phy/links/link.py", "tests/helpers/radio.py", "constraints.txt", ".ci/tests", "fl/models/new.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("first")
    ran: list[str] = []

    def run(name: str, _: list[str], options: list[str]) -> Any:
        ran.append(name)
        assert name == "reference" or "--ignore=tests/phy/receivers" in options
        return script.Part(name, dict.fromkeys(script.KINDS, 1), int(name in Path("failing").read_text()), 1.0)

    Path("failing").write_text("")
    monkeypatch.setattr(script, "run", run)
    monkeypatch.setenv("ONLY_CHANGED", "1")
    return ran


@pytest.mark.parametrize("changed", ["phy/links/link.py", "tests/helpers/radio.py", "constraints.txt"])
def test_the_reference_is_left_out_while_what_it_depends_on_is_unchanged(
    script: ModuleType, changed: str, small_tree: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran() -> bool:
        small_tree.clear()
        assert script.main("all") == 0
        assert small_tree[-4:] == ["contracts", "phy", "fl", "rest"]
        return small_tree[0] == "reference"

    assert ran()  # nothing has passed yet
    Path("fl/models/new.py").write_text("second")
    assert not ran()
    Path(changed).write_text("second")
    assert ran()
    monkeypatch.delenv("ONLY_CHANGED")
    assert ran()


@pytest.mark.parametrize(
    ("suite", "failing", "options", "noted"),
    [
        ("all", "rest", (), True),
        ("reference", "", (), True),
        ("all", "reference", (), False),
        ("all", "", ("-k", "one"), False),
        ("portable", "", (), False),
    ],
)
def test_a_reference_that_passes_as_a_whole_is_noted(
    script: ModuleType, suite: str, failing: str, options: tuple[str, ...], noted: bool, small_tree: list[str]
) -> None:
    Path("failing").write_text(failing)
    assert script.main(suite, *options) == int(bool(failing))
    assert Path(".ci/passed").exists() == noted
    assert len(small_tree) == (5 if suite == "all" else 1)


@pytest.mark.parametrize("arguments", [[], ["avx1024", "true"], ["avx2"]])
def test_a_limit_that_is_none_is_refused(arguments: list[str]) -> None:
    done = subprocess.run([TREE / ".ci" / "limit", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert "native|avx2|sse4|plain|one-core|four-cores" in done.stderr
