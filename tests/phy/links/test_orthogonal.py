"""Orthogonal access: the measured radio against theory and against Sionna, and what it counts."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import (
    ERRORS_OF_A_CHECK,
    MODULATIONS,
    context,
    link_config,
    random_payload,
    standard_errors_apart,
    standard_errors_off,
    unpacked,
)
from scipy import optimize

from phy.compile import compile_digital
from phy.config import BITS_PER_SYMBOL
from phy.engines.sionna import flat as flat_sionna
from phy.fading import block_taps as channels
from phy.fading.block_taps import CHUNK_SYMBOLS
from phy.links.link import LinkError
from phy.measure import theory
from phy.measure.counts import LinkCounts

NUM_BLOCKS, BLOCK_SYMBOLS = 64, 8192
"""64 independent blocks, one trial each: their spread gives the standard error, fades included."""

TARGET_RATE = 0.02
ENGINES = ("sionna", "fused")
RICIAN_K_DB = 5.0
CASES = [
    *((modulation, fading) for fading in ("constant", "rayleigh") for modulation in MODULATIONS),
    ("qpsk", "rician"),
    ("16qam", "rician"),
]


def block_bits(modulation: str) -> int:
    return BLOCK_SYMBOLS * BITS_PER_SYMBOL[modulation]


def predicted_rate(modulation: str, fading: str, snr_max_db: float) -> float:
    """`phy.measure.theory` at Es/N0 = P0 / (2 N0)."""
    esno = 10.0 ** (snr_max_db / 10.0) / 2.0
    bits_per_symbol = BITS_PER_SYMBOL[modulation]
    if fading == "constant":
        return float(theory.awgn_bit_error_rate(esno, bits_per_symbol=bits_per_symbol))
    k = 10.0 ** (RICIAN_K_DB / 10.0) if fading == "rician" else 0.0
    return float(
        theory.fading_bit_error_rate(esno, bits_per_symbol=bits_per_symbol, mgf=partial(theory.rician_mgf, k=k))
    )


@lru_cache
def operating_point(modulation: str, fading: str) -> float:
    """SNR_max [dB] at which 2 % of the bits are wrong: steep enough for half a decibel to show."""
    return float(
        optimize.brentq(lambda snr: predicted_rate(modulation, fading, snr) - TARGET_RATE, -10.0, 60.0, xtol=1e-6)
    )


@lru_cache
def measured_counts(modulation: str, fading: str, extra_db: float = 0.0, engine: str = "fused") -> LinkCounts:
    """Counts of 64 blocks at the operating point; `extra_db` plants an error of the transmit power."""
    config = link_config(
        modulation,
        snr_max_db=operating_point(modulation, fading) + extra_db,
        fading=fading,
        coherence="symbol" if fading != "constant" else "round",
        channel={"rician_k_db": RICIAN_K_DB},
        engine=engine,
    )
    num_bits = block_bits(modulation)
    uplink = compile_digital(config, num_devices=1, num_bits=num_bits)
    payload = random_payload(NUM_BLOCKS, 1, num_bits)
    return uplink.send(payload, context=context(NUM_BLOCKS), caps={}).counts


def errors_from_theory(counts: LinkCounts, modulation: str, fading: str) -> float:
    """The check: distance of the measured rate from the closed form, in standard errors."""
    predicted = predicted_rate(modulation, fading, operating_point(modulation, fading))
    return abs(standard_errors_off(counts.bit_error_rate, predicted))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("modulation", "fading"), CASES)
def test_the_measured_error_rate_is_the_closed_form(modulation: str, fading: str, engine: str) -> None:
    counts = measured_counts(modulation, fading, engine=engine)
    assert counts.bits.sum() == NUM_BLOCKS * block_bits(modulation)
    assert errors_from_theory(counts, modulation, fading) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize("planted_db", [-0.5, 0.5])
@pytest.mark.parametrize(("modulation", "fading"), CASES)
def test_half_a_decibel_too_much_or_too_little_is_detected(modulation: str, fading: str, planted_db: float) -> None:
    """Negative control of the test above: the same check must fail for a link that is 0.5 dB off."""
    counts = measured_counts(modulation, fading, planted_db)
    assert errors_from_theory(counts, modulation, fading) > ERRORS_OF_A_CHECK


@pytest.mark.parametrize("modulation", MODULATIONS)
def test_the_received_snr_is_the_one_configured(modulation: str) -> None:
    counts = measured_counts(modulation, "constant")
    total_signal, total_noise = counts.signal_energy.sum(), counts.noise_energy.sum()
    expected = 10.0 ** (operating_point(modulation, "constant") / 10.0) / 2.0
    # Relative variance per symbol: 1 for |z|^2 (exponential), at most 0.4 for QAM energies; k = 4.
    error = np.sqrt(1.4 / counts.symbols.sum())
    assert abs(total_signal / total_noise / expected - 1.0) < 4.0 * error
    assert np.abs(counts.snr_db - 10.0 * np.log10(expected)).max() < 4.5 * np.sqrt(1.4 / BLOCK_SYMBOLS) * 4.35


@pytest.mark.parametrize(
    ("modulation", "fading"),
    [*((m, "constant") for m in MODULATIONS), ("bpsk", "rayleigh"), ("16qam", "rayleigh")],
)
def test_the_chain_equals_that_of_sionna_in_law(modulation: str, fading: str) -> None:
    """BinarySource, Mapper, FlatFadingChannel or AWGN, Demapper with hard decisions: all Sionna's own."""
    import sionna.phy
    import tensorflow as tf
    from sionna.phy.channel import AWGN, FlatFadingChannel
    from sionna.phy.mapping import BinarySource, Demapper, Mapper

    sionna.phy.config.seed = 42
    bits_per_symbol = BITS_PER_SYMBOL[modulation]
    kind = "pam" if bits_per_symbol == 1 else "qam"
    bits = BinarySource()([8, block_bits(modulation)])
    symbols = Mapper(kind, bits_per_symbol)(bits)
    no = 2.0 / 10.0 ** (operating_point(modulation, fading) / 10.0)
    if fading == "constant":
        equalised = AWGN()(symbols, no)
    else:
        received, taps = FlatFadingChannel(1, 1, return_channel=True)(tf.reshape(symbols, [-1, 1]), no)
        equalised = tf.reshape(received[:, 0] / taps[:, 0, 0], symbols.shape)
    # Hard decisions do not depend on the noise power, only on which point is nearest.
    decided = Demapper("maxlog", kind, bits_per_symbol, hard_out=True)(equalised, 1.0)
    theirs = np.mean(decided.numpy() != bits.numpy(), axis=1)
    ours = measured_counts(modulation, fading).bit_error_rate
    assert abs(standard_errors_apart(ours, theirs)) < ERRORS_OF_A_CHECK


