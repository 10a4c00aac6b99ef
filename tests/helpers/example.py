"""The worked examples, imported as modules outside the packages."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from phy.config.registry import registries
from scenarios.schema.schema_keys import schema_keys


@contextmanager
def imported(path: Path) -> Iterator[Any]:
    """Import a file, and forget in the end what it registers."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    schema_keys.cache_clear()
    try:
        yield module
    finally:
        for registry in registries().values():
            registry.forget(path.stem)
        schema_keys.cache_clear()
        del sys.modules[path.stem]
