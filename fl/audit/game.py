"""What the games of all algorithms share: the coins of the worlds, the rounds that are played, and attackers beside."""

from __future__ import annotations

import numpy as np

from fl.attacks.attack import Attack
from fl.attacks.attacks import number_of
from fl.base.arrays import F64, Bools
from fl.base.errors import LearningError
from fl.base.words import plural
from phy.numerics.random import Purpose, seed_sequence


def draw_worlds(seed: int, number: int, count: int) -> Bools:
    """A fair coin for every game of batch `number`, bool `[count]`."""
    drawn = np.random.Generator(np.random.Philox(seed_sequence(seed, number, Purpose.ATTACK)))
    return drawn.integers(0, 2, count).astype(np.bool_)


def weakest_rounds(released: F64, *, count: int) -> tuple[tuple[int, ...], str]:
    """Return the `count` rounds of a run in which most is `released` `[num_rounds]`, the first ones among equals.

    In ascending order; with words such as `rounds 3 to 5 of 10, where most is released`, counted from 1.
    """
    num_rounds = len(released)
    if not 1 <= count <= num_rounds:
        raise LearningError(f"a game of {plural(count, 'round')} does not fit a run of {num_rounds}", "play fewer")
    chosen = np.sort(np.argsort(-released, kind="stable")[:count])
    first, last = chosen[0] + 1, chosen[-1] + 1
    span = (
        f"rounds {first} to {last}" if last - first + 1 == count else f"{plural(count, 'round')} from {first} to {last}"
    )
    which = f"round {first}" if count == 1 else span
    why = "all of them alike" if np.all(released == released[0]) else "where most is released"
    return tuple(chosen.tolist()), f"{which} of {num_rounds}, {why}" if num_rounds > 1 else which


def beside_attackers(attack: Attack | None, *, num_devices: int) -> str:
    """Words on what attackers among the other devices change of a game: nothing. Empty without attackers.

    The audited device is honest, and whoever listens knows what attackers send, as what all others send. Attackers
    that follow honest updates (`zero-gradient`, `duplicate`) follow everybody but the audited device.
    """
    count = 0 if attack is None else number_of(attack, num_devices)
    if attack is None or not count:
        return ""
    who = f"attackers among the others ({count}, {attack.kind})"
    return f"; the device is honest, and {who} change nothing of what it is heard to send"
