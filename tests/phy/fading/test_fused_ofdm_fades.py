"""Plane waves that turn by a constant phasor against the sum taken anew at every instant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from phy.config import ChannelConfig
from phy.engines.fused.fading.fades import Fades, draw_waves, fades_of, tap_paths, waves_of
from phy.engines.fused.fading.rays import Rays, draw_rays, rays_of
from phy.fading.build import build_propagation
from phy.numerics.compiled import kernel

ANTENNAS, INSTANTS, STEP_S = 2, 40, 71e-6
CHANNELS = {
    "cdl-a": ChannelConfig(model="cdl-a", coherence="packet", speed_m_s=30.0),
    "cdl-d": ChannelConfig(model="cdl-d", coherence="packet", speed_m_s=3.0),
    "tdl-a": ChannelConfig(model="tdl-a", coherence="packet", speed_m_s=30.0),
    "tdl-e": ChannelConfig(model="tdl-e", coherence="packet", speed_m_s=3.0),
    "rician": ChannelConfig(model="flat", fading="rician", coherence="doppler", speed_m_s=30.0),
}
ROUNDING = 3e-6
"""Fifteen turns by a phasor good to 2e-7 beside sums of 20 to 64 waves of unit power together."""


@kernel
def _taps(fades: Any, key: Any, given: Any, start_s: Any, waves: Any, out: Any) -> None:
    draw_waves(fades, key, given, waves)
    count, paths = out.shape[1], out.shape[3]
    for antenna in range(fades.num_antennas):
        flat = out[antenna].reshape(-1)
        tap_paths(fades, key, waves, start_s, 0, count, antenna, flat, paths, 2 * paths)


def taps(fades: Fades, rays: Rays | None, key: Any, start_s: float) -> Any:
    given = draw_rays(rays, key[None], threads=1)[0]
    out = np.zeros((ANTENNAS, INSTANTS, 2, fades.padded_paths), np.float32)
    _taps(fades, key, given, np.float32(start_s), waves_of(fades), out)
    return np.moveaxis(out[:, :, 0] + 1j * out[:, :, 1], 1, 2)[:, : fades.num_paths]


@pytest.fixture(params=CHANNELS)
def channel(request: pytest.FixtureRequest) -> ChannelConfig:
    return CHANNELS[request.param]


def both(channel: ChannelConfig, *, start_s: float = 0.0, stretch: float = 1.0) -> tuple[Any, Any]:
    key = np.array([0x1234, 0xABCD], np.uint32)
    offsets = np.arange(INSTANTS) * STEP_S
    fades = fades_of(channel, num_antennas=ANTENNAS, still=False, offsets_s=offsets * stretch)
    at = np.float32(start_s) + offsets.astype(np.float32)
    expected = build_propagation(channel, num_antennas=ANTENNAS).taps(tf.constant(key[None]), tf.constant(at[None]))
    rays = rays_of(channel, num_antennas=ANTENNAS)
    return taps(fades, rays, key, start_s), np.asarray(expected)[0]


def test_turning_waves_are_the_sum_taken_anew(channel: ChannelConfig) -> None:
    found, expected = both(channel)
    assert np.abs(found - expected).max() < ROUNDING


def test_late_in_a_realisation_they_keep_step_where_single_precision_cannot(channel: ChannelConfig) -> None:
    """At 2 s instants are rounded by up to 1.2e-7 s, each by itself; ours are regular from a rounded first one."""
    found, expected = both(channel, start_s=2.0)
    late = 2.4e-7 + (2.0 * 2.0**-22 if channel.model.startswith("cdl") else 0.0)  # shifts: sums of rounded products
    assert np.abs(found - expected).max() < ROUNDING + 2.0 * np.pi * channel.max_doppler_hz * late


def test_a_percent_of_speed_is_detected(channel: ChannelConfig) -> None:
    found, expected = both(channel, stretch=1.01)
    assert np.abs(found - expected).max() > 10 * ROUNDING
