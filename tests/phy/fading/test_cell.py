"""Cells: path loss and line of sight against Sionna's scenarios, positions and shadowing against their laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK
from scipy import stats

from phy.config import CellConfig, ChannelConfig
from phy.fading.cell import (
    DEVICE_HEIGHT_M,
    SERVER_HEIGHT_M,
    Placement,
    breakpoint_distance_m,
    line_of_sight_probability,
    path_loss_db,
    place_devices,
    shadowing_std_db,
)

DISTANCE_M = np.array([12.0, 17.0, 40.0, 120.0, 300.0, 800.0, 2500.0, 4900.0])
SCENARIOS = ("umi", "uma", "rma")
CHANNEL = ChannelConfig(carrier_frequency_hz=3.5e9)


def sionna_scenario(scenario: str, *, line_of_sight: bool, carrier_frequency_hz: float) -> Any:
    """Sionna's scenario with one server at the origin and a device at each distance.

    `SystemLevelScenario.distance_3d` of Sionna 1.2.2 returns the horizontal distance; the slant range that it has
    computed as well, and that TR 38.901 asks for, is put in its place.
    """
    import tensorflow as tf
    from sionna.phy.channel.tr38901 import Antenna, RMaScenario, UMaScenario, UMiScenario

    antenna = Antenna("single", "V", "omni", carrier_frequency_hz)
    kinds = {"umi": UMiScenario, "uma": UMaScenario, "rma": RMaScenario}
    indoor_model = [] if scenario == "rma" else ["low"]
    corrected = type("Corrected", (kinds[scenario],), {"distance_3d": property(lambda self: self._distance_3d)})
    found = corrected(carrier_frequency_hz, *indoor_model, antenna, antenna, "uplink", precision="double")
    devices = np.zeros((1, len(DISTANCE_M), 3))
    devices[0, :, 0], devices[0, :, 2] = DISTANCE_M, DEVICE_HEIGHT_M
    server = np.array([[[0.0, 0.0, SERVER_HEIGHT_M[scenario]]]])
    found.set_topology(
        tf.constant(devices),
        tf.constant(server),
        tf.zeros([1, len(DISTANCE_M), 3], tf.float64),
        tf.zeros([1, 1, 3], tf.float64),
        tf.zeros([1, len(DISTANCE_M), 3], tf.float64),
        tf.zeros([1, len(DISTANCE_M)], tf.bool),
        line_of_sight,
    )
    return found


@pytest.mark.parametrize("carrier_frequency_hz", [0.7e9, 3.5e9, 28e9])
@pytest.mark.parametrize("line_of_sight", [True, False])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_path_loss_is_sionnas(scenario: str, line_of_sight: bool, carrier_frequency_hz: float) -> None:
    oracle = sionna_scenario(scenario, line_of_sight=line_of_sight, carrier_frequency_hz=carrier_frequency_hz)
    found = path_loss_db(scenario, DISTANCE_M, line_of_sight=line_of_sight, carrier_frequency_hz=carrier_frequency_hz)
    # Both in double precision; Sionna keeps the speed of light and a few constants in single.
    np.testing.assert_allclose(found, oracle.basic_pathloss.numpy()[0, 0], atol=1e-3)
    # The distances lie on both sides of the breakpoint where it matters.
    if scenario == "umi":
        assert DISTANCE_M[0] < breakpoint_distance_m(scenario, carrier_frequency_hz) < DISTANCE_M[-1]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_line_of_sight_is_as_likely_as_in_sionna(scenario: str) -> None:
    oracle = sionna_scenario(scenario, line_of_sight=True, carrier_frequency_hz=3.5e9)
    expected = np.ravel(oracle.los_probability.numpy())
    np.testing.assert_allclose(line_of_sight_probability(scenario, DISTANCE_M), expected, atol=1e-6)


@pytest.mark.parametrize("line_of_sight", [True, False])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_shadowing_is_as_wide_as_in_sionna(scenario: str, line_of_sight: bool) -> None:
    oracle = sionna_scenario(scenario, line_of_sight=line_of_sight, carrier_frequency_hz=3.5e9)
    found = shadowing_std_db(scenario, DISTANCE_M, line_of_sight=line_of_sight, carrier_frequency_hz=3.5e9)
    np.testing.assert_allclose(found, 10.0 * oracle.lsp_log_std.numpy()[0, 0, :, 3], rtol=1e-6)


def test_path_loss_has_the_value_of_the_table() -> None:
    """UMi in line of sight at 3D distance 100 m and 10 GHz: 32.4 + 42 + 20 dB."""
    horizontal = np.sqrt(100.0**2 - (10.0 - 1.5) ** 2)
    found = path_loss_db("umi", horizontal, line_of_sight=True, carrier_frequency_hz=10e9)
    assert found == pytest.approx(94.4, abs=1e-9)


def place(cell: CellConfig, *, num_devices: int = 50, trials: tuple[int, ...] = (0, 1, 2), seed: int = 7) -> Placement:
    return place_devices(cell, CHANNEL, num_devices=num_devices, trials=trials, seed=seed)


def test_devices_fill_the_ring_evenly() -> None:
    cell = CellConfig(min_distance_m=50.0, radius_m=200.0)
    found = place(cell, num_devices=4000)
    assert found.distance_m.min() >= 50.0
    assert found.distance_m.max() <= 200.0
    area = (found.distance_m.ravel() ** 2 - 50.0**2) / (200.0**2 - 50.0**2)
    # p of a correct generator is uniform: below 1e-4 once in 10 000 seeds, and the seed is fixed.
    assert stats.kstest(area, "uniform").pvalue > 1e-4
    # Uniform in the radius would not be even.
    assert stats.kstest((found.distance_m.ravel() - 50.0) / 150.0, "uniform").pvalue < 1e-4


def test_shadowing_is_normal_and_independent_of_the_distance() -> None:
    found = place(CellConfig(line_of_sight="never"), num_devices=4000)
    assert stats.kstest(found.shadowing_db.ravel() / 7.82, "norm").pvalue > 1e-4
    correlation = np.corrcoef(found.shadowing_db.ravel(), found.distance_m.ravel())[0, 1]
    assert abs(correlation) < ERRORS_OF_A_CHECK / np.sqrt(found.distance_m.size)


def test_sight_is_by_chance_as_the_distance_allows() -> None:
    found = place(CellConfig(radius_m=400.0), num_devices=4000)
    probability = line_of_sight_probability("umi", found.distance_m)
    surplus = (found.line_of_sight - probability).sum()
    assert abs(surplus) < ERRORS_OF_A_CHECK * np.sqrt((probability * (1.0 - probability)).sum())
    assert place(CellConfig(line_of_sight="always")).line_of_sight.all()
    assert not place(CellConfig(line_of_sight="never")).line_of_sight.any()


def test_the_gain_is_one_at_the_reference_distance() -> None:
    for sight in ("always", "never"):
        cell = CellConfig(
            positions_m=((60.0, 80.0), (0.0, -100.0)),
            reference_distance_m=100.0,
            shadowing=False,
            line_of_sight=sight,
        )
        np.testing.assert_allclose(place(cell, num_devices=2).gain, 1.0, rtol=1e-6)


def test_the_gain_is_an_amplitude() -> None:
    """In line of sight before the breakpoint the power falls as the slant range to the 2.1."""
    cell = CellConfig(positions_m=((200.0, 0.0),), shadowing=False, line_of_sight="always")
    assert breakpoint_distance_m("umi", 3.5e9) == pytest.approx(210.0, rel=2e-3)
    slant = np.hypot([100.0, 200.0], SERVER_HEIGHT_M["umi"] - DEVICE_HEIGHT_M)
    expected = (slant[0] / slant[1]) ** (2.1 / 2.0)
    assert place(cell, num_devices=1).gain[0, 0] == pytest.approx(expected, rel=1e-6)


def test_gains_multiply_path_loss_and_shadowing() -> None:
    found = place(CellConfig())
    reference = path_loss_db("umi", 100.0, line_of_sight=True, carrier_frequency_hz=3.5e9)
    expected = 10.0 ** (-(found.path_loss_db + found.shadowing_db - reference) / 20.0)
    np.testing.assert_allclose(found.gain, expected, rtol=1e-6)
    gains = place_devices(CellConfig(), CHANNEL, num_devices=50, trials=(0, 1, 2), seed=7).gain
    assert gains.dtype == np.float32
    assert np.array_equal(gains, found.gain)


def fields_of(found: Placement, trials: Any, devices: Any = slice(None)) -> list[NDArray[Any]]:
    return [array[trials, devices] for array in vars(found).values()]


def same(first: list[NDArray[Any]], second: list[NDArray[Any]]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_positions_of_a_trial_do_not_depend_on_its_batch() -> None:
    assert same(fields_of(place(CellConfig(), trials=(2,)), 0), fields_of(place(CellConfig()), 2))


def test_more_devices_leave_the_first_where_they_are() -> None:
    few, many = place(CellConfig(), num_devices=5), place(CellConfig(), num_devices=50)
    assert same(fields_of(few, slice(None)), fields_of(many, slice(None), slice(5)))


def test_other_trials_and_seeds_are_other_places() -> None:
    found = place(CellConfig())
    assert len(np.unique(found.distance_m)) == found.distance_m.size
    assert not np.isin(place(CellConfig(), seed=8).distance_m, found.distance_m).any()


@pytest.mark.parametrize(
    ("cell", "channel", "message"),
    [
        ({"positions_m": ((1.0, 2.0),)}, {}, "positions_m has length 1, num_devices is 3; write num_devices: 1"),
        (
            {"radius_m": 6000.0},
            {},
            "a device at 6000 m is beyond 5000 m, where the path loss of umi ends; write radius_m",
        ),
        ({"reference_distance_m": 6e3}, {}, "reference_distance_m at 6000 m is beyond 5000 m, where the path loss"),
        (
            {"scenario": "rma", "radius_m": 9000.0},
            {"carrier_frequency_hz": 40e9},
            r"carrier_frequency_hz 4e\+10 is above 3e\+10, where the path loss of rma ends; write carrier",
        ),
    ],
)
def test_values_outside_the_table_are_refused(cell: dict[str, Any], channel: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        place_devices(CellConfig(**cell), ChannelConfig(**channel), num_devices=3, trials=(0,), seed=1)
