"""The adaptive b of PRoBit, from round to round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from probit_setting import Array, equal, probit, some_updates

from fl.schemes.coders.coder import Senders
from fl.schemes.probit.probit import NOISE_TO_SIGNAL, SMALLEST_SHARE, Probit
from phy.fading.block_taps import UplinkContext
from privacy.mechanisms.probit import dp_bound


def ran(scheme: Probit, updates: Array, *, rounds: int, lie: bool = False) -> list[float]:
    """b of every round in which devices send the same updates, three tenths of them nothing but ones where they lie."""
    count = len(updates)
    bounds = []
    for index in range(rounds):
        given: Any = {"devices": np.arange(count), "context": UplinkContext(seed=2, trials=(0,), round_index=index)}
        scheme.begin(**given, flip_rate=np.zeros(count))
        sent = scheme.encode(updates, **given)
        if lie:
            sent[:, : 3 * count // 10] = 0xFF
        scheme.aggregate(sent, Senders(weights=equal(count), factor=np.ones(count), **given))
        bounds.append(scheme.state()["next_b"])
    return bounds


def test_the_adaptive_b_goes_where_noise_is_four_times_the_signal_from_above_and_below() -> None:
    count, num_values, size = 40, 20_000, 0.003
    rng = np.random.default_rng(5)
    updates = np.tile(size * rng.choice([-1.0, 1.0], num_values), (count, 1)).astype(np.float32)
    expected = NOISE_TO_SIGNAL * size * np.sqrt(count)
    # v sqrt(2 / M) is the error of the power, which is v / 16: 64 % of it at four errors, and b goes with the root.
    for start in (1.0, expected / 8.0):
        scheme = probit(num_values, b=1.0, bound="adaptive")
        scheme.restore({"next_b": np.array(start)})
        assert ran(scheme, updates, rounds=10)[-1] == pytest.approx(expected, rel=0.4)


def test_the_adaptive_b_never_passes_its_largest_value_nor_what_privacy_asks_for() -> None:
    updates = some_updates(20, 2000, size=1e-3)
    scheme = probit(2000, b=0.05, bound="adaptive")
    scheme.restore({"next_b": np.array(0.01)})
    lying = ran(scheme, updates, rounds=8, lie=True)
    assert max(lying) == lying[-1] == 0.05
    nothing = ran(probit(2000, b=0.05, bound="adaptive"), np.zeros_like(updates), rounds=40)
    assert nothing[-1] == pytest.approx(0.05 * SMALLEST_SHARE)
    needed = float(dp_bound(epsilon=1.0, l1_clip=0.001))
    private = probit(2000, b=0.05, bound="adaptive", epsilon=1.0, l1_clip=0.001)
    assert ran(private, np.zeros_like(updates), rounds=20)[-1] == pytest.approx(needed)
