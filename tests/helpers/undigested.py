"""Stores as they were before tasks had digests: what a test changes in one by hand is then taken as written."""

from __future__ import annotations

import sqlite3


def forget_digests(database: sqlite3.Connection) -> None:
    """Drop all digests of an open store."""
    database.executescript(
        "DROP TABLE checks; DROP TABLE record_checks; DELETE FROM meta WHERE key IN ('checked_from', 'store_version');"
    )
