"""Set-up of an environment by `.ci/install`: one lock in parts, by uv or by pip, every hash checked, no network."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

TREE = Path(__file__).parents[1]
INSTALL = TREE / ".ci" / "install"


def wheel(folder: Path, name: str) -> str:
    """Write a wheel with one empty module, and return its line in a lock."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with pip, and with setuptools of this one to build what is installed editable."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "packages.pth").write_text(sysconfig.get_path("purelib"))
    return folder


@pytest.fixture
def project(tmp_path: Path, empty: Path) -> Path:
    """Return a project of one module, its lock in parts, wheels of what is locked, and an environment for it."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    run, more = wheel(wheels, "needed_to_run"), wheel(wheels, "needed_to_test")
    (tmp_path / "constraints.txt").write_text(f"# [installer] x\n# [run] y\n{run}\n# [more] z\n{more}\n")
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "tiny"\nversion = "1"\n[tool.setuptools]\npy-modules = ["tiny"]\n'
    )
    (tmp_path / "tiny.py").touch()
    shutil.copytree(empty, tmp_path / "venv", symlinks=True)
    return tmp_path


def install(project: Path, part: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `.ci/install` on wheels of the project's folder alone."""
    where = str(project / "wheels")
    given = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": where, "UV_NO_INDEX": "1", "UV_FIND_LINKS": where}
    given |= {"UV_CACHE_DIR": str(project / "cache"), "UV_OFFLINE": "1"}
    found = str(Path(sys.executable).parent)  # uv is among what tests need
    variables = {**os.environ, "PATH": f"{found}:{os.environ['PATH']}", **given, **environment}
    command = [INSTALL, project / "venv" / "bin" / "python", part]
    return subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True)


def importable(project: Path) -> set[str]:
    """Return which of the project's modules its environment finds, outside the project's folder."""
    code = (
        "import importlib.util as u; print(*[n for n in ('needed_to_run', 'needed_to_test', 'tiny') if u.find_spec(n)])"
    )
    python = project / "venv" / "bin" / "python"
    return set(subprocess.run([python, "-c", code], cwd="/", capture_output=True, text=True).stdout.split())


def failing_uv(project: Path) -> str:
    """Return a PATH whose first uv fails, as one does that reaches no index."""
    (project / "bin").mkdir()
    (project / "bin" / "uv").write_text("#!/bin/sh\nexit 2\n")
    (project / "bin" / "uv").chmod(0o755)
    return f"{project / 'bin'}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("installer", "part", "packages"),
    [
        ("uv", "run", {"needed_to_run", "tiny"}),
        ("uv", "all", {"needed_to_run", "needed_to_test", "tiny"}),
        ("pip", "all", {"needed_to_run", "needed_to_test", "tiny"}),
    ],
)
def test_a_part_is_installed_with_the_project(project: Path, installer: str, part: str, packages: set[str]) -> None:
    done = install(project, part, INSTALLER=installer)
    assert done.returncode == 0, done.stderr
    assert importable(project) == packages
    assert "pip tries" not in done.stderr


def test_pip_installs_where_uv_fails(project: Path) -> None:
    done = install(project, "run", PATH=failing_uv(project))
    assert done.returncode == 0, done.stderr
    assert "uv could not install; pip tries now" in done.stderr
    assert importable(project) == {"needed_to_run", "tiny"}


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_package_of_another_hash_is_refused(project: Path, installer: str) -> None:
    wheel_path = project / "wheels" / "needed_to_run-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel_path, "a") as archive:
        archive.writestr("needed_to_run_too.py", "")
    done = install(project, "run", INSTALLER=installer)
    assert done.returncode != 0
    assert importable(project) == set()


def test_the_lock_has_uv_and_what_a_run_needs_apart() -> None:
    parts = (TREE / "constraints.txt").read_text().split("\n# [")
    names = [{line.split("==")[0] for line in part.splitlines() if "==" in line} for part in parts]
    assert [part.lstrip("# [").split("]")[0] for part in parts] == ["installer", "run", "more"]
    assert names[0] == {"uv"}
    assert {"tensorflow", "numba", "sionna-no-rt", "setuptools"} <= names[1]
    assert {"pytest", "sphinx", "flwr", "ruff"} <= names[2]
    assert sum(map(len, names)) == len(set.union(*names))