def test_rayleigh_costs_a_decade_per_ten_decibels() -> None:
    rates = []
    for snr_max_db in (30.0, 40.0):
        config = link_config("bpsk", snr_max_db=snr_max_db, fading="rayleigh", coherence="symbol")
        uplink = compile_digital(config, num_devices=1, num_bits=BLOCK_SYMBOLS)
        counts = uplink.send(random_payload(256, 1, BLOCK_SYMBOLS), context=context(256), caps={}).counts
        rates.append(counts.bit_errors.sum() / counts.bits.sum())
    # 3100 and 310 errors: relative standard error 6 %; k = 4. One tap per bit, so errors are independent.
    assert rates[0] / rates[1] == pytest.approx(10.0, rel=4.0 * 0.06)


@pytest.mark.parametrize("byte", [0x00, 0xFF])
def test_the_error_rate_does_not_depend_on_what_is_sent(byte: int) -> None:
    """Zeros alone would stay on one inner point of 16-QAM; scrambling uses all of them."""
    snr_max_db, num_bits = operating_point("16qam", "constant"), block_bits("16qam")
    uplink = compile_digital(link_config("16qam", snr_max_db=snr_max_db), num_devices=1, num_bits=num_bits)
    payload = np.full((NUM_BLOCKS, 1, num_bits // 8), byte, np.uint8)
    counts = uplink.send(payload, context=context(NUM_BLOCKS), caps={}).counts
    assert errors_from_theory(counts, "16qam", "constant") < ERRORS_OF_A_CHECK
    # Energies of random 16-QAM symbols have variance 0.32; k = 4.
    power = counts.transmit_energy.sum() / counts.symbols.sum() / 10.0 ** (snr_max_db / 10.0)
    assert abs(power - 1.0) < 4.0 * np.sqrt(0.32 / counts.symbols.sum())


def test_every_device_has_the_snr_of_its_own_gain() -> None:
    gains = (0.5, 1.0, 2.0)
    config = link_config("qpsk", snr_max_db=6.0, channel={"gain": gains, "noise_power": 4.0})
    uplink = compile_digital(config, num_devices=3, num_bits=block_bits("qpsk"))
    counts = uplink.send(random_payload(NUM_BLOCKS, 3, block_bits("qpsk")), context=context(NUM_BLOCKS), caps={}).counts
    for device, gain in enumerate(gains):
        rate = predicted_rate("qpsk", "constant", 6.0 + 20.0 * np.log10(gain))
        assert abs(standard_errors_off(counts.bit_error_rate[:, device], rate)) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize("num_bits", [1, 7, 41, 2 * CHUNK_SYMBOLS + 43])
@pytest.mark.parametrize("modulation", ["bpsk", "64qam"])
def test_every_bit_arrives_at_very_high_snr(modulation: str, num_bits: int) -> None:
    config = link_config(modulation, snr_max_db=60.0)
    uplink = compile_digital(config, num_devices=2, num_bits=num_bits)
    payload = random_payload(2, 2, num_bits)
    reception = uplink.send(payload, context=context(2), caps={})
    assert np.array_equal(unpacked(reception.payload, num_bits), unpacked(payload, num_bits))
    assert not np.unpackbits(reception.payload, axis=-1)[..., num_bits:].any()
    assert not reception.counts.bit_errors.any()
    assert (reception.counts.bits == num_bits).all()
    assert (reception.counts.symbols == -(-num_bits // BITS_PER_SYMBOL[modulation])).all()


def test_a_payload_of_several_chunks_has_the_error_rate_of_a_short_one() -> None:
    num_bits = 5 * CHUNK_SYMBOLS + 43
    uplink = compile_digital(link_config("bpsk", snr_max_db=6.0), num_devices=1, num_bits=num_bits)
    payload = random_payload(4, 1, num_bits)
    reception = uplink.send(payload, context=context(4), caps={})
    errors = unpacked(payload ^ reception.payload, num_bits)
    assert not np.unpackbits(reception.payload, axis=-1)[..., num_bits:].any()
    predicted = predicted_rate("bpsk", "constant", 6.0)
    for first in range(0, num_bits - CHUNK_SYMBOLS, CHUNK_SYMBOLS):
        chunk = errors[..., first : first + CHUNK_SYMBOLS]
        error = np.sqrt(predicted * (1.0 - predicted) / chunk.size)  # bits over AWGN are independent
        assert abs(chunk.mean() - predicted) < ERRORS_OF_A_CHECK * error
    # The noise of one chunk is not that of the next: errors coincide as often as by chance.
    both = (errors[..., :CHUNK_SYMBOLS] & errors[..., CHUNK_SYMBOLS : 2 * CHUNK_SYMBOLS]).sum()
    expected = 4 * CHUNK_SYMBOLS * predicted**2
    assert abs(both - expected) < ERRORS_OF_A_CHECK * np.sqrt(expected)


@pytest.mark.parametrize("fading", ["constant", "rayleigh"])
def test_nothing_is_traced_again_after_the_first_chunk(fading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    functions: list[Any] = []
    for module, name in ((flat_sionna, "_compiled"), (channels, "_gains_kernel")):
        original = getattr(module, name)

        def recording(spec: Any, original: Any = original) -> Any:
            functions.append(original(spec))
            return functions[-1]

        monkeypatch.setattr(module, name, recording)
    config = link_config("qpsk", fading=fading, coherence="packet", packet_size_bytes=64, engine="sionna")
    num_bits = 2 * CHUNK_SYMBOLS + 2 * 16
    for snr_max_db, num_devices, trials in ((3.0, 1, 1), (9.0, 2, 3), (9.0, 1, 7)):
        power = config.power.model_copy(update={"snr_max_db": snr_max_db})
        uplink = compile_digital(config.model_copy(update={"power": power}), num_devices=num_devices, num_bits=num_bits)
        for round_index in (0, 5):
            uplink.send(
                random_payload(trials, num_devices, num_bits),
                context=context(trials, round_index=round_index),
                caps={},
            )
    assert len(functions) >= 3 * 2 + 3  # one chain per send, one look at the gains per link at least
    assert len({id(function) for function in functions}) == 2
    assert [function.experimental_get_tracing_count() for function in functions] == [1] * len(functions)


def test_imperfect_knowledge_of_the_channel_raises_the_error_rate() -> None:
    def rates(csi_error: float) -> NDArray[np.float64]:
        config = link_config("16qam", snr_max_db=25.0, fading="rayleigh", coherence="symbol", csi_error=csi_error)
        uplink = compile_digital(config, num_devices=1, num_bits=block_bits("16qam"))
        payload = random_payload(NUM_BLOCKS, 1, block_bits("16qam"))
        return uplink.send(payload, context=context(NUM_BLOCKS), caps={}).counts.bit_error_rate

    perfect, slight, gross = rates(0.0), rates(0.003), rates(0.1)
    assert standard_errors_apart(slight, perfect) > ERRORS_OF_A_CHECK
    assert standard_errors_apart(gross, slight) > ERRORS_OF_A_CHECK


def test_imperfect_knowledge_costs_bpsk_what_theory_says() -> None:
    """Phase compensation by h^ over Rayleigh fading.

    With decision variable Re{h conj(h^)}, both Gaussian of correlation r = E[y conj(h^)] normalised, the
    error rate is (1 - r) / 2 (Proakis, Digital Communications, C-18): r = 1 / sqrt((1 + v)(1 + 1/g)) with
    g the mean Es/N0 and v the relative error variance.
    """
    variance, snr_max_db = 0.05, 15.0
    config = link_config("bpsk", snr_max_db=snr_max_db, fading="rayleigh", coherence="symbol", csi_error=variance)
    uplink = compile_digital(config, num_devices=1, num_bits=BLOCK_SYMBOLS)
    counts = uplink.send(random_payload(NUM_BLOCKS, 1, BLOCK_SYMBOLS), context=context(NUM_BLOCKS), caps={}).counts
    esno = 10.0 ** (snr_max_db / 10.0) / 2.0
    correlation = 1.0 / np.sqrt((1.0 + variance) * (1.0 + 1.0 / esno))
    assert abs(standard_errors_off(counts.bit_error_rate, (1.0 - correlation) / 2.0)) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize(("coherence", "steady"), [("symbol", True), ("packet", False), ("round", False)])
def test_slower_fading_gives_the_same_errors_in_larger_bursts(coherence: str, steady: bool) -> None:
    """Mean rates agree, but block rates spread as binomial only if every bit has its own fade."""
    config = link_config("bpsk", snr_max_db=10.0, fading="rayleigh", coherence=coherence, packet_size_bytes=128)
    num_trials, num_bits = 300, 8 * 1024
    uplink = compile_digital(config, num_devices=1, num_bits=num_bits)
    counts = uplink.send(random_payload(num_trials, 1, num_bits), context=context(num_trials), caps={}).counts
    rate = predicted_rate("bpsk", "rayleigh", 10.0)
    assert abs(standard_errors_off(counts.bit_error_rate, rate)) < ERRORS_OF_A_CHECK
    dispersion = counts.bit_errors.var(ddof=1) / (num_bits * rate * (1.0 - rate))
    # Dispersion of binomial counts is chi2 / dof: 1 with a standard error of sqrt(2 / 299) = 0.08; k = 4.
    assert (abs(dispersion - 1.0) < 0.33) == steady
    assert steady or dispersion > 20.0


def test_silent_devices_count_nothing() -> None:
    config = link_config("qpsk", fading="rayleigh", policy="truncated-inversion", cutoff_db=0.0)
    uplink = compile_digital(config, num_devices=10, num_bits=256)
    reception = uplink.send(np.full((10, 10, 32), 0xFF, np.uint8), context=context(10), caps={})
    silent = ~reception.decision.active
    assert 0.4 < silent.mean() < 0.85  # 1 - 1/e = 0.63, k = 4 with 100 devices
    rare = ("bit_errors", "packet_errors", "raw_bit_errors", "dropped", "retransmissions")
    for f in fields(LinkCounts):
        assert not getattr(reception.counts, f.name)[silent].any()
        assert f.name in rare or getattr(reception.counts, f.name)[~silent].all()
    assert not reception.payload[silent].any()
    for rate in (reception.counts.bit_error_rate, reception.counts.packet_error_rate, reception.counts.snr_db):
        assert np.array_equal(np.isnan(rate), silent)


def test_packets_are_counted_by_their_size() -> None:
    config = link_config("bpsk", snr_max_db=0.0, packet_size_bytes=16)
    num_bits = 10 * 128 + 5
    uplink = compile_digital(config, num_devices=1, num_bits=num_bits)
    payload = random_payload(1, 1, num_bits)
    reception = uplink.send(payload, context=context(), caps={})
    wrong = unpacked(payload ^ reception.payload, num_bits)[0, 0]
    packets = [wrong[first : first + 128].any() for first in range(0, num_bits, 128)]
    assert reception.counts.packets[0, 0] == len(packets) == 11
    assert reception.counts.packet_errors[0, 0] == sum(packets)


@pytest.mark.parametrize(
    ("access", "modulation"),
    [("auto", "qpsk"), ("superposition", "bpsk"), ("orthogonal", "auto"), ("orthogonal", "analog")],
)
def test_links_without_bits_are_refused(access: str, modulation: str) -> None:
    with pytest.raises(LinkError, match=r"name access: orthogonal or noma and a modulation from bpsk to 256qam"):
        compile_digital(link_config(modulation, access=access), num_devices=1, num_bits=8)
