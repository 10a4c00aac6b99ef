"""What makes a file no recorded channel, and the most bytes that are read of one array."""

from __future__ import annotations

MOST_BYTES = 8 << 30
"""Largest array of an `.npz` file, which is read as a whole [B]."""


class TraceError(ValueError):
    """A file that holds no channel which could be simulated: what is wrong, and the remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy = problem, remedy

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"
