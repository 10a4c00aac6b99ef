"""Tutorials with the outputs that their cells have here: notebooks are stored without, and executed once."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
EXECUTED = ROOT / "build" / "tutorials"
"""Where the executed notebooks are, those of the tests too."""

PACKAGES = ("phy", "privacy", "fl", "scenarios", "phyloop")


def execute(path: Path, *, folder: Path) -> nbformat.NotebookNode:
    """Execute a notebook in `folder`, from its first cell to its last, and keep it in `EXECUTED`.

    Raises:
        nbclient.exceptions.CellExecutionError: the error of a cell.
    """
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    os.environ["PYTHONPATH"] = str(ROOT)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    EXECUTED.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, EXECUTED / path.name)
    return notebook


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with its outputs: those of its last execution, if neither a cell nor phyloop changed since."""
    kept = EXECUTED / path.name
    sources = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    if kept.exists() and kept.stat().st_mtime > max(file.stat().st_mtime for file in sources):
        notebook = nbformat.read(kept, as_version=4)
        if _sources(notebook) == _sources(nbformat.read(path, as_version=4)):
            return notebook
    with tempfile.TemporaryDirectory() as folder:
        return execute(path, folder=Path(folder))


def _sources(notebook: nbformat.NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells]


def use_executed(_: Any, name: str, source: list[str]) -> None:
    """Give Sphinx the executed notebook in place of the stored one (event `source-read`)."""
    path = TUTORIALS.parent / f"{name}.ipynb"
    if path.parent == TUTORIALS and path.exists():
        notebook = executed(path)
        for cell in notebook.cells:  # what a program reports on its way is no result
            if "outputs" in cell:
                cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
        source[0] = nbformat.writes(notebook)
