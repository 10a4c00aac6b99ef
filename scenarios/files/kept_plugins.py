"""Plug-ins in a run folder, beside the scenario that names them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from scenarios.files.replacement import replacement
from scenarios.schema.plugins import loaded_plugin, write_plugin


def keep_plugins(words: Iterable[str], folder: Path) -> None:
    """Copy plug-ins beside the scenario that a run folder keeps."""
    for word in words:
        plugin = loaded_plugin(word)
        if plugin.module is None:
            path = folder / word
            write_plugin(plugin, path if plugin.main == "__init__.py" else path.parent, write=_replace)


def _replace(path: Path, content: bytes) -> None:
    """Write a file; a link in its place is replaced, not followed."""
    with replacement(path) as file:
        file.write(content)
