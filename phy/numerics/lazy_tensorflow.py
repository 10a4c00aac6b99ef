"""TensorFlow, imported when it is first used: links in fused kernels run without it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Lazy:
    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("tensorflow"), name)


tf: Any = _Lazy()
