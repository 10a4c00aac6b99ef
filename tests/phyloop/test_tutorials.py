"""Every notebook of docs/tutorials runs from its first cell to its last; the site shows what it printed."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from docs.generators.tutorials import EXECUTED, TUTORIALS, execute, executed

NOTEBOOKS = sorted(TUTORIALS.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "store notebooks without outputs"
    found = execute(path, folder=tmp_path)  # raises the error of a cell
    assert any(cell.get("outputs") for cell in found.cells)
    assert executed(path) == nbformat.read(EXECUTED / path.name, as_version=4)


def test_there_is_a_notebook() -> None:
    assert len(NOTEBOOKS) >= 3
