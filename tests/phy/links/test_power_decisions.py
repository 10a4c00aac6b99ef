"""A link that keeps its last decision on power makes a new one wherever something has changed."""

from __future__ import annotations

import numpy as np
import pytest

from phy.compile import compile_air
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext


def amplitudes(uplink: object, caps: dict, *, round_index: int = 0, trials: tuple[int, ...] = (0, 1)) -> np.ndarray:
    payload = np.zeros((len(trials), 3, 1), np.uint8)
    context = UplinkContext(seed=1, trials=trials, round_index=round_index)
    return uplink.superpose(payload, context=context, caps=caps).decision.amplitude  # type: ignore[attr-defined]


def air(coherence: str = "run") -> object:
    link = {
        "access": "superposition",
        "modulation": "bpsk",
        "channel": {"fading": "rayleigh", "coherence": coherence},
        "power": {"policy": "inversion", "snr_max_db": 20.0},
    }
    return compile_air(LinkConfig.model_validate(link), num_devices=3, num_symbols=8)


def test_other_caps_in_the_next_round_are_obeyed() -> None:
    uplink, cap = air(), np.array([1e-3, 2e-3])
    # Peak and mean of |h w| = 1 differ by float32 rounding.
    np.testing.assert_allclose(amplitudes(uplink, {"budget": cap}), cap, rtol=1e-5)
    np.testing.assert_allclose(amplitudes(uplink, {"budget": cap / 2}, round_index=1), cap / 2, rtol=1e-5)
    # The very same array, with other numbers in it.
    cap /= 4
    np.testing.assert_allclose(amplitudes(uplink, {"budget": cap}, round_index=2), cap, rtol=1e-5)
    assert (amplitudes(uplink, {}, round_index=3) > cap).all()
    with pytest.raises(ValueError, match="cap budget"):
        amplitudes(uplink, {"budget": np.array([np.nan, 1.0])}, round_index=4)


def test_other_taps_and_other_trials_are_decided_anew() -> None:
    uplink = air("round")
    first, second = amplitudes(uplink, {}), amplitudes(uplink, {}, round_index=1)
    assert (first != second).all()
    np.testing.assert_array_equal(amplitudes(uplink, {}, trials=(1,)), first[1:])
