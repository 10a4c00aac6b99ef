"""Attacks as a scenario writes them."""

from __future__ import annotations

from typing import Any

from fl.attacks.attack import Attack, attacks


def attack_of(**written: Any) -> Attack:
    """Return the attack of `learning.attack`."""
    return attacks.read(written)
