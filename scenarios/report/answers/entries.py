"""Entries of a contest, and the place where they compete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scenarios.report.answers.differences import Values
    from scenarios.report.answers.proofs import Proved
    from scenarios.report.tables.summaries import Mean


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One sweep point in a contest: its name, its mean and values by trial, and what is proved of it.

    `private`: it asks for privacy. `proved` is None where no contestant has a proof, infinite without one of its own.
    """

    name: str
    mean: Mean
    values: Values
    private: bool = False
    proved: Proved | None = None


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where entries compete: its words (`P₀/N₀ = 10 dB`, empty where there is one place), and if x is a number."""

    words: str
    numeric: bool
    entries: tuple[Entry, ...]
