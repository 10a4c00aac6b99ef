"""Ctrl-C and SIGTERM stop a run wherever they fall, also inside native code.

An exception raised in a signal handler while a library calls back into Python may be turned into an error of that
library, or be lost: what was asked for is therefore also remembered.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_asked: list[int] = []


def listen() -> None:
    """From now on the first Ctrl-C or SIGTERM raises KeyboardInterrupt."""
    for number in _SIGNALS:
        signal.signal(number, _interrupt)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """Stop once: a second Ctrl-C must not break the tidying up that the first one began."""
    del frame
    _asked.append(signum)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def stop_if_asked() -> None:
    """Raise KeyboardInterrupt if it was asked for and lost on the way; work that goes on and on calls this."""
    if _asked:
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """What fails after a stop was asked for has been stopped: KeyboardInterrupt, whatever became of it."""
    try:
        yield
    except Exception as error:
        if _asked:
            raise KeyboardInterrupt from error
        raise
