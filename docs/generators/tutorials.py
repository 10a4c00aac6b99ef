"""Tutorials with the outputs that their cells have here: notebooks are stored without, and executed once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
EXECUTED = ROOT / "build" / "tutorials"
"""Where the executed notebooks are, those of the tests too."""

PACKAGES = ("phy", "privacy", "fl", "scenarios", "phyloop")
READ = (".py", ".yaml", ".csv", ".json")
KEY = "phyloop_digest"
"""Where an executed notebook has the digest of what it was made from."""


def execute(path: Path, *, folder: Path) -> nbformat.NotebookNode:
    """Execute a notebook in `folder`, from its first cell to its last, and keep it in `EXECUTED`.

    Raises:
        nbclient.exceptions.CellExecutionError: the error of a cell.
    """
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    notebook.metadata[KEY] = _digest(path)
    os.environ["PYTHONPATH"] = str(ROOT)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    EXECUTED.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, EXECUTED / path.name)
    return notebook


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with its outputs: those of its last execution, if neither it nor phyloop changed since."""
    kept = EXECUTED / path.name
    if kept.exists():
        notebook = nbformat.read(kept, as_version=4)
        if notebook.metadata.get(KEY) == _digest(path):
            return notebook
    with tempfile.TemporaryDirectory() as folder:
        return execute(path, folder=Path(folder))


def execute_all(tell: Callable[[str], None]) -> None:
    """Execute the notebooks that changed, two at a time; `tell` gets a line for each."""

    def one(path: Path) -> None:
        executed(path)
        tell(f"tutorial: {path.stem}")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, sorted(TUTORIALS.glob("*.ipynb"))))


def _digest(path: Path) -> str:
    """Return a digest of a notebook and of all that its cells can reach: the packages' files and the lock."""
    return sha256(path.read_bytes() + _packages()).hexdigest()


@cache
def _packages() -> bytes:
    found = sha256((ROOT / "constraints.txt").read_bytes())
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*")):
            if file.suffix in READ and file.is_file():
                found.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return found.digest()


def use_executed(_: Any, name: str, source: list[str]) -> None:
    """Give Sphinx the executed notebook in place of the stored one (event `source-read`)."""
    path = TUTORIALS.parent / f"{name}.ipynb"
    if path.parent == TUTORIALS and path.exists():
        notebook = executed(path)
        for cell in notebook.cells:  # what a program reports on its way is no result
            if "outputs" in cell:
                cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
        source[0] = nbformat.writes(notebook)
