"""Ctrl-C and SIGTERM stop a run wherever they fall, also inside native code.

An exception raised in a signal handler while a library calls back into Python may be turned into an error of that
library, or be lost: what was asked for is therefore also remembered.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_asked: list[int] = []


@contextmanager
def interruptible(*, last: bool = False) -> Iterator[None]:
    """In the block the first Ctrl-C or SIGTERM raises KeyboardInterrupt, whatever fails or is lost after it.

    Outside of the main thread no signal comes. `last`: the process ends with the block, so that a second signal must
    not kill it on its way out.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, _interrupt) for number in _SIGNALS if main}
    try:
        yield
    except Exception as error:
        if _asked:
            raise KeyboardInterrupt from error
        raise
    finally:
        stopped = bool(_asked)
        _asked.clear()
        if not (last and stopped):
            for number, handler in before.items():
                signal.signal(number, handler)


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
