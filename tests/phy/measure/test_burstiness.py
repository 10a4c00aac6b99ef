"""Burst counts are those of a loop over bits, and tell independent flips from a link that has a memory."""

from __future__ import annotations

from dataclasses import fields
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, context, link_config, random_payload
from scipy import stats

from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.links.link import LinkError, known_bits, round_airtime
from phy.measure import burstiness
from phy.measure.burstiness import MAX_RUN, Burstiness, measure_bursts
from phy.measure.independence import Independence, assess, verdict


def counted_slowly(
    wrong: list[bool], *, packet_bits: int, bits_per_symbol: int, present: list[bool]
) -> dict[str, object]:
    """The counts of one payload, a bit at a time."""
    length = min(packet_bits, len(wrong))
    packets = [wrong[first : first + length] for first in range(0, len(wrong), length)]
    held = [(number, packet) for number, packet in enumerate(packets) if present[number]]
    full = [sum(packet) for _, packet in held if len(packet) == length]
    in_a_row = [0] * MAX_RUN
    labels = [[0, 0] for _ in range(bits_per_symbol)]
    runs = [0] * (MAX_RUN - 1)
    for number, packet in held:
        for i, error in enumerate(packet):
            place = (number * length + i) % bits_per_symbol
            labels[place][0] += 1
            labels[place][1] += error
            for k in range(1, MAX_RUN + 1):
                in_a_row[k - 1] += i + k <= len(packet) and all(packet[i : i + k])
        for error, group in groupby(packet):
            if error:
                runs[min(len(list(group)), MAX_RUN - 1) - 1] += 1
    return {
        "packets": len(full),
        "packet_bits": len(full) * length,
        "packet_errors": sum(full),
        "packet_errors_squared": sum(errors**2 for errors in full),
        "bits": sum(len(packet) for _, packet in held),
        "pairs": sum(len(packet) - 1 for _, packet in held),
        "in_a_row": in_a_row,
        "label_bits": [bits for bits, _ in labels],
        "label_errors": [errors for _, errors in labels],
        "run_counts": runs,
    }


