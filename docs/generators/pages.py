"""The generated pages, in a folder that git ignores."""

from __future__ import annotations

from pathlib import Path

from docs.generators import api, conformance, gallery, keys


def write(folder: Path) -> None:
    """Write all generated pages into `folder`; figures that show the same already are left alone."""
    for stale in folder.rglob("*.md"):
        stale.unlink()
    folder.mkdir(exist_ok=True)
    keys.write(folder / "keys")
    api.write(folder)
    gallery.write(folder / "gallery")
    conformance.write(folder / "conformance.md")
