"""The shortcuts of the literature: at the right rate, independent, and so not what a fading radio does."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import (
    ERRORS_OF_A_CHECK,
    context,
    link_config,
    random_payload,
    standard_errors_apart,
    standard_errors_off,
    unpacked,
)
from scipy import stats

from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import Reception
from phy.links.warnings import link_warnings
from phy.measure import theory
from phy.measure.counts import LinkCounts

NUM_BITS = 40_000


def send(config: LinkConfig, where: UplinkContext, num_devices: int, num_bits: int = NUM_BITS) -> Reception:
    uplink = compile_digital(config, num_devices=num_devices, num_bits=num_bits)
    payload = random_payload(len(where.trials), num_devices, num_bits)
    return uplink.send(payload, context=where, caps={})


def flips(config: LinkConfig, where: UplinkContext, num_devices: int) -> NDArray[np.uint8]:
    """Mask of wrong bits of a random payload, `[num_trials, num_devices, num_bits]`."""
    payload = random_payload(len(where.trials), num_devices, NUM_BITS)
    return unpacked(payload ^ send(config, where, num_devices).payload, NUM_BITS)


def test_iid_flips_each_device_at_the_rate_its_probe_measured() -> None:
    config = link_config("qpsk", fading="rayleigh", error_model="iid", probe_bits=1 << 15)
    uplink = compile_digital(config, num_devices=10, num_bits=NUM_BITS)
    where = context(4, round_index=3)
    rate = uplink.probe(1 << 15, context=where, caps={}).bit_error_rate
    found = uplink.send(random_payload(4, 10, NUM_BITS), context=where, caps={}).counts.bit_error_rate
    score = (found - rate) / np.sqrt(np.maximum(rate * (1.0 - rate), 1e-12) / NUM_BITS)
    assert (found[rate == 0.0] == 0.0).all()
    assert np.abs(score).max() < 4.5  # 40 scores, k = 4.5
    assert np.ptp(rate) > 0.05  # fades differ, so one rate for all would not pass


def test_iid_probes_again_in_every_round() -> None:
    config = link_config("bpsk", fading="rayleigh", error_model="iid")
    rates = [send(config, context(round_index=i), 5).counts.bit_error_rate for i in (0, 1)]
    assert np.abs(rates[0] - rates[1]).min() > 0.0


@pytest.mark.parametrize("error_model", ["iid", "analytic"])
def test_flips_are_independent(error_model: str) -> None:
    wrong = flips(link_config("bpsk", snr_max_db=3.0, error_model=error_model), context(4), 5)
    rate = wrong.mean()
    centred = (wrong - wrong.mean(axis=-1, keepdims=True)) / np.sqrt(rate * (1.0 - rate))
    # Correlations of independent bits have standard error 1 / sqrt(n); 12 lags and 2 pairings, k = 4.
    for lag in (1, 2, 3, 4, 7, 8, 16, 31, 32, 64, 128, 2312 * 8):
        product = centred[..., lag:] * centred[..., :-lag]
        assert abs(product.mean()) < 4.0 / np.sqrt(product.size)
    assert abs((centred[:, 1:] * centred[:, :-1]).mean()) < 4.0 / np.sqrt(centred[:, 1:].size)
    assert abs((centred[1:] * centred[:-1]).mean()) < 4.0 / np.sqrt(centred[1:].size)
    # Gaps between errors are geometric: chi-square over gaps of 1..20 bits and longer ones.
    gaps = np.concatenate([np.diff(np.flatnonzero(row)) for row in wrong.reshape(-1, NUM_BITS)])
    observed = np.append(np.bincount(gaps[gaps <= 20], minlength=21)[1:], (gaps > 20).sum())
    law = stats.geom(rate)
    expected = np.append(law.pmf(np.arange(1, 21)), law.sf(20)) * gaps.size
    assert stats.chisquare(observed, expected).pvalue > 1e-4  # one correct seed in 10 000 falls below


@pytest.mark.parametrize("fading", ["constant", "rayleigh", "rician"])
@pytest.mark.parametrize("modulation", ["bpsk", "16qam"])
def test_analytic_flips_at_the_closed_form_of_each_device(modulation: str, fading: str) -> None:
    gains = (0.5, 1.0, 2.0)
    config = link_config(modulation, fading=fading, error_model="analytic", channel={"gain": gains})
    counts = send(config, context(10), 3).counts
    esno = 10.0 * np.square(gains) / 2.0
    bits_per_symbol = {"bpsk": 1, "16qam": 4}[modulation]
    if fading == "constant":
        predicted = theory.awgn_bit_error_rate(esno, bits_per_symbol=bits_per_symbol)
    else:
        k = 10.0**0.6 if fading == "rician" else 0.0
        predicted = theory.fading_bit_error_rate(
            esno, bits_per_symbol=bits_per_symbol, mgf=partial(theory.rician_mgf, k=k)
        )
    found = counts.bit_errors.sum(axis=0) / counts.bits.sum(axis=0)
    error = np.sqrt(predicted * (1.0 - predicted) / (10 * NUM_BITS))
    assert (np.abs(found - predicted) < ERRORS_OF_A_CHECK * error + 1e-12).all()


@pytest.mark.parametrize("policy", ["inversion", "truncated-inversion"])
def test_analytic_knows_that_inversion_leaves_no_fading(policy: str) -> None:
    """Everybody arrives at A, faded or not, so the rate is that of AWGN at A^2 / (2 N0), as measured."""
    config = link_config("bpsk", fading="rayleigh", policy=policy, snr_max_db=12.0)
    where = context(30)
    measured = send(config, where, 3)
    analytic = send(config.model_copy(update={"error_model": "analytic"}), where, 3)
    level = measured.decision.level
    assert np.array_equal(level, analytic.decision.level)
    predicted = theory.awgn_bit_error_rate(level**2 / 2.0, bits_per_symbol=1)[:, None]
    # Below one expected error the spread of a single error stands in.
    error = np.sqrt(np.maximum(predicted * (1.0 - predicted), 1.0 / NUM_BITS) / NUM_BITS)
    active = measured.decision.active
    for reception in (measured, analytic):
        score = (reception.counts.bit_error_rate - predicted) / error
        assert np.abs(score[active]).max() < 4.5  # up to 90 scores, k = 4.5


def test_error_free_loses_nothing_and_counts_every_bit() -> None:
    reception = send(link_config("64qam", snr_max_db=-20.0, error_model="error_free"), context(2), 3)
    sent = random_payload(2, 3, NUM_BITS)
    assert np.array_equal(reception.payload, sent)
    assert (reception.counts.bits == NUM_BITS).all()
    assert not reception.counts.bit_errors.any()
    assert (reception.counts.packets == -(-NUM_BITS // (8 * 2312))).all()
    assert (reception.decision.amplitude == 1.0).all()


def test_over_awgn_the_shortcuts_do_no_harm() -> None:
    """Bits over AWGN are independent: bit and packet error rates of all three models agree."""
    counts = {
        model: send(
            link_config("bpsk", snr_max_db=8.0, error_model=model, packet_size_bytes=16, probe_bits=1 << 18),
            context(30),
            2,
        ).counts
        for model in ("measured", "iid", "analytic")
    }
    for model in ("iid", "analytic"):
        for rate in ("bit_error_rate", "packet_error_rate"):
            apart = standard_errors_apart(getattr(counts["measured"], rate), getattr(counts[model], rate))
            assert abs(apart) < ERRORS_OF_A_CHECK


def fading_counts(error_model: str) -> LinkCounts:
    """A fade of its own for every packet of 256 bits; the probe sees 256 such packets."""
    config = link_config(
        "bpsk",
        snr_max_db=12.0,
        fading="rayleigh",
        coherence="packet",
        error_model=error_model,
        packet_size_bytes=32,
        probe_bits=1 << 16,
    )
    return send(config, context(60), 2, 1 << 16).counts


@pytest.mark.parametrize("shortcut", ["iid", "analytic"])
def test_over_block_fading_the_shortcut_is_wrong_about_packets(shortcut: str) -> None:
    """At the same bit error rate, the errors of the radio come in bursts."""
    radio, model = fading_counts("measured"), fading_counts(shortcut)
    rate = float(theory.fading_bit_error_rate(10.0**1.2 / 2.0, bits_per_symbol=1))
    assert abs(standard_errors_off(radio.bit_error_rate, rate)) < ERRORS_OF_A_CHECK
    assert abs(standard_errors_apart(radio.bit_error_rate, model.bit_error_rate)) < ERRORS_OF_A_CHECK
    independent = 1.0 - (1.0 - rate) ** 256
    assert model.packet_error_rate.mean() == pytest.approx(independent, abs=0.01)  # rate known to a few %
    assert standard_errors_apart(model.packet_error_rate, radio.packet_error_rate) > 100.0
    assert radio.packet_error_rate.mean() < 0.5 * model.packet_error_rate.mean()


@pytest.mark.parametrize(
    ("parts", "left_out"),
    [
        ({"coding": {"code": "ldpc5g"}}, "leaves out the code ldpc5g, so"),
        ({"impairments": {"phase_error_deg": 10.0}}, "leaves out link.impairments, so"),
        ({}, None),
    ],
)
def test_a_closed_form_warns_of_what_it_leaves_out(parts: dict[str, Any], left_out: str | None) -> None:
    found = list(link_warnings(link_config("qpsk", error_model="analytic", **parts)))
    assert len(found) == (left_out is not None)
    assert all(str(left_out) in one and "write error_model: iid" in one for one in found)
    assert list(link_warnings(link_config("qpsk", error_model="iid", **parts))) == []
