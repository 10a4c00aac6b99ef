"""What is logged where an order is computed is logged again where the run's log is kept.

A worker has no run folder of its own to write to: that a checkpoint was taken, or left aside, or cannot be written,
would be known to it alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypedDict

from scenarios.files.log import event, fields_of, logger, our_logger


class PlainRecord(TypedDict):
    """One record on the wire: `created` in seconds since 1970, `fields` as `scenarios.files.log.event` has them."""

    part: str
    level: int
    created: float
    says: str
    fields: dict[str, Any]


def level_wanted() -> int:
    """What is less than this nobody here would keep."""
    return our_logger().getEffectiveLevel()


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
    here = logger(sent["part"])
    if not here.isEnabledFor(sent["level"]):
        return
    fields = dict(sent["fields"])
    name = str(fields.pop("event", "message"))
    record = here.makeRecord(here.name, sent["level"], "", 0, "%s", (sent["says"],), None, extra=event(name, **fields))
    record.created = sent["created"]
    here.handle(record)


class _Sender(logging.Handler):
    def __init__(self, send: Callable[[PlainRecord], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        # A message that cannot be written down is no reason to fail a trial.
        with suppress(TypeError, ValueError):
            self._send(
                {
                    "part": record.name.partition(".")[2],
                    "level": record.levelno,
                    "created": record.created,
                    "says": record.getMessage(),
                    "fields": json.loads(json.dumps(dict(fields_of(record)), default=str)),
                }
            )
