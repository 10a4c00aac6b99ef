"""The contract of attacks. Its functions raise AssertionError with the numbers that break it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.attacks.attack import Attack
from fl.attacks.attacks import Attackers
from phy.fading.block_taps import UplinkContext

_CONTEXT = UplinkContext(seed=7, trials=(0,), round_index=3)
_DEVICES = np.arange(40, 52)
_ATTACKERS = np.isin(np.arange(12), [0, 3, 11])


def _sent(attack: Attack, context: UplinkContext = _CONTEXT) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what 12 devices would send honestly, and what they send under attack, `[12, ...]`."""
    drawn = np.random.default_rng(2)
    attackers = Attackers(config=attack, who=np.isin(np.arange(_DEVICES[-1] + 1), _DEVICES[_ATTACKERS]))
    if attack.acts_on == "updates":
        updates = drawn.normal(size=(12, 501)).astype(np.float32)
        return updates, attackers.updates(updates.copy(), devices=_DEVICES, context=context)
    if attack.acts_on == "bits":
        payload = drawn.integers(0, 256, (1, 12, 63), dtype=np.uint8)
        return payload[0], attackers.bits(payload.copy(), devices=_DEVICES, context=context)[0]
    if attack.acts_on == "labels":
        labels = drawn.integers(0, 9, 120)
        samples = [np.arange(10 * device, 10 * device + 10) for device in range(12)]
        attackers = Attackers(config=attack, who=_ATTACKERS)
        found = attackers.labels(labels.copy(), samples=samples, num_classes=10)
        return labels.reshape(12, 10), found.reshape(12, 10)
    honest = np.ones((1, 12, 64))
    words = drawn.integers(0, 1 << 32, honest.shape, dtype=np.uint32)
    jammed = attack.of_air(honest, words=lambda: words, normals=lambda: drawn.normal(size=honest.shape))
    return honest[0], np.where(_ATTACKERS[:, None], jammed[0], honest[0])


def honest_devices_send_what_they_would(attack: Attack) -> None:
    """An attack changes nothing of honest devices."""
    honest, sent = _sent(attack)
    assert sent.shape == honest.shape, f"an attack on {honest.shape} gives {sent.shape}"
    changed = np.flatnonzero((sent != honest).any(axis=1) & ~_ATTACKERS)
    assert not len(changed), f"devices {changed.tolist()} are honest, and what they send has changed"


def attackers_send_something_else(attack: Attack) -> None:
    """Every attacker sends something else than it would honestly."""
    honest, sent = _sent(attack)
    same = np.flatnonzero((sent == honest).all(axis=1) & _ATTACKERS)
    assert not len(same), f"devices {same.tolist()} attack, and send what they would honestly"


def attackers_send_finite_numbers_of_the_same_type(attack: Attack) -> None:
    """What attackers send has the type of what honest devices send, and is finite."""
    honest, sent = _sent(attack)
    assert sent.dtype == honest.dtype, f"honest devices send {honest.dtype}, attackers {sent.dtype}"
    assert np.isfinite(sent.astype(np.float64)).all(), "attackers send NaN or infinity"


def the_same_round_gives_the_same_attack(attack: Attack) -> None:
    """The same round gives the same attack."""
    assert np.array_equal(_sent(attack)[1], _sent(attack)[1]), "the attack differs when a round is computed again"


CHECKS = (
    honest_devices_send_what_they_would,
    attackers_send_something_else,
    attackers_send_finite_numbers_of_the_same_type,
    the_same_round_gives_the_same_attack,
)
