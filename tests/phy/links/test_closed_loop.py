"""Closed-loop power control: the step is the one documented, and the loop settles where theory says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from phy.config import LoopConfig
from phy.links.packets.closed_loop import PowerLoop, adapt_power
from phy.measure.counts import LinkCounts, empty_counts


def counts(errors: object, bits: object, *, packet_errors: object = 0, packets: object = 0) -> LinkCounts:
    given = (errors, bits, packet_errors, packets)
    whole = np.broadcast_arrays(*(np.atleast_2d(np.asarray(value, np.int64)) for value in given))
    return replace(
        empty_counts(*whole[0].shape), bit_errors=whole[0], bits=whole[1], packet_errors=whole[2], packets=whole[3]
    )


def test_a_rate_ten_times_too_high_raises_the_power_by_one_decade_of_the_slope() -> None:
    loop = LoopConfig(target_rate=1e-2, db_per_decade=2.5, max_step_db=10)
    moved = adapt_power(np.array([[0.0, 0.0]]), counts([100, 1], [1000, 1000]), loop=loop, snr_max_db=20)
    assert moved == pytest.approx(np.array([[2.5, -2.5]]))


def test_steps_and_powers_stay_within_their_limits() -> None:
    loop = LoopConfig(target_rate=1e-2, db_per_decade=10, max_step_db=3, min_snr_db=-1)
    now = np.array([[0.0, 19.0, 0.0]])
    moved = adapt_power(now, counts([500, 500, 0], [1000, 1000, 100_000]), loop=loop, snr_max_db=20)
    assert moved.tolist() == [[3.0, 20.0, -1.0]]


def test_no_error_counts_as_half_an_error_and_no_bit_as_nothing() -> None:
    loop = LoopConfig(target_rate=0.05, db_per_decade=1, max_step_db=30)
    moved = adapt_power(np.zeros((1, 2)), counts([0, 0], [99, 0]), loop=loop, snr_max_db=20)
    assert moved == pytest.approx(np.array([[np.log10(0.005 / 0.05), 0.0]]))


def test_the_loop_can_follow_packets_instead_of_bits() -> None:
    loop = LoopConfig(target="bler", target_rate=0.1, db_per_decade=1)
    moved = adapt_power(np.zeros((1, 1)), counts(0, 10_000, packet_errors=10, packets=10), loop=loop, snr_max_db=20)
    assert moved.item() == pytest.approx(1.0)


def settled(loop: LoopConfig, gains_db: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """Mean power of the last half of the rounds over a BPSK channel whose errors are drawn, `[num_devices]`."""
    draw = np.random.default_rng(3)
    powers = PowerLoop(loop, snr_max_db=30, shape=(1, len(gains_db)))
    path = []
    for index in range(rounds):
        path.append(powers.snr_db(index)[0])
        arriving = 10 ** ((path[-1] + gains_db) / 10)
        errors = draw.binomial(20_000, ndtr(-np.sqrt(arriving)))
        powers.update(index, counts(errors, np.full(len(gains_db), 20_000)))
    return np.mean(path[rounds // 2 :], axis=0)


def test_every_device_settles_at_the_power_that_its_target_needs() -> None:
    # BPSK at P |h|^2 / N0 = gamma errs with Q(sqrt(gamma)): 1e-2 needs 7.33 dB whatever the gain.
    gains_db = np.array([0.0, -6.0, -15.0])
    needed = 20 * np.log10(-ndtri(1e-2)) - gains_db
    # 200 errors per round: log10 of the rate has 0.03 decades of spread, a tenth of a dB of power here.
    assert settled(LoopConfig(target_rate=1e-2), gains_db, 60) == pytest.approx(needed, abs=0.15)


def test_another_target_settles_elsewhere() -> None:
    # The planted fault of the test above: with the wrong target it must not agree.
    needed = 20 * np.log10(-ndtri(1e-2))
    assert abs(settled(LoopConfig(target_rate=2e-2), np.zeros(1), 60).item() - needed) > 0.5


def test_a_round_can_be_queried_again_and_rounds_without_counts_start_anew() -> None:
    powers = PowerLoop(LoopConfig(initial_snr_db=5), snr_max_db=20, shape=(1, 1))
    powers.update(0, counts(500, 1000))
    assert powers.snr_db(0).item() == 5
    assert powers.snr_db(1).item() == powers.snr_db(1).item() > 5
    assert powers.snr_db(7).item() == 5


@pytest.mark.parametrize(("packets", "target_rate"), [(1, 0.1), (4, 0.1), (1, 0.02)])
def test_rounds_too_short_to_show_the_target_settle_there_all_the_same(packets: int, target_rate: float) -> None:
    # A packet error rate that falls by a decade per 6 dB: 10^(-P / 6 dB) below one.
    loop = LoopConfig(target="bler", target_rate=target_rate, db_per_decade=1.0, initial_snr_db=8.0)
    draw = np.random.default_rng(11)
    powers = PowerLoop(loop, snr_max_db=30, shape=(1, 400))
    rates = []
    for index in range(600):
        rate = np.minimum(10 ** (-powers.snr_db(index)[0] / 6.0), 1.0)
        rates.append(rate.mean())
        powers.update(index, counts(0, 0, packet_errors=draw.binomial(packets, rate), packets=packets))
    assert np.mean(rates[300:]) == pytest.approx(target_rate, rel=0.35)


def test_a_link_without_errors_never_raises_its_power() -> None:
    loop = LoopConfig(target="bler", target_rate=0.1)
    moved = adapt_power(np.full((1, 1), 10.0), counts(0, 100, packet_errors=0, packets=1), loop=loop, snr_max_db=40)
    assert moved.item() < 10.0
