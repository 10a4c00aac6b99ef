"""Permission to run Python code that a scenario names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ALLOW = "--allow-code"

_allowed: ContextVar[bool] = ContextVar("allowed", default=False)


@contextmanager
def code_allowed(allowed: bool = True) -> Iterator[None]:
    """Permit code of the user within the block, or forbid it."""
    token = _allowed.set(allowed)
    try:
        yield
    finally:
        _allowed.reset(token)


def is_code_allowed() -> bool:
    """Return True within a block that permits code of the user."""
    return _allowed.get()
