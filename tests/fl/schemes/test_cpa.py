"""Compressed private aggregation: gain, moments, error and bounds by theory, anonymity and aggregation SNR."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from cpa_setting import FORMS, KEEP, ROUND, build, quantised, through
from oracles.cpa_error import mean_squared_error, second_moment, theorem_bound

from fl.schemes.cpa import cpa_theory as theory
from fl.schemes.cpa.cpa_theory import Codebook
from fl.schemes.cpa.scheme import CpaScheme
from fl.schemes.scheme import flip_target
from phy.numerics.random import Purpose

GAINS = {
    "as coded": 4 / 3 * KEEP,
    "as printed": 2.0,
    "printed, four levels": 4 / 3,
    "coded levels, printed decode": 4 / 3,
    "independent words": 1.0,
    "no privacy": 4 / 3,
}


@pytest.mark.parametrize(
    ("name", "channel_ber"), [*((name, 0.0) for name in FORMS), ("as coded", 0.1), ("unbiased", 0.1)]
)
def test_one_users_decoded_value_has_the_mean_and_the_second_moment_of_theory(name: str, channel_ber: float) -> None:
    num_blocks = 60_000
    scheme = build(2 * num_blocks, gamma=0.05, **FORMS[name])
    x = np.array([0.03, -0.011], np.float32)
    updates = np.tile(x, num_blocks)[None]
    found = through(scheme, updates, channel_ber=channel_ber).astype(float).reshape(-1, scheme.dimension)
    sent = 0.05 * quantised(scheme, updates)[0]
    if scheme.dimension == 1:
        # Two numbers take turns; each is looked at on its own.
        found, sent = found.reshape(-1, 2), sent.reshape(-1, 2)
    error = found.std(axis=0) / math.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - scheme.gains[0] * sent[0]) < 4 * error)
    if name in GAINS:
        assert scheme.gains[0] == pytest.approx(GAINS[name])
    else:
        assert scheme.gains[0] == pytest.approx(1.0)
    if len(scheme.quantizers) == 1:
        squares = (found.reshape(-1, scheme.dimension) ** 2).sum(axis=1)
        expected = 0.05**2 * second_moment(
            scheme.quantizers[0].points,
            codebook=scheme.codebooks[0],
            decode=scheme.config.decode,
            epsilon=scheme.config.epsilon,
            channel_ber=channel_ber,
        )
        # Where |b S| takes one value only, no statistic is left but rounding.
        assert abs(squares.mean() - expected) < 4 * squares.std() / math.sqrt(len(squares)) + 1e-6 * expected


def test_closed_forms_are_the_numbers_of_the_digest() -> None:
    three = Codebook(num_points=3)
    points = np.array([[-1.0], [0.0], [1.0]])
    assert theory.gain(three, decode="coded", epsilon=0.5) == pytest.approx(0.327, abs=5e-4)
    assert second_moment(points, codebook=three, decode="coded", epsilon=0.5) == pytest.approx(8 / 3)
    assert theory.decode_scale(three, decode="unbiased", epsilon=0.5) == pytest.approx(3 / 4)
    assert theory.decode_scale(Codebook(num_points=8), decode="unbiased", epsilon=0.5) == pytest.approx(7 / 8)
    assert flip_target(0.5) == pytest.approx(1 / (1 + math.exp(0.5)))
    assert flip_target(None) is None
    assert CpaScheme(name="cpa", epsilon=0.5).response.flip_target == pytest.approx(1 / (1 + math.exp(0.5)))
    assert CpaScheme(name="cpa", epsilon=None).response.flip_target is None


def test_the_error_of_the_unbiased_mean_falls_as_one_over_the_root_of_the_number_of_devices() -> None:
    scheme = build(4000, decode="unbiased", gamma=1.0)
    counts = np.array([8, 32, 128, 512])
    errors = []
    for count in counts:
        updates = np.random.default_rng(0).uniform(-1, 1, (count, 4000)).astype(np.float32)
        errors.append(np.std(through(scheme, updates) - quantised(scheme, updates)[..., 0].mean(axis=0)))
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    # The log of a deviation of 4000 numbers has a standard error of 1 / sqrt(8000) = 0.011; that of the slope is 0.004.
    assert slope == pytest.approx(-0.5, abs=0.02)


@pytest.mark.parametrize("name", ["as coded", "as printed", "unbiased", "independent words"])
def test_the_mean_squared_error_is_that_of_theory_and_the_bound_holds_where_the_decode_is_unbiased(name: str) -> None:
    num_users, num_values, rounds = 20, 2000, 10
    scheme = build(num_values, gamma=1.0, **FORMS[name])
    rng = np.random.default_rng(1)
    updates = rng.uniform(-0.6, 0.6, (num_users, num_values)).astype(np.float32)
    points = scheme.quantizers[0].points
    wanted = mean_squared_error(
        updates[..., None].astype(float),
        quantised(scheme, updates),
        points=points,
        codebook=scheme.codebooks[0],
        decode=scheme.config.decode,
        epsilon=scheme.config.epsilon,
    )
    exact = updates.mean(axis=0)
    found = [
        ((through(scheme, updates, context=replace(ROUND, round_index=i)) - exact) ** 2).sum() for i in range(rounds)
    ]
    # Twice the variance of 2000 nearly normal squares per round: sqrt(2 / 20000) relative.
    assert np.mean(found) == pytest.approx(wanted, rel=4 * math.sqrt(2 / (num_values * rounds)))
    bound = theorem_bound(
        points,
        cell_moment=scheme.quantizers[0].cell_moment,
        epsilon=scheme.config.epsilon,
        num_users=num_users,
        num_blocks=num_values,
    )
    # (20) does not know of the gain: as printed, two levels have twice its second moment.
    assert (wanted <= bound) == (name != "as printed")


def test_dithered_and_unbiased_means_are_those_of_the_updates_themselves_and_stay_below_the_bound() -> None:
    num_users, num_values, rounds = 25, 2000, 20
    scheme = build(num_values, gamma=1.0, decode="unbiased", dither=True)
    updates = np.random.default_rng(2).uniform(-0.6, 0.6, (num_users, num_values)).astype(np.float32)
    exact = updates.mean(axis=0)
    found = [through(scheme, updates, context=replace(ROUND, round_index=i)) - exact for i in range(rounds)]
    error = np.std(found) / math.sqrt(rounds * num_values)
    assert abs(np.mean(found * np.sign(exact))) < 4 * error
    bound = theorem_bound(
        scheme.quantizers[0].points,
        cell_moment=scheme.quantizers[0].cell_moment,
        epsilon=0.5,
        num_users=num_users,
        num_blocks=num_values,
    )
    assert (np.square(found).sum(axis=1)).mean() < bound


def test_anonymity_is_that_of_proposition_2_and_what_every_word_leaves() -> None:
    four = theory.anonymity([Codebook(num_points=4)])
    assert (four.printed, four.expected, four.least) == (2.0, 2.0, 2)
    three = theory.anonymity([Codebook(num_points=3)])
    assert (three.printed, three.least) == (1.5, 1)
    words = [(1, 1, -1), (1, -1, 1), (-1, 1, 1)]
    assert three.expected == pytest.approx(np.mean([word.count(word[0]) for word in words]))
    assert theory.anonymity([Codebook(num_points=16)] * 2).printed == 64.0
    nested = theory.anonymity([Codebook(num_points=2), Codebook(num_points=8)])
    assert (nested.printed, nested.expected, nested.least) == (4.0, 4.0, 4)
    assert theory.anonymity([Codebook(num_points=4, balanced=False)]).expected == 2.5


def test_aggregation_snr_is_a_ratio_of_variances_in_either_form() -> None:
    rng = np.random.default_rng(12)
    exact = np.concatenate([rng.normal(0, 1.0, 4000), rng.normal(0, 0.1, 1000), [3.0]])
    noise = rng.normal(0, 0.1, 5001)
    assert theory.aggregation_snr_db(exact, exact - noise) == pytest.approx(
        10 * math.log10(np.var(exact) / np.var(noise))
    )
    places = [slice(0, 4000), slice(4000, 5000), slice(5000, 5001)]
    # 20 dB and 0 dB by variance; deviations of estimated variances below 0.3 dB.
    assert theory.aggregation_snr_db(exact, exact - noise, places=places) == pytest.approx(10.0, abs=0.4)
    # As coded, ratios of 100 and 1 are averaged first: 20 log 50.5. And so over rounds.
    assert theory.coded_snr_db(exact, exact - noise, places=places) == pytest.approx(34.07, abs=0.6)
    assert theory.coded_snr_of_run_db(np.array([20.0, 40.0, np.inf, np.nan])) == pytest.approx(20 * math.log10(55.0))
    assert math.isnan(theory.coded_snr_of_run_db(np.array([np.inf])))
    assert theory.coded_snr_db(exact, exact, places=places) == math.inf
    assert theory.aggregation_snr_db(exact, exact + 1.0) > 200.0
    assert math.isnan(theory.aggregation_snr_db(np.ones(5), exact[:5]))


def test_nested_stages_as_printed_have_1_and_3_bits() -> None:
    """Two coarse levels and eight fine ones within half their spacing: the points of a quantiser of 4 bits."""
    scheme = build(6, gamma=1.0, form="printed", decode="printed", stages=2, rate_bits=(1, 3))
    coarse, fine = scheme.quantizers
    assert [len(coarse.points), len(fine.points)] == [2, 8]
    assert fine.gamma == coarse.spacing / 2.0
    sums = np.sort((coarse.points[:, 0][:, None] + fine.points[:, 0][None, :]).ravel())
    np.testing.assert_allclose(sums, build(1, gamma=1.0, form="printed", rate_bits=4).quantizers[0].points[:, 0])
    assert scheme.num_bits == 12
    # Each stage has the gain of its own codewords: n / (n - 1).
    assert scheme.gains == pytest.approx([2.0, 8.0 / 7.0])
    alike, listed = build(6, stages=2, rate_bits=2), build(6, stages=2, rate_bits=(2, 2))
    updates = np.random.default_rng(1).uniform(-0.02, 0.02, (9, 6)).astype(np.float32)
    assert np.array_equal(through(alike, updates), through(listed, updates))


def test_nested_stages_of_gains_apart_are_decoded_each_by_its_own() -> None:
    """The mean of one user's decoded values is 2 Q_c + 8/7 Q_n, within 4 standard errors."""
    num_values = 100_000
    scheme = build(num_values, gamma=1.0, form="printed", decode="printed", stages=2, rate_bits=(1, 3))
    updates = np.full((1, num_values), 0.3, np.float32)
    levels = list(scheme.levels(updates, key=ROUND.keys(Purpose.CODEBOOK)[0], devices=np.arange(1)))
    coarse, fine = (one.points[which[0, 0], 0] for one, which in zip(scheme.quantizers, levels, strict=True))
    assert (coarse, fine) == pytest.approx((0.5, -0.1875))
    found = through(scheme, updates)
    assert abs(found.mean() - (2.0 * coarse + 8.0 / 7.0 * fine)) < 4 * found.std() / math.sqrt(num_values)


def test_the_printed_quantiser_of_one_bit_is_not_monotone() -> None:
    """Definition 2.2, R = 1: D floor(x / D + 1/2) within gamma = D, sign(x) (gamma - D / 2) beyond: five values."""
    gamma = 1.0
    spacing = 2.0 * gamma / 2**1
    x = np.linspace(-1.5, 1.5, 3001)
    inside = spacing * np.floor(x / spacing + 0.5)
    printed = np.where(np.abs(x) < gamma, inside, np.sign(x) * (gamma - spacing / 2.0))
    assert sorted(set(printed)) == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert (np.diff(printed) < 0).sum() == 2  # from 1 down to 1/2 at gamma, and from -1/2 down to -1 at -gamma
    ours = build(1, gamma=gamma, form="printed", rate_bits=1).quantizers[0]
    assert (np.diff(ours.points[ours.indices(x[:, None].copy()), 0]) >= 0).all()