def packed(wrong: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.packbits(wrong, axis=-1)


def bursts_of(wrong: NDArray[np.bool_], *, packet_bits: int, bits_per_symbol: int = 1, **more: object) -> Burstiness:
    """Counts of an error pattern `[..., num_bits]` over a payload of zeros."""
    errors = packed(wrong)
    return measure_bursts(
        np.zeros_like(errors),
        errors,
        num_bits=wrong.shape[-1],
        packet_bits=packet_bits,
        bits_per_symbol=bits_per_symbol,
        **more,
    )


@st.composite
def patterns(draw: st.DrawFn) -> tuple[NDArray[np.bool_], NDArray[np.bool_], int]:
    """Errors of two payloads, from rare to everywhere, which packets are held, and bits of a packet."""
    num_bits = draw(st.integers(1, 420))
    packet_bits = 8 * draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    wrong = rng.random((2, num_bits)) < draw(st.sampled_from([0.0, 0.02, 0.5, 0.9, 1.0]))
    num_packets = -(-num_bits // min(packet_bits, num_bits))
    return wrong, rng.random((2, num_packets)) < draw(st.sampled_from([0.5, 1.0])), packet_bits


@settings(max_examples=150, deadline=None)
@given(patterns(), st.sampled_from([1, 2, 4, 6, 8, 10]), st.sampled_from([24, 1 << 22]))
def test_counts_are_those_of_a_loop_over_bits(
    pattern: tuple[NDArray[np.bool_], NDArray[np.bool_], int], bits_per_symbol: int, slice_bytes: int
) -> None:
    wrong, present, packet_bits = pattern
    rng = np.random.default_rng(3)
    sent = rng.integers(0, 256, packed(wrong).shape, dtype=np.uint8)
    # What lies beyond the last bit is noise, and must not count.
    received = sent ^ packed(wrong) ^ (rng.integers(0, 256, sent.shape, np.uint8) & ~packed(np.ones_like(wrong)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(burstiness, "_SLICE_BYTES", slice_bytes)
        found = measure_bursts(
            sent,
            received,
            num_bits=wrong.shape[1],
            packet_bits=packet_bits,
            bits_per_symbol=bits_per_symbol,
            present=present,
        )
    for row in range(2):
        expected = counted_slowly(
            wrong[row].tolist(),
            packet_bits=packet_bits,
            bits_per_symbol=bits_per_symbol,
            present=present[row].tolist(),
        )
        for name, value in expected.items():
            np.testing.assert_array_equal(getattr(found, name)[row], value, err_msg=name)


def test_a_silent_device_counts_nothing() -> None:
    wrong = np.ones((2, 3, 50), bool)
    active = np.array([[True, False, True], [False, False, False]])
    found = bursts_of(wrong, packet_bits=16, bits_per_symbol=2, present=active)
    assert found.bits.tolist() == [[50, 0, 50], [0, 0, 0]]
    for f in fields(Burstiness):
        values = getattr(found, f.name)
        assert values.dtype == np.int64
        assert not values[~active].any()
    assert np.isnan(found.bit_error_rate[~active]).all()


def test_counts_add_up_over_rounds_and_over_trials() -> None:
    wrong = np.random.default_rng(5).random((2, 3, 4, 96)) < 0.2
    first, second = (bursts_of(part, packet_bits=32, bits_per_symbol=4) for part in wrong)
    together = bursts_of(np.concatenate([wrong[0], wrong[1]], axis=-1), packet_bits=32, bits_per_symbol=4)
    total = first + second
    for f in fields(Burstiness):
        np.testing.assert_array_equal(getattr(total, f.name), getattr(together, f.name), err_msg=f.name)
        per_device = getattr(total, f.name).sum(axis=0)
        np.testing.assert_array_equal(getattr(total.over_trials(), f.name), per_device, err_msg=f.name)


def test_trials_that_have_failed_add_nothing() -> None:
    found = bursts_of(np.ones((3, 2, 16), bool), packet_bits=8).of_trials(np.array([True, False, True]))
    assert found.bits[:, 0].tolist() == [16, 0, 16]
    assert found.in_a_row[:, 0, 7].tolist() == [2, 0, 2]
    assert found.of_trial(2)["in_a_row"].shape == (2, MAX_RUN)


def test_symbols_of_other_sizes_do_not_add_up() -> None:
    qpsk, qam = (bursts_of(np.ones((1, 8), bool), packet_bits=8, bits_per_symbol=m) for m in (2, 4))
    with pytest.raises(ValueError, match="symbols of 2 and of 4 bits have no label in common"):
        qpsk + qam


@pytest.mark.parametrize(("packet_bits", "bits_per_symbol"), [(12, 1), (0, 1), (8, 0)])
def test_packets_that_are_no_whole_bytes_are_refused(packet_bits: int, bits_per_symbol: int) -> None:
    with pytest.raises(ValueError, match=f"packets of {packet_bits} bits with {bits_per_symbol} bits per symbol"):
        bursts_of(np.ones((1, 64), bool), packet_bits=packet_bits, bits_per_symbol=bits_per_symbol)


def test_label_counts_from_before_a_decoder_take_the_place_of_the_payload_s() -> None:
    given_counts = np.array([[50, 50]]), np.array([[7, 1]])
    found = bursts_of(np.zeros((1, 64), bool), packet_bits=32, bits_per_symbol=2, label_counts=given_counts)
    for counted, given_count in zip((found.label_bits, found.label_errors), given_counts, strict=True):
        np.testing.assert_array_equal(counted, given_count)
    assert found.bit_errors.tolist() == [0]


# --- what independent flips look like ---------------------------------------------------------------


def independent(seed: int, *, rate: float, packets: int = 400, packet_bits: int = 256) -> NDArray[np.bool_]:
    """Independent flips of one trial and two devices, the second at half the rate."""
    draws = np.random.default_rng(seed).random((1, 2, packets * packet_bits))
    return np.asarray(draws < rate * np.array([1.0, 0.5])[:, None])


@pytest.mark.parametrize("rate", [0.3, 0.02, 0.002])
def test_the_interval_of_the_variance_ratio_covers_1_for_independent_flips(rate: float) -> None:
    trials = 200
    found = [assess(bursts_of(independent(seed, rate=rate), packet_bits=256)) for seed in range(trials)]
    covered = sum(f.low is not None and f.high is not None and f.low <= 1.0 <= f.high for f in found)
    # At least 95 % (few coincidences make it conservative), less 4 standard errors of 200 trials: 0.062.
    assert covered / trials > 0.95 - 0.062
    assert np.mean([f.variance_ratio for f in found]) == pytest.approx(1.0, abs=4 * np.sqrt(2 / (2 * 399 * trials)))


def test_independent_flips_are_seldom_called_bursty() -> None:
    outcomes = [assess(bursts_of(independent(seed, rate=0.02), packet_bits=256)).outcome for seed in range(300)]
    # At most 1 in 100 is; 4 standard errors of 300 trials: 0.023.
    assert outcomes.count("unfair") / 300 <= 0.01 + 0.023
    assert outcomes.count("fair") > 280


@pytest.mark.parametrize("rate", [0.5, 0.2])
def test_runs_of_independent_flips_are_geometric(rate: float) -> None:
    wrong = np.random.default_rng(11).random((1, 1, 1 << 18)) < rate
    found = bursts_of(wrong, packet_bits=wrong.shape[-1])
    runs = found.run_counts[0, 0]
    expected = np.append((1 - rate) * rate ** np.arange(MAX_RUN - 2), rate ** (MAX_RUN - 2)) * runs.sum()
    score = (runs - expected) / np.sqrt(expected * (1 - expected / runs.sum()))
    assert np.abs(score).max() < ERRORS_OF_A_CHECK
    mean_run = found.bit_errors.item() / runs.sum()
    assert mean_run == pytest.approx(1.0 / (1.0 - found.bit_error_rate.item()), rel=0.02)


def test_a_pattern_of_pairs_has_the_correlation_and_the_runs_it_must_have() -> None:
    # 0011 repeated: p = 1/2, half of all neighbours agree, E[e e'] = 1/4 = p^2, and every run is of 2.
    wrong = np.tile(np.array([False, False, True, True]), 64)[None]
    found = bursts_of(wrong, packet_bits=256)
    assert found.run_counts[0].tolist() == [0, 64, 0, 0, 0, 0, 0]
    assert found.lag1_correlation.item() == pytest.approx(64 / 255 * 4 - 1)
    # Errors alone, 0001: no two neighbours, (0 - 1/16) / (3/16) = -1/3.
    alone = bursts_of(np.tile(np.array([False, False, False, True]), 64)[None], packet_bits=256)
    assert alone.lag1_correlation.item() == pytest.approx(-1 / 3)


# --- what a link looks like -------------------------------------------------------------------------


def through(config: LinkConfig, *, num_bits: int, rounds: int = 3, trials: int = 2) -> Burstiness:
    """Bursts of four devices, added over rounds."""
    uplink = compile_digital(config, num_devices=4, num_bits=num_bits)
    payload = random_payload(trials, 4, num_bits)
    received = [uplink.send(payload, context=context(trials, round_index=r), caps={}) for r in range(rounds)]
    assert all(one.bursts is not None for one in received)
    total = received[0].bursts
    assert total is not None
    for one in received[1:]:
        assert one.bursts is not None
        np.testing.assert_array_equal(one.bursts.bit_errors, one.counts.bit_errors)
        np.testing.assert_array_equal(one.bursts.bits, one.counts.bits)
        total = total + one.bursts
    return total


def test_qpsk_over_white_noise_is_as_good_as_independent_flips() -> None:
    bursts = through(link_config("qpsk", snr_max_db=6.0, packet_size_bytes=100), num_bits=160_000)
    found = assess(bursts)
    assert found.outcome == "fair"
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.0 < found.high
    assert verdict(bursts).startswith("Independent flips describe this link: errors per packet")


def test_block_fading_makes_packets_bursty_and_its_iid_error_model_does_not() -> None:
    options = {"snr_max_db": 14.0, "packet_size_bytes": 100, "fading": "rayleigh", "coherence": "packet"}
    measured = assess(through(link_config("qpsk", **options), num_bits=160_000))
    assert measured.outcome == "unfair"
    # Packets in a fade of conditional rate p: ratio = 1 + (n - 1) Var(p) / (p (1 - p)), n = 800. QPSK over Rayleigh,
    # mean bit SNR g = 10^1.4 / 4: E[p] = (1 - sqrt(g / (1 + g))) / 2, E[p^2] by the integral over the fade.
    snr = 10**1.4 / 4
    fades = -np.log1p(-(np.arange(200_000) + 0.5) / 200_000)
    p = stats.norm.sf(np.sqrt(2 * snr * fades))
    expected = 1 + 799 * p.var() / (p.mean() * (1 - p.mean()))
    # 4800 packets of heavy-tailed rates: their sample variance is known to some 10 %.
    assert measured.variance_ratio == pytest.approx(expected, rel=0.2)
    assert measured.lag1_correlation == pytest.approx(p.var() / (p.mean() * (1 - p.mean())), rel=0.2)
    flips = assess(through(link_config("qpsk", error_model="analytic", **options), num_bits=160_000))
    assert flips.outcome == "fair"


def test_the_bits_of_a_16qam_symbol_err_at_their_own_closed_form_rates() -> None:
    snr_db = 12.0
    bursts = through(link_config("16qam", snr_max_db=snr_db, packet_size_bytes=100), num_bits=160_000).over_trials()
    # Gray 4-PAM per dimension, points at 1 and 3 times d, Es = 10 d^2, N0 per real dimension 1: the sign bit errs
    # half the time beyond d and half beyond 3 d; the amplitude bit crosses 2 d inwards or outwards (Cho and Yoon,
    # IEEE Trans. Commun. 2002, (9) and (11)).
    d = np.sqrt(10 ** (snr_db / 10) / 10)
    q = stats.norm.sf
    sign = (q(d) + q(3 * d)) / 2
    amplitude = (2 * q(d) + q(3 * d) - q(5 * d)) / 2
    expected = np.array([sign, sign, amplitude, amplitude])
    errors, bits = bursts.label_errors.sum(axis=0), bursts.label_bits.sum(axis=0)
    assert np.abs((errors - bits * expected) / np.sqrt(bits * expected)).max() < ERRORS_OF_A_CHECK
    # A receiver with its label bits swapped would have failed.
    swapped = expected[::-1]
    assert np.abs((errors - bits * swapped) / np.sqrt(bits * swapped)).min() > 10 * ERRORS_OF_A_CHECK
    found = assess(bursts)
    assert found.outcome == "unfair"
    assert "error rates of the bits of a symbol range from 0.05" in verdict(bursts)


@pytest.mark.parametrize("error_model", ["measured", "iid", "analytic"])
def test_a_trial_s_bursts_do_not_depend_on_its_batch(error_model: str) -> None:
    config = link_config("qpsk", snr_max_db=3.0, fading="rayleigh", error_model=error_model, packet_size_bytes=8)
    uplink = compile_digital(config, num_devices=3, num_bits=500)
    payload = random_payload(4, 3, 500)
    whole = uplink.send(payload, context=context(4), caps={}).bursts
    alone = uplink.send(payload[2:3], context=context((2,)), caps={}).bursts
    assert whole is not None
    assert alone is not None
    for f in fields(Burstiness):
        np.testing.assert_array_equal(getattr(whole, f.name)[2:3], getattr(alone, f.name))


def test_an_error_free_link_has_no_bursts() -> None:
    uplink = compile_digital(link_config("qpsk", error_model="error_free"), num_devices=1, num_bits=8)
    assert uplink.send(random_payload(1, 1, 8), context=context(), caps={}).bursts is None


def test_too_few_errors_give_no_verdict() -> None:
    assert verdict(bursts_of(np.zeros((1, 4096), bool), packet_bits=64)) == (
        "Too few errors to tell whether independent flips describe this link: 0 errors in 64 full packets "
        "(4,096 bits), 0 in error."
    )
    one_packet = np.random.default_rng(1).random((1, 4096)) < 0.1
    assert verdict(bursts_of(one_packet, packet_bits=4096)).startswith("Too few packets in error to tell")


def test_one_packet_in_error_gives_no_ratio() -> None:
    wrong = np.zeros((1, 400, 256), bool)
    wrong[0, 7] = np.random.default_rng(4).random(256) < 0.5
    bursts = bursts_of(wrong.reshape(1, -1), packet_bits=256)
    found = assess(bursts, bad_packets=1)
    assert (found.outcome, found.variance_ratio, found.low, found.high) == ("unknown", None, None, None)
    assert assess(bursts).bad_packets == 1
    assert verdict(bursts, bad_packets=1).startswith("Too few packets in error to tell")
    assert "(102,400 bits), 1 in error." in verdict(bursts, bad_packets=1)


def test_the_interval_of_bursts_covers_the_ratio_that_many_packets_have() -> None:
    # Each packet of 256 bits is bad with chance 0.1, and then errs at a rate that is uniform from 0 to 1/2.
    rng, packets, trials = np.random.default_rng(6), 500, 200

    def one(packets: int) -> Independence:
        rate = np.where(rng.random(packets) < 0.1, rng.random(packets) / 2.0, 0.0)
        return assess(bursts_of((rng.random((packets, 256)) < rate[:, None]).reshape(1, -1), packet_bits=256))

    # E[p] = 0.025, E[p^2] = 0.1 / 12: 1 + 255 (E[p^2] - E[p]^2) / (E[p] (1 - E[p])).
    ratio = 1 + 255 * (0.1 / 12 - 0.025**2) / (0.025 * 0.975)
    found = [one(packets) for _ in range(trials)]
    covered = sum(f.low is not None and f.high is not None and f.low <= ratio <= f.high for f in found)
    # 95 %, less 4 standard errors of 200 trials.
    assert covered / trials > 0.95 - 0.062
    # Chi-square over all 499 packets would have been some 2.7 times narrower and wrong every other time.
    assert np.mean([f.high / f.low for f in found if f.low is not None and f.high is not None]) > 1.5


def test_flips_at_a_rate_that_changes_from_packet_to_packet_are_no_fair_stand_in() -> None:
    rng = np.random.default_rng(2)
    rate = np.repeat(rng.choice([0.01, 0.03], 2000), 256)
    found = assess(bursts_of((rng.random(rate.shape) < rate)[None], packet_bits=256))
    # 1 + 255 * 0.01^2 / (0.02 * 0.98) = 2.30
    assert found.outcome == "unfair"
    assert found.variance_ratio == pytest.approx(2.30, rel=0.15)


# --- airtime of a round, bits that are missing ------------------------------------------------------


def test_devices_that_take_turns_add_up_and_side_by_side_the_longest_counts() -> None:
    airtime_s = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.5]])
    assert round_airtime(airtime_s, one_after_another=True).tolist() == [6.0, 0.5]
    assert round_airtime(airtime_s, one_after_another=False).tolist() == [3.0, 0.5]


def test_tdma_lasts_as_long_as_its_symbols_and_costs_power_times_time() -> None:
    config = link_config("qpsk", snr_max_db=7.0, bandwidth_hz=2e5, channel={"noise_power": 0.5})
    uplink = compile_digital(config, num_devices=3, num_bits=1001)
    received = uplink.send(random_payload(2, 3, 1001), context=context(2), caps={})
    np.testing.assert_allclose(received.counts.airtime_s, 501 / 2e5, rtol=1e-12)
    assert received.round_airtime_s is not None
    np.testing.assert_allclose(received.round_airtime_s, 3 * 501 / 2e5, rtol=1e-12)
    # |x|^2 = 1 for QPSK: every symbol costs P0 = 0.5 * 10^0.7 exactly, up to float32 sums.
    np.testing.assert_allclose(received.counts.energy_j, 0.5 * 10**0.7 * 501 / 2e5, rtol=1e-5)


def test_known_bits_are_those_of_delivered_packets() -> None:
    delivered = np.array([[True, False, True], [False, True, False]])
    known = known_bits(delivered, packet_bits=8, num_bits=19)
    assert known.shape == (2, 19)
    assert known[0].tolist() == [True] * 8 + [False] * 8 + [True] * 3
    assert known[1].sum() == 8
    with pytest.raises(LinkError, match="3 packets were reported for 30 bits in packets of 8 bits, which are 4"):
        known_bits(delivered, packet_bits=8, num_bits=30)
