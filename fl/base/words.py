"""Words of counts."""

from __future__ import annotations


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Return `1 round`, `2 rounds`, `1,200 batches`; `nouns` is a plural that does not end in a mere s."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"
