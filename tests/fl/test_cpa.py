"""Compressed private aggregation: gain, moments, error and bounds by theory, and every bit by a slow oracle."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from oracles import loop_cpa

from fl.bit_flips import flip_bits
from fl.config.scheme import CpaScheme
from fl.one_bit import codebooks, cpa, radius, theory
from fl.one_bit.base import Senders
from fl.one_bit.codebooks import Codebook
from fl.one_bit.cpa import Cpa
from fl.one_bit.cpa_build import build_cpa
from fl.tasks.base import LearningError
from phy.channels import UplinkContext
from phy.random import Purpose

ROUND = UplinkContext(seed=3, trials=(0,), round_index=4)
KEEP = math.tanh(0.25)
"""2 p - 1 at epsilon 0.5."""

FORMS: dict[str, dict[str, Any]] = {
    "as coded": {},
    "as printed": {"form": "printed", "decode": "printed"},
    "printed, four levels": {"form": "printed", "decode": "printed", "rate_bits": 2},
    "coded levels, printed decode": {"decode": "printed"},
    "unbiased": {"decode": "unbiased"},
    "unbiased, printed levels": {"form": "printed", "decode": "unbiased", "rate_bits": 2},
    "unbiased, many levels": {"decode": "unbiased", "rate_bits": 5},
    "unbiased, hexagonal": {"decode": "unbiased", "dimension": 2},
    "independent words": {"decode": "printed", "codewords": "independent"},
    "nested": {"decode": "unbiased", "stages": 2},
    "no privacy": {"epsilon": None, "decode": "printed"},
}
GAINS = {
    "as coded": 4 / 3 * KEEP,
    "as printed": 2.0,
    "printed, four levels": 4 / 3,
    "coded levels, printed decode": 4 / 3,
    "independent words": 1.0,
    "no privacy": 4 / 3,
}


@dataclass(frozen=True, kw_only=True)
class Piece:
    place: slice


def build(num_values: int, *, round_index: int = 0, **settings: Any) -> Cpa:
    return build_cpa(CpaScheme(name="cpa", **settings), num_values=num_values, round_index=round_index)


def quantised(scheme: Cpa, updates: np.ndarray) -> np.ndarray:
    """The points that updates go to, all stages together, `[K, num_blocks, L]`, in units of the radius."""
    levels = scheme.levels(updates, key=ROUND.keys(Purpose.CODEBOOK)[0], devices=np.arange(len(updates)))
    return np.sum([one.points[which] for one, which in zip(scheme.quantizers, levels, strict=True)], axis=0)


def through(
    scheme: Cpa,
    updates: np.ndarray,
    *,
    context: UplinkContext = ROUND,
    channel_ber: float = 0.0,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """The update after randomized response and a channel of known bit error rate."""
    count = len(updates)
    devices = np.arange(count)
    payload = scheme.encode(updates, devices=devices, context=context)
    kept = (1 - 2 * (scheme.flip_target or 0.0)) * (1 - 2 * channel_ber)
    flipped = flip_bits(
        payload,
        probability=np.full((1, count), (1 - kept) / 2),
        num_bits=scheme.num_bits,
        keys=context.keys(Purpose.PRIVACY),
    )
    return scheme.aggregate(
        flipped,
        Senders(
            devices=devices,
            context=context,
            weights=np.full(count, 1 / count) if weights is None else weights,
            factor=np.full(count, kept),
        ),
    )


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
    assert np.all(np.abs(found.mean(axis=0) - scheme.gain * sent[0]) < 4 * error)
    if name in GAINS:
        assert scheme.gain == pytest.approx(GAINS[name])
    else:
        assert scheme.gain == pytest.approx(1.0)
    if name != "nested":
        squares = (found.reshape(-1, scheme.dimension) ** 2).sum(axis=1)
        expected = 0.05**2 * theory.second_moment(
            scheme.quantizers[0].points,
            codebook=scheme.codebook,
            decode=scheme.decode,
            epsilon=scheme.epsilon,
            channel_ber=channel_ber,
        )
        # Where |b S| takes one value only, no statistic is left but rounding.
        assert abs(squares.mean() - expected) < 4 * squares.std() / math.sqrt(len(squares)) + 1e-6 * expected


def test_closed_forms_are_the_numbers_of_the_digest() -> None:
    three = Codebook(num_points=3)
    points = np.array([[-1.0], [0.0], [1.0]])
    assert theory.gain(three, decode="coded", epsilon=0.5) == pytest.approx(0.327, abs=5e-4)
    assert theory.second_moment(points, codebook=three, decode="coded", epsilon=0.5) == pytest.approx(8 / 3)
    assert theory.decode_scale(three, decode="unbiased", epsilon=0.5) == pytest.approx(3 / 4)
    assert theory.decode_scale(Codebook(num_points=8), decode="unbiased", epsilon=0.5) == pytest.approx(7 / 8)
    assert theory.flip_target(0.5) == pytest.approx(1 / (1 + math.exp(0.5)))
    assert theory.flip_target(None) is None
    assert build(10).flip_target == pytest.approx(1 / (1 + math.exp(0.5)))
    assert build(10, epsilon=None).flip_target is None


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
    wanted = theory.mean_squared_error(
        updates[..., None].astype(float),
        quantised(scheme, updates),
        points=points,
        codebook=scheme.codebook,
        decode=scheme.decode,
        epsilon=scheme.epsilon,
    )
    exact = updates.mean(axis=0)
    found = [
        ((through(scheme, updates, context=replace(ROUND, round_index=i)) - exact) ** 2).sum() for i in range(rounds)
    ]
    # Twice the variance of 2000 nearly normal squares per round: sqrt(2 / 20000) relative.
    assert np.mean(found) == pytest.approx(wanted, rel=4 * math.sqrt(2 / (num_values * rounds)))
    bound = theory.theorem_bound(
        points,
        cell_moment=scheme.quantizers[0].cell_moment,
        epsilon=scheme.epsilon,
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
    bound = theory.theorem_bound(
        scheme.quantizers[0].points,
        cell_moment=scheme.quantizers[0].cell_moment,
        epsilon=0.5,
        num_users=num_users,
        num_blocks=num_values,
    )
    assert (np.square(found).sum(axis=1)).mean() < bound


ORACLE_CASES: list[dict[str, Any]] = [
    {},
    {"decode": "printed", "form": "printed", "stages": 3},
    {"decode": "unbiased", "negative_bins": "zero", "stages": 2},
    {"decode": "coded", "negative_bins": "zero", "codewords": "independent", "rate_bits": 2},
    {"decode": "unbiased", "dimension": 2, "dither": True, "stages": 2},
    {"decode": "printed", "form": "printed", "dimension": 2, "negative_bins": "zero", "dither": True},
    {"decode": "unbiased", "rate_bits": 5, "dither": True},
]


@pytest.mark.parametrize("settings", ORACLE_CASES, ids=str)
@pytest.mark.parametrize("all_heard", [True, False])
def test_bits_and_update_are_those_of_a_loop_over_devices_blocks_and_points(
    settings: dict[str, Any], all_heard: bool
) -> None:
    num_values = 37
    scheme = build(num_values, gamma=0.5, **settings)
    rng = np.random.default_rng(6)
    devices = np.array([11, 3, 70_000, 0])
    updates = rng.normal(0.0, 0.3, (4, num_values)).astype(np.float32)
    key = ROUND.keys(Purpose.CODEBOOK)[0]
    size = scheme.num_blocks * scheme.dimension
    blocks = np.pad(updates / 0.5, ((0, 0), (0, size - num_values))).reshape(4, scheme.num_blocks, -1)
    dither = None
    if scheme.dither:
        dither = scheme.quantizers[-1].dither(
            codebooks.shared_uniforms(
                key=key, devices=devices, num_blocks=scheme.num_blocks, dimension=scheme.dimension
            )
        )
    balanced = scheme.codebook.balanced
    stages = [one.points for one in scheme.quantizers]
    expected = loop_cpa.encode(
        blocks, stages=stages, balanced=balanced, devices=devices.tolist(), key=key, dither=dither
    )
    payload = scheme.encode(updates, devices=devices, context=ROUND)
    assert payload.shape == (1, 4, -(-expected.shape[1] // 8))
    assert scheme.num_bits == expected.shape[1] == len(stages) * -(-num_values // scheme.dimension)
    np.testing.assert_array_equal(payload[0], np.packbits(expected, axis=1))
    received = rng.integers(0, 2, expected.shape).astype(np.uint8)
    weights = np.array([0.4, 0.1, 0.3, 0.2])
    factor = np.array([0.2, 0.5, 0.24, 0.1])
    known = np.ones(expected.shape, bool) if all_heard else rng.random(expected.shape) < 0.4
    known[:, 5] = all_heard
    found = scheme.aggregate(
        np.packbits(received, axis=1)[None],
        Senders(devices=devices, context=ROUND, weights=weights, factor=factor, known=None if all_heard else known),
    )
    wanted = loop_cpa.decode(
        received,
        stages=stages,
        balanced=balanced,
        devices=devices.tolist(),
        key=key,
        weights=weights,
        factor=factor,
        known=known,
        decode=scheme.decode,
        keep=KEEP,
        negative_bins=scheme.negative_bins,
        dither=dither,
    )
    np.testing.assert_allclose(found, 0.5 * wanted.ravel()[:num_values], atol=2e-6)


def test_the_decoder_uses_nothing_but_the_seed() -> None:
    sender, receiver = build(500, decode="unbiased", epsilon=None), build(500, decode="unbiased", epsilon=None)
    updates = np.random.default_rng(7).normal(0, 0.03, (400, 500)).astype(np.float32)
    devices = np.arange(400)
    payload = sender.encode(updates, devices=devices, context=ROUND)
    told = {"devices": devices, "weights": np.full(400, 1 / 400), "factor": np.ones(400)}
    right = receiver.aggregate(payload, Senders(context=ROUND, **told))
    points = quantised(sender, updates)[..., 0]
    exact = points.mean(axis=0)
    moment = theory.second_moment(
        sender.quantizers[0].points, codebook=sender.codebook, decode="unbiased", epsilon=None
    )
    # Users are independent: the wanted share of the variance is that of one user's value. 4 standard errors.
    expected = math.sqrt((points**2).mean() / moment)
    assert abs(np.corrcoef(right, exact)[0, 1] - expected) < 4 * (1 - expected**2) / math.sqrt(500)
    for other in (replace(ROUND, seed=4), replace(ROUND, round_index=5), replace(ROUND, trials=(1,))):
        wrong = receiver.aggregate(payload, Senders(context=other, **told))
        # 500 independent numbers: a correlation of more than 4 standard errors is none of chance.
        assert abs(np.corrcoef(wrong, exact)[0, 1]) < 4 / math.sqrt(500)


@pytest.mark.parametrize("name", ["as coded", "as printed", "unbiased", "unbiased, hexagonal", "nested"])
def test_no_device_moves_the_update_further_than_its_share_whatever_it_sends(name: str) -> None:
    scheme = build(600, gamma=1.0, **FORMS[name])
    count = 10
    rng = np.random.default_rng(8)
    payload = rng.integers(0, 256, (1, count, -(-scheme.num_bits // 8))).astype(np.uint8)
    told = {
        "devices": np.arange(count),
        "context": ROUND,
        "weights": np.full(count, 1 / count),
        "factor": np.full(count, KEEP),
    }
    before = scheme.aggregate(payload, Senders(**told))
    # |sum_j v_j q_j| <= sum_j |q_j| along each axis; changing a bit of every stage moves it by twice that.
    scale = theory.decode_scale(scheme.codebook, decode=scheme.decode, epsilon=scheme.epsilon)
    reach = 2 * scale / KEEP / count * sum(np.abs(one.points).sum(axis=0).max() for one in scheme.quantizers)
    largest = 0.0
    for evil in (np.full_like(payload[0, 0], 255), np.zeros_like(payload[0, 0]), ~payload[0, 3]):
        payload_of_evil = payload.copy()
        payload_of_evil[0, 3] = evil
        moved = np.abs(scheme.aggregate(payload_of_evil, Senders(**told)) - before).max()
        largest = max(largest, moved)
    assert 0.4 * reach < largest <= reach * (1 + 1e-5)
    huge = np.zeros((count, 600), np.float32)
    huge[3] = 1e30
    told_of_huge = scheme.aggregate(scheme.encode(huge, devices=told["devices"], context=ROUND), Senders(**told))
    told_of_none = scheme.aggregate(scheme.encode(0 * huge, devices=told["devices"], context=ROUND), Senders(**told))
    assert np.abs(told_of_huge - told_of_none).max() <= reach * (1 + 1e-5)


def test_results_do_not_depend_on_chunks_nor_on_the_order_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = build(900, decode="unbiased", stages=2, dither=True)
    updates = np.random.default_rng(9).normal(0, 0.03, (70, 900)).astype(np.float32)
    devices = 5 * np.arange(70) + 2
    told = {"context": ROUND, "weights": np.full(70, 1 / 70), "factor": np.full(70, 0.2)}
    payload = scheme.encode(updates, devices=devices, context=ROUND)
    update = scheme.aggregate(payload, Senders(devices=devices, **told))
    order = np.random.default_rng(10).permutation(70)
    shuffled = scheme.encode(updates[order], devices=devices[order], context=ROUND)
    np.testing.assert_array_equal(shuffled, payload[:, order])
    monkeypatch.setattr(codebooks, "_CELLS_AT_ONCE", 3000)
    monkeypatch.setattr(cpa, "_CELLS_IN_A_ROW", 30_000)
    np.testing.assert_array_equal(scheme.encode(updates, devices=devices, context=ROUND), payload)
    # Sums of 70 numbers of size 0.05 * 6 / 70 in another order, single precision.
    np.testing.assert_allclose(scheme.aggregate(payload, Senders(devices=devices, **told)), update, atol=1e-7)


def test_the_radius_decays_and_follows_each_tensor() -> None:
    config = CpaScheme(name="cpa", radius="decaying", gamma=0.1, gamma_decay=0.5)
    np.testing.assert_allclose(build_cpa(config, num_values=3, round_index=3).radius, 0.0125)
    pieces = [Piece(place=slice(0, 2)), Piece(place=slice(2, 3))]
    config = CpaScheme(name="cpa", radius="scaled", gamma=2.0)
    built = build_cpa(config, num_values=3, pieces=pieces, scales=np.array([0.01, 3.0]))
    np.testing.assert_allclose(built.radius, [0.02, 0.02, 6.0])
    with pytest.raises(LearningError, match="needs one positive scale for each of 2 tensors"):
        build_cpa(config, num_values=3, pieces=pieces)
    with pytest.raises(LearningError, match="two levels of one size"):
        build_cpa(replace_config(config, form="printed"), num_values=3, pieces=pieces, scales=np.ones(2))
    with pytest.raises(LearningError, match="does not hold; raise gamma_decay"):
        build_cpa(CpaScheme(name="cpa", radius="decaying", gamma_decay=1e-9), num_values=3, round_index=9)


def test_every_further_stage_quantises_the_cell_of_the_last() -> None:
    # As the authors have it: coarse, 3 levels over gamma; fine, 3 levels over half the coarse spacing.
    coarse, fine = build(1, stages=2).quantizers
    spacing = 2 / 3
    np.testing.assert_allclose(coarse.points[:, 0], [-spacing, 0, spacing])
    np.testing.assert_allclose(fine.points[:, 0], [-spacing / 3, 0, spacing / 3])
    for settings in ({}, {"form": "printed"}, {"rate_bits": 2}):
        for stages in (1, 2, 4):
            scheme = build(1000, gamma=1.0, stages=stages, **settings)
            updates = np.random.default_rng(13).uniform(-1, 1, (1, 1000)).astype(np.float32)
            error = np.abs(quantised(scheme, updates)[0, :, 0] - updates[0]).max()
            # Never overloaded: half of the spacing that n levels per stage make of [-1, 1], nearly reached.
            assert 0.9 < error * float(len(scheme.quantizers[0].points)) ** stages <= 1.0 + 1e-4


def replace_config(config: CpaScheme, **changes: Any) -> CpaScheme:
    return CpaScheme(**{**config.model_dump(), **changes})


@pytest.mark.parametrize("settings", [{}, {"dither": True, "decode": "unbiased"}, {"negative_bins": "zero"}], ids=str)
def test_scales_come_to_the_deviation_of_every_tensor_from_what_the_server_hears(settings: dict[str, Any]) -> None:
    config = CpaScheme(name="cpa", radius="scaled", gamma=1.5, rate_bits=2, **settings)
    pieces = [Piece(place=slice(0, 3000)), Piece(place=slice(3000, 4000))]
    truth = np.array([0.004, 0.2])
    rng = np.random.default_rng(11)
    scales = radius.first_scales(2)
    for index in range(9):
        context = replace(ROUND, round_index=index)
        scheme = build_cpa(config, num_values=4000, pieces=pieces, scales=scales)
        updates = (rng.standard_normal((200, 4000)) * np.repeat(truth, [3000, 1000])).astype(np.float32)
        devices = np.arange(200)
        payload = flip_bits(
            scheme.encode(updates, devices=devices, context=context),
            probability=np.full((1, 200), scheme.flip_target),
            num_bits=scheme.num_bits,
            keys=context.keys(Purpose.PRIVACY),
        )
        heard = scheme.histogram(
            payload, Senders(devices=devices, context=context, weights=np.full(200, 1 / 200), factor=np.full(200, KEEP))
        )
        scales = radius.next_scales(heard, cpa=scheme, pieces=pieces, scales=scales, gamma=1.5)
    # The dead band is two standard errors of the mean power, some per cent of it here.
    np.testing.assert_allclose(scales, truth, rtol=0.1)


def test_anonymity_is_that_of_proposition_2_and_what_every_word_leaves() -> None:
    four = theory.anonymity(Codebook(num_points=4))
    assert (four.printed, four.expected, four.least) == (2.0, 2.0, 2)
    three = theory.anonymity(Codebook(num_points=3))
    assert (three.printed, three.least) == (1.5, 1)
    words = [(1, 1, -1), (1, -1, 1), (-1, 1, 1)]
    assert three.expected == pytest.approx(np.mean([word.count(word[0]) for word in words]))
    assert theory.anonymity(Codebook(num_points=16), stages=2).printed == 64.0
    assert theory.anonymity(Codebook(num_points=4, balanced=False)).expected == 2.5


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
    with pytest.raises(LearningError, match="have no SNR"):
        theory.aggregation_snr_db(exact, exact[:5])


def test_nothing_heard_is_no_update() -> None:
    for settings in ORACLE_CASES[:5]:
        scheme = build(20, **settings)
        found = scheme.aggregate(
            np.zeros((1, 2, -(-scheme.num_bits // 8)), np.uint8),
            Senders(
                devices=np.arange(2),
                context=ROUND,
                weights=np.full(2, 0.5),
                factor=np.ones(2),
                known=np.zeros((2, scheme.num_bits), bool),
            ),
        )
        np.testing.assert_array_equal(found, 0.0)


def test_updates_and_payloads_that_do_not_fit_are_named() -> None:
    scheme = build(20)
    bad = np.zeros((3, 20), np.float32)
    bad[1, 4] = np.nan
    with pytest.raises(LearningError, match="the update of device 8 has NaN"):
        scheme.encode(bad, devices=np.array([5, 8, 9]), context=ROUND)
    with pytest.raises(LearningError, match="do not fit 2 devices"):
        scheme.encode(bad, devices=np.arange(2), context=ROUND)
    told = {"devices": np.arange(3), "context": ROUND, "weights": np.full(3, 1 / 3), "factor": np.ones(3)}
    with pytest.raises(LearningError, match=r"it must be \(1, 3, 3\)"):
        scheme.aggregate(np.zeros((1, 3, 2), np.uint8), Senders(**told))
    with pytest.raises(LearningError, match="what is known of the bits has shape"):
        scheme.aggregate(np.zeros((1, 3, 3), np.uint8), Senders(**told, known=np.ones((3, 24), bool)))
