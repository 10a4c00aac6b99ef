"""The time as everything in a run folder tells it."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> str:
    """The current time as ISO 8601 text in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
