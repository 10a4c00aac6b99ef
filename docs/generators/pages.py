"""The generated pages, in a folder that git ignores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from docs.generators import api, conformance, gallery, keys, tutorials


def write(folder: Path, tell: Callable[[str], None]) -> None:
    """Write all generated pages into `folder`, and execute tutorials; `tell` gets lines of progress.

    Figures that show the same already are left alone.
    """
    for stale in folder.rglob("*.md"):
        stale.unlink()
    folder.mkdir(exist_ok=True)
    keys.write(folder / "keys")
    api.write(folder)
    gallery.write(folder / "gallery", tell)
    conformance.write(folder / "conformance.md")
    tutorials.execute_all(tell)
