"""phyloop refuses to start where another distribution has overwritten one of its packages, and imports little."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from phyloop.packages import OURS

ROOT = Path(__file__).parents[2]
HEAVY = ("pandas", "numba", "tensorflow", "matplotlib", "scipy", "pydantic", "numpy")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the first file of each of our packages, as after an installation."""
    for name in (*OURS, "phyloop"):
        (tmp_path / name).mkdir()
        shutil.copy(ROOT / name / "__init__.py", tmp_path / name)
    for file in ("packages.py", "__main__.py"):
        shutil.copy(ROOT / "phyloop" / file, tmp_path / "phyloop")
    return tmp_path


def python(folder: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python, without packages of the environment or PYTHONPATH, with `path` before `folder` in its path."""
    start = f"import sys; sys.path[:0] = {[one for one in (path, str(folder)) if one]}; "
    command = [sys.executable, "-E", "-S", "-c", start + arguments[0]]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder.parent)


def test_an_installation_of_ours_starts(installed: Path) -> None:
    assert python(installed, "import phyloop").returncode == 0


@pytest.mark.parametrize("name", OURS)
def test_an_overwritten_package_is_refused_in_one_sentence(installed: Path, name: str) -> None:
    (installed / name / "__init__.py").write_text('"""Neurophysiological data analysis."""\n')
    done = python(installed, "import phyloop")
    assert done.returncode == 1
    assert f"phyloop cannot start: its package '{name}' belongs to another distribution" in done.stderr
    command = python(installed, "sys.argv[0] = '/usr/bin/phyloop'; from phyloop.__main__ import main")
    assert command.returncode == 1
    assert command.stderr.count("\n") == 1
    assert "uninstall that distribution, then reinstall phyloop" in command.stderr


def test_a_package_of_the_same_name_before_ours_is_refused(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "before" / "phy").mkdir(parents=True)
    shutil.copy(ROOT / "phy" / "__init__.py", tmp_path / "before" / "phy")
    done = python(installed, "import phyloop", path=str(tmp_path / "before"))
    assert f"{tmp_path / 'before' / 'phy'} hides its package 'phy'; rename or uninstall it." in done.stderr


def test_a_script_with_the_name_of_a_package_is_named(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "fl.py").write_text("import phyloop\n")
    done = python(installed, "import phyloop", path=str(tmp_path / "before"))
    assert f"{tmp_path / 'before' / 'fl.py'} hides its package 'fl'; rename or uninstall it." in done.stderr


def test_a_folder_of_scenarios_hides_nothing(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "before" / "scenarios").mkdir(parents=True)
    (tmp_path / "before" / "scenarios" / "mine.yaml").write_text("name: mine\n")
    assert python(installed, "import phyloop", path=str(tmp_path / "before")).returncode == 0


def test_a_missing_package_is_refused(installed: Path) -> None:
    shutil.rmtree(installed / "scenarios")
    assert "its package 'scenarios' is missing" in python(installed, "import phyloop").stderr


def test_importing_phyloop_imports_no_library() -> None:
    asked = f"import sys, phyloop; print([one for one in {HEAVY} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
