"""What is logged where an order is computed is logged again where the run's log is kept.

A worker has no run folder of its own to write to: that a checkpoint was taken, or left aside, or cannot be written,
would be known to it alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from scenarios.files.log import our_logger

PlainRecord = dict[str, Any]
"""The attributes of a `logging.LogRecord`, as JSON has them."""


@contextmanager
def sending(send: Callable[[PlainRecord], None], *, level: int) -> Iterator[None]:
    """Send what phyloop logs in the block, from `level` on."""
    ours, sender = our_logger(), _Sender(send)
    before = ours.level
    ours.setLevel(level)
    ours.addHandler(sender)
    try:
        yield
    finally:
        ours.removeHandler(sender)
        ours.setLevel(before)


def log_again(sent: PlainRecord) -> None:
    """Log here what was logged there, with the time that it had there."""
    here = logging.getLogger(sent["name"])
    if here.isEnabledFor(sent["levelno"]):
        here.handle(logging.makeLogRecord(sent))


class _Sender(logging.Handler):
    def __init__(self, send: Callable[[PlainRecord], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        # A message that cannot be written down is no reason to fail a trial.
        with suppress(TypeError, ValueError):
            plain = {**vars(record), "msg": record.getMessage(), "args": None, "exc_info": None}
            self._send(json.loads(json.dumps(plain, default=str)))
