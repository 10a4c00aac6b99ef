"""The log of a run folder, one JSON object per line (`log.jsonl`), and what standard error says.

The logger is `phyloop`, with children (`phyloop.run`, `phyloop.task`, ..); `event(...)` gives a record its name in the
file, and fields.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import MemoryHandler, RotatingFileHandler
from pathlib import Path, PurePath
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

from scenarios.files.plain_files import open_plain
from scenarios.schema.errors import PIPED_COLUMNS

LOG = "log.jsonl"
OLDER = "log.jsonl.1"
MAX_BYTES = 8 << 20
"""A full file replaces `log.jsonl.1`: the two never hold more than twice this."""

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
USUAL = "info"

OURS = logging.getLogger("phyloop")
"""The logger of the whole program."""

_FIELDS = "phyloop_fields"
_LONGEST = 20_000
"""Characters of one text."""
_EARLY = 1000
"""Records that wait for a folder to be known."""

ALIKE_SHOWN = 5
"""Failures of tasks that standard error shows; all of them are in the file and in the report."""


def logger(part: str) -> logging.Logger:
    """The logger of a part of the program, `phyloop.PART`."""
    return OURS.getChild(part)


def event(name: str, /, **fields: object) -> dict[str, Any]:
    """`extra=event("task-failed", trial=3)`: the name of what happened, and plain values that belong to it."""
    return {_FIELDS: {"event": name, **fields}}


@contextmanager
def logged(folder: Path, *, level: str = USUAL) -> Iterator[None]:
    """Keep what is logged in the block in `folder/log.jsonl`, from `level` on, warnings of libraries too.

    What `telling` heard before goes in first. A disk that refuses the log stops nothing.
    """
    file = LogFile(folder, level=LEVELS[level])
    root, before = logging.getLogger(), OURS.level
    OURS.setLevel(min(LEVELS[level], before or logging.CRITICAL))
    root.addHandler(file)
    for early in [one for one in root.handlers if type(one) is MemoryHandler]:
        early.setTarget(file)
        early.flush()
        root.removeHandler(early)
    try:
        yield
    finally:
        root.removeHandler(file)
        OURS.setLevel(before)
        file.close()


@contextmanager
def telling(*, level: str = USUAL, traces: bool = False) -> Iterator[None]:
    """Tell records of the block on standard error: warnings and errors, and with level debug all of them.

    Level error leaves out warnings; of a library only warnings and errors are told at any level; `traces` shows the
    traceback of what failed. What is told before `logged` knows its folder goes there later.
    """
    root, before, form = logging.getLogger(), OURS.level, warnings.formatwarning
    told, early = StandardError(traces=traces), MemoryHandler(_EARLY, flushLevel=sys.maxsize, flushOnClose=False)
    told.setLevel(logging.DEBUG if level == "debug" else max(LEVELS[level], logging.WARNING))
    OURS.setLevel(LEVELS[level])
    for handler in (told, early):
        root.addHandler(handler)
    logging.captureWarnings(True)
    warnings.formatwarning = _in_one_line
    try:
        yield
    finally:
        warnings.formatwarning = form
        logging.captureWarnings(False)
        for handler in (told, early):
            root.removeHandler(handler)
        OURS.setLevel(before)


class LogFile(RotatingFileHandler):
    """Appends a line per record and flushes it, so that whatever kills the process leaves whole lines."""

    def __init__(self, folder: Path, *, level: int = logging.NOTSET, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(
            folder / LOG, maxBytes=max_bytes, backupCount=1, encoding="utf-8", errors="replace", delay=True
        )
        self.addFilter(lambda record: record.levelno >= level and _is_told(record))

    def _open(self) -> TextIOWrapper:
        number = open_plain(Path(self.baseFilename), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return os.fdopen(number, "a", encoding=self.encoding, errors=self.errors)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return json.dumps(as_fields(record), ensure_ascii=False, default=str)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Pass over a full or lost disk, and a message whose values do not fit its text: no reason to stop a run."""

    def close(self) -> None:
        """Let go of the file."""
        with suppress(OSError):
            super().close()


class StandardError(logging.Handler):
    """Says a record in one line; of failures that come by the hundred the first."""

    def __init__(self, *, traces: bool = False) -> None:
        super().__init__()
        self.addFilter(_is_told)
        self._traces = traces
        self._alike: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record on whatever standard error is now, which a progress bar replaces."""
        fields: Mapping[str, Any] = getattr(record, _FIELDS, {})
        self._alike[name := str(fields.get("event"))] += bool(fields.get("many"))
        if fields.get("quiet") or self._alike[name] > ALIKE_SHOWN:
            return
        # A message whose values do not fit its text is a library's mistake, and no reason to stop.
        with suppress(OSError, TypeError, ValueError, KeyError):
            word = "warning: " if record.levelno == logging.WARNING else ""
            text = " ".join(record.getMessage().split())
            text = f"phyloop: {word}{text}{'' if text.endswith('.') else '.'}"
            width = get_terminal_size().columns if sys.stderr.isatty() else PIPED_COLUMNS
            text = fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            print(text, file=sys.stderr, flush=True)
            if self._traces and "trace" in fields:
                print(fields["trace"], file=sys.stderr, flush=True)


def _is_told(record: logging.LogRecord) -> bool:
    """Return True for a record of ours, or a library's warning or error."""
    return record.name.split(".")[0] == OURS.name or record.levelno >= logging.WARNING


def as_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the object of a line: UTC time, level, event, logger, the sentence, and the record's own fields."""
    fields: Mapping[str, Any] = getattr(record, _FIELDS, {})
    known = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "event": fields.get("event", "warning" if record.name == "py.warnings" else "message"),
        "logger": record.name,
        "says": record.getMessage(),
    }
    whole = known | {key: value for key, value in fields.items() if key not in (*known, "many", "quiet")}
    return {key: value[:_LONGEST] if isinstance(value, str) else value for key, value in whole.items()}


def short_path(file: str) -> str:
    """`fl/algorithms/flmc/trials.py` for that file, wherever it was installed; `tensorflow/...` for a library's."""
    parts = PurePath(file).parts
    for mark in ("site-packages", "dist-packages"):
        if mark in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(mark) :])
    root = PurePath(__file__).parts[:-3]
    return "/".join(parts[len(root) :]) if parts[: len(root)] == root else PurePath(file).name


def _in_one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Python's form of a warning without the source line, and with the file below its package."""
    del line
    return f"{category.__name__}: {message} ({short_path(filename)}:{lineno})"
