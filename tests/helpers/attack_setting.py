"""Attacks as a scenario writes them."""

from __future__ import annotations

from typing import Any

from fl.config.attack import Attack, attacks


def attack_of(**written: Any) -> Attack:
    """Return the attack of `learning.attack`."""
    return attacks.read(written)
