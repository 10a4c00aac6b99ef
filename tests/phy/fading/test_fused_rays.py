"""Rays of clustered delay lines in kernels against Sionna's under the same keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from phy.config import ChannelConfig
from phy.engines.fused.fading.fades import WAVES_ROOM, padded_paths
from phy.engines.fused.fading.rays import Rays, draw_rays, rays_of
from phy.fading.build import build_propagation
from phy.fading.clusters import NUM_RAYS, clusters_of

ROWS = 150
"""Some 270,000 numbers to sort at two antennas: of Gaussians that round differently some would pair other rays."""
ROUNDING = 2e-6
"""Angles, and products of three of their sines and cosines, in float32."""


def channel_of(letter: str, *, speed_m_s: float = 30.0) -> ChannelConfig:
    return ChannelConfig(model=f"cdl-{letter.lower()}", coherence="packet", speed_m_s=speed_m_s)


def keys() -> Any:
    return np.random.default_rng(3).integers(0, 1 << 32, (ROWS, 2), dtype=np.uint32)


def waves_of(rays: Rays | None, num_paths: int) -> tuple[Any, Any]:
    """(weights `[rows, antennas, paths, rays]`, Doppler shifts `[rows, paths, rays]`), without the direct path."""
    assert rays is not None
    given = draw_rays(rays, keys(), threads=1).reshape(ROWS, -1, WAVES_ROOM)[:, :, : len(rays.amplitude)]
    planes = given.reshape(ROWS, given.shape[1], NUM_RAYS, padded_paths(num_paths))[..., :num_paths].swapaxes(2, 3)
    return planes[:, 1::2] + 1j * planes[:, 2::2], planes[:, 0]


@pytest.mark.parametrize(("letter", "antennas", "speed_m_s"), [("A", 2, 30.0), ("C", 1, 3.0), ("D", 3, 0.0)])
def test_every_ray_is_sionnas(letter: str, antennas: int, speed_m_s: float) -> None:
    channel = channel_of(letter, speed_m_s=speed_m_s)
    which: Any = build_propagation(channel, num_antennas=antennas)
    weights, shifts = (np.asarray(part)[..., :NUM_RAYS] for part in which.draw(tf.constant(keys())))
    found, turning = waves_of(rays_of(channel, num_antennas=antennas), len(which.delays_s))
    assert np.abs(found - weights).max() < ROUNDING
    if speed_m_s:
        assert np.abs(turning - shifts).max() < ROUNDING * channel.max_doppler_hz


def test_rays_paired_by_the_draw_of_another_angle_are_detected() -> None:
    channel = channel_of("A")
    rays = rays_of(channel, num_antennas=1)
    assert rays is not None
    right = waves_of(rays, 23)[1]
    wrong = waves_of(rays._replace(draws=np.where(rays.draws == 5, 6, rays.draws).astype(np.uint32)), 23)[1]
    assert np.abs(right - wrong).max() > 0.01 * channel.max_doppler_hz


@pytest.mark.parametrize("letter", "ABCDE")
def test_clusters_are_those_of_sionnas_tables(letter: str) -> None:
    """To the last bit: what follows from them is rounded as before, whichever engine asks."""
    from sionna.phy.channel.tr38901 import CDL, Antenna

    device = Antenna("single", "V", "omni", 3.5e9)
    theirs, ours = CDL(letter, 100e-9, 3.5e9, device, device, "downlink"), clusters_of(letter)
    for end, (azimuth, zenith) in enumerate(((theirs._aoa, theirs._zoa), (theirs._aod, theirs._zod))):
        np.testing.assert_array_equal(ours.azimuths[end], np.asarray(azimuth)[0, 0, 0])
        np.testing.assert_array_equal(ours.zeniths[end], np.asarray(zenith)[0, 0, 0])
    np.testing.assert_array_equal(ours.powers, np.asarray(theirs._powers)[0, 0, 0])
    np.testing.assert_array_equal(ours.delays_s(100e-9), np.asarray(theirs.delays, float))
    np.testing.assert_array_equal(ours.mean_powers, np.asarray(theirs.powers, float))
