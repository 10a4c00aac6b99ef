"""Orthogonal access: what fades and noise follow from, and what changes none of them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, context, link_config, random_payload, standard_errors_apart, unpacked

from phy.compile import compile_digital
from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.fading.block_taps import CHUNK_SYMBOLS, UplinkContext
from phy.measure.counts import LinkCounts


def same_trials(part: LinkCounts, whole: LinkCounts, rows: list[int]) -> bool:
    return all(np.array_equal(getattr(part, f.name), getattr(whole, f.name)[rows]) for f in fields(LinkCounts))


@pytest.mark.parametrize(
    ("modulation", "link"),
    [
        ("16qam", {"fading": "rayleigh", "coherence": "packet", "policy": "truncated-inversion"}),
        ("bpsk", {"fading": "rician", "coherence": "symbol", "csi_error": 0.1}),
        ("64qam", {"fading": "rayleigh", "coherence": "round", "csi_error": 0.1, "policy": "inversion"}),
        ("qpsk", {}),
    ],
    ids=str,
)
def test_a_trial_has_the_same_numbers_in_any_batch(modulation: str, link: dict[str, Any]) -> None:
    """Bit for bit, energies included, also at the ragged end of a chunk of rows."""
    num_bits, num_devices = 24 * BITS_PER_SYMBOL[modulation] - 1, 3
    rows_per_chunk = CHUNK_SYMBOLS // 24  # 2730, no multiple of a vector length
    num_trials = rows_per_chunk // num_devices + 41
    config = link_config(modulation, snr_max_db=8.0, packet_size_bytes=2, **link)
    uplink = compile_digital(config, num_devices=num_devices, num_bits=num_bits)
    payload = random_payload(num_trials, num_devices, num_bits)
    whole = uplink.send(payload, context=context(num_trials), caps={})
    last = rows_per_chunk // num_devices - 1  # its last device is the last row of the first chunk
    for rows in ([0], [last], [last + 1], [num_trials - 1], [7, 3, last], list(range(5, 18))):
        part = uplink.send(payload[rows], context=context(tuple(rows)), caps={})
        assert np.array_equal(part.payload, whole.payload[rows])
        assert np.array_equal(part.decision.level, whole.decision.level[rows])
        assert same_trials(part.counts, whole.counts, rows)


def test_a_longer_block_begins_with_the_same_fades_and_noise() -> None:
    """Positions, not chunks, number the draws: the first bits meet the same errors whatever follows."""
    config = link_config("bpsk", snr_max_db=3.0, fading="rayleigh", coherence="symbol")
    short_bits, long_bits = 500, CHUNK_SYMBOLS + 500
    payload = random_payload(1, 1, long_bits)
    short = compile_digital(config, num_devices=1, num_bits=short_bits)
    long = compile_digital(config, num_devices=1, num_bits=long_bits)
    cut = payload[..., : -(-short_bits // 8)]
    errors_short = unpacked(cut ^ short.send(cut, context=context(), caps={}).payload, short_bits)
    errors_long = unpacked(payload ^ long.send(payload, context=context(), caps={}).payload, short_bits)
    # A decision within float32 rounding of the boundary may differ: none at this seed.
    assert np.array_equal(errors_short, errors_long)


def test_another_seed_or_round_is_other_noise() -> None:
    uplink = compile_digital(link_config("bpsk", snr_max_db=0.0), num_devices=1, num_bits=4096)
    payload = random_payload(1, 1, 4096)
    received = [
        uplink.send(payload, context=where, caps={}).payload
        for where in (context(), context(seed=1), context(round_index=1))
    ]
    assert not np.array_equal(received[0], received[1])
    assert not np.array_equal(received[0], received[2])


def z_scores(first: LinkCounts, second: LinkCounts) -> NDArray[np.float64]:
    """Difference of two binomial rates in standard errors, per trial and device."""
    pooled = (first.bit_errors + second.bit_errors) / (first.bits + second.bits)
    variance = pooled * (1.0 - pooled) * (1.0 / first.bits + 1.0 / second.bits)
    return (first.bit_error_rate - second.bit_error_rate) / np.sqrt(np.maximum(variance, 1e-30))


def test_a_probe_meets_the_channel_of_the_payload() -> None:
    num_bits, num_probe_bits, num_devices, num_trials = 40_000, 20_000, 8, 8
    config = link_config("bpsk", snr_max_db=5.0, fading="rayleigh", coherence="round")
    uplink = compile_digital(config, num_devices=num_devices, num_bits=num_bits)
    sent = uplink.send(random_payload(num_trials, num_devices, num_bits), context=context(num_trials), caps={}).counts
    here = uplink.probe(num_probe_bits, context=context(num_trials), caps={})
    elsewhere = uplink.probe(num_probe_bits, context=context(num_trials, round_index=1), caps={})
    # Given the tap, bits of BPSK are independent; 64 scores, k = 4.5.
    assert np.abs(z_scores(sent, here)).max() < 4.5
    assert (np.abs(z_scores(sent, elsewhere)) > 4.5).mean() > 0.8


def test_a_probe_has_bits_and_noise_of_its_own() -> None:
    """Errors of probe and payload coincide in number only by chance: not equal for every device."""
    uplink = compile_digital(link_config("bpsk", snr_max_db=0.0), num_devices=20, num_bits=4096)
    sent = uplink.send(np.zeros((1, 20, 512), np.uint8), context=context(), caps={}).counts
    probed = uplink.probe(4096, context=context(), caps={})
    assert (sent.bit_errors != probed.bit_errors).sum() > 10
    assert abs(standard_errors_apart(sent.bit_error_rate, probed.bit_error_rate)) < ERRORS_OF_A_CHECK


def test_rounds_of_one_run_share_the_fade_under_run_coherence() -> None:
    config = link_config("bpsk", snr_max_db=6.0, fading="rayleigh", coherence="run")
    num_bits = 40_000
    uplink = compile_digital(config, num_devices=20, num_bits=num_bits)
    payload = random_payload(1, 20, num_bits)
    first, later = (uplink.send(payload, context=context(round_index=index), caps={}).counts for index in (0, 9))
    assert np.abs(z_scores(first, later)).max() < 4.5  # 20 scores
    assert (first.bit_errors != later.bit_errors).any()
    np.testing.assert_allclose(first.signal_energy, later.signal_energy, rtol=1e-5)  # float32 sums


def test_silent_devices_are_left_out_and_change_nothing_of_the_others() -> None:
    config = LinkConfig.model_validate(
        {"access": "orthogonal", "modulation": "qpsk", "channel": {"fading": "rayleigh"}, "power": {"snr_max_db": 6.0}}
    )
    uplink = compile_digital(config, num_devices=7, num_bits=801)
    payload = np.random.default_rng(1).integers(0, 256, (2, 7, 101), dtype=np.uint8)
    payload[..., -1] &= 0x80
    there = UplinkContext(seed=4, trials=(0, 3), round_index=2)
    all_of_them = uplink.send(payload, context=there, caps={})
    for silent in ((0, 3, 4), (1,), (6, 5, 2)):
        some, on_air = uplink.send(payload, context=replace(there, silent=silent), caps={}), np.ones(7, bool)
        on_air[list(silent)] = False
        assert np.array_equal(some.payload, all_of_them.payload * on_air[:, None])
        assert not some.decision.active[:, ~on_air].any()
        for field in fields(some.counts):
            found, expected = getattr(some.counts, field.name), getattr(all_of_them.counts, field.name)
            assert np.array_equal(found, expected * on_air), field.name
        assert some.bursts is not None
        assert all_of_them.bursts is not None
        assert np.array_equal(some.bursts.in_a_row, all_of_them.bursts.in_a_row * on_air[:, None])
        assert some.round_airtime_s == pytest.approx(all_of_them.round_airtime_s * on_air.sum() / 7)
