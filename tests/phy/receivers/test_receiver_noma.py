"""Several users on one resource: error propagation as the exact rate has it, joint detection by brute force."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from observations import Repetition, Sent, configuration, modulated, observe, rayleigh, receive, send
from radio import ERRORS_OF_A_CHECK, standard_errors_apart, standard_errors_off
from scipy.special import logsumexp, ndtr

from phy.config import BITS_PER_SYMBOL
from phy.receivers.demapping import constellation_points

SNR_DB = (10.0, 4.0)
"""Two QPSK users 6 dB apart where errors of the first are frequent enough to spread."""


def two_users(snr_db: tuple[float, float] = SNR_DB, *, num_symbols: int = 50_000) -> Sent:
    """QPSK over AWGN, both users with the phase of their row."""
    phase = np.exp(2j * np.pi * np.random.default_rng(8).random((8, 1, 1, 1)))
    amplitude = 10.0 ** (np.array(snr_db) / 20.0)[:, None, None]
    return send("qpsk", np.broadcast_to(phase * amplitude, (8, 2, 1, num_symbols)))


def exact_error_rates(snr_db: tuple[float, float], *, genie: bool = False) -> tuple[float, float]:
    """BER of both users under SIC: on each axis the received value is Gaussian around every pair of signs.

    With levels c1 > c2 and noise s per axis, user 1 is decided by the sign of y and user 2 by the sign of
    y -+ c1, as user 1 was decided; `genie` subtracts what user 1 sent.
    """
    c1, c2 = (10.0 ** (level / 20.0) / np.sqrt(2.0) for level in snr_db)
    s = np.sqrt(0.5)

    def between(low: float, high: float, mean: float) -> float:
        return float(ndtr((high - mean) / s) - ndtr((low - mean) / s))

    first, second = 0.0, 0.0
    for sign in (1.0, -1.0):
        mean = c1 + sign * c2  # the first user sends +1, the other half is its mirror image
        first += between(-np.inf, 0.0, mean) / 2
        decided_plus = between(c1, np.inf, mean) + between(-c1, 0.0, mean)
        if genie:
            decided_plus = between(c1, np.inf, mean)
        second += (1.0 - decided_plus if sign > 0 else decided_plus) / 2
    return first, second


def error_rates(sent: Sent, detector: str = "sic", *, equalizer: str = "lmmse") -> NDArray[np.float64]:
    """Errors of every bit `[users, rows * n]`; the axes of a QPSK symbol fail independently here."""
    users, antennas = sent.channel.shape[1:3]
    config = configuration("qpsk", users=users, antennas=antennas, detector=detector, equalizer=equalizer)
    wrong = receive(config, sent.observation).bits != sent.bits
    return np.moveaxis(wrong, 1, 0).reshape(users, -1).astype(float)


@pytest.mark.parametrize("equalizer", ["zf", "lmmse"])
def test_two_user_sic_over_awgn_has_the_exact_error_rates(equalizer: str) -> None:
    errors = error_rates(two_users(), equalizer=equalizer)
    for measured, expected in zip(errors, exact_error_rates(SNR_DB), strict=True):
        assert abs(standard_errors_off(measured, expected)) < ERRORS_OF_A_CHECK


def test_errors_of_the_first_user_spread_to_the_second() -> None:
    measured = error_rates(two_users())[1]
    genie = exact_error_rates(SNR_DB, genie=True)[1]
    assert measured.mean() > genie
    assert abs(standard_errors_off(measured, genie)) > ERRORS_OF_A_CHECK


def test_half_a_decibel_of_one_user_is_detected() -> None:
    errors = error_rates(two_users())
    for planted in ((SNR_DB[0] + 0.5, SNR_DB[1]), (SNR_DB[0], SNR_DB[1] + 0.5)):
        off = [standard_errors_off(e, p) for e, p in zip(errors, exact_error_rates(planted), strict=True)]
        assert max(map(abs, off)) > ERRORS_OF_A_CHECK


def test_the_order_is_that_of_power_not_of_numbers() -> None:
    weak_first = two_users((SNR_DB[1], SNR_DB[0]))
    second, first = exact_error_rates(SNR_DB)[::-1], exact_error_rates(SNR_DB)
    for measured, expected in zip(error_rates(weak_first), second, strict=True):
        assert abs(standard_errors_off(measured, expected)) < ERRORS_OF_A_CHECK
    assert abs(standard_errors_off(error_rates(weak_first)[0], first[0])) > ERRORS_OF_A_CHECK


def test_each_row_has_an_order_of_its_own() -> None:
    strong_first, weak_first = two_users(num_symbols=400), two_users((SNR_DB[1], SNR_DB[0]), num_symbols=400)
    config = configuration("qpsk", users=2)
    alone = [receive(config, sent.observation).llrs for sent in (strong_first, weak_first)]
    mixed = [
        tf.concat([a[:4], b[4:]], axis=0) if a.shape.rank else a
        for a, b in zip(strong_first.observation, weak_first.observation, strict=True)
    ]
    together = receive(config, type(strong_first.observation)(*mixed)).llrs
    assert np.array_equal(together, np.concatenate([alone[0][:4], alone[1][4:]]))


def slow_sic(sent: Sent, modulation: str) -> NDArray[np.int64]:
    """SIC by loops over one antenna: indices of points `[rows, users, S]`."""
    points = constellation_points(BITS_PER_SYMBOL[modulation]).astype(complex)
    channel, received = sent.channel[:, :, 0], sent.observation.received.numpy()[:, 0]
    found = np.empty(sent.symbols.shape, np.int64)
    for row in range(len(channel)):
        residual = received[row].astype(complex)
        for user in np.argsort(-(np.abs(channel[row]) ** 2).sum(axis=1), kind="stable"):
            distance = np.abs(residual[:, None] - channel[row, user][:, None] * points)
            found[row, user] = distance.argmin(axis=1)
            residual = residual - channel[row, user] * points[found[row, user]]
    return found


@pytest.mark.parametrize("modulation", ["qpsk", "16qam", "64qam"])
def test_sic_over_fading_decides_as_a_slow_loop_does(modulation: str) -> None:
    sent = send(modulation, rayleigh(6, 3, 1, 300, snr_db=[4.0, 16.0, 10.0]))
    bits = BITS_PER_SYMBOL[modulation]
    labels = (slow_sic(sent, modulation)[..., None] >> np.arange(bits - 1, -1, -1)) & 1
    found = receive(configuration(modulation, users=3), sent.observation).bits
    # Single against double precision: a symbol within 2^-20 of a boundary may fall to the other side.
    assert (found != labels.reshape(found.shape)).mean() < 1e-3


def brute_force(sent: Sent, modulation: str, *, demapper: str) -> NDArray[np.float64]:
    """LLRs over all vectors of points, in double precision and by enumeration."""
    bits = BITS_PER_SYMBOL[modulation]
    points = constellation_points(bits).astype(complex)
    users = sent.symbols.shape[1]
    labels = np.array(list(product(range(len(points)), repeat=users)))
    sums = np.einsum("ruas,vu->rvas", sent.channel, points[labels])
    metric = -(np.abs(sent.observation.received.numpy()[:, None] - sums) ** 2).sum(axis=2)
    reduce: Any = np.max if demapper == "maxlog" else logsumexp
    llrs = np.empty((*sent.symbols.shape, bits))
    for user, bit in product(range(users), range(bits)):
        one = (labels[:, user] >> (bits - 1 - bit)) & 1 == 1
        llrs[:, user, :, bit] = reduce(metric[:, one], axis=1) - reduce(metric[:, ~one], axis=1)
    return llrs.reshape(sent.bits.shape)


@pytest.mark.parametrize("demapper", ["app", "maxlog"])
@pytest.mark.parametrize(
    ("modulation", "users", "antennas"), [("bpsk", 4, 1), ("qpsk", 2, 1), ("qpsk", 3, 2), ("16qam", 2, 2)]
)
def test_joint_llrs_are_those_of_enumeration(modulation: str, users: int, antennas: int, demapper: str) -> None:
    sent = send(modulation, rayleigh(3, users, antennas, 40, snr_db=10.0 - 4.0 * np.arange(users)))
    config = configuration(modulation, users=users, antennas=antennas, detector="ml", demapper=demapper)
    found = receive(config, sent.observation).llrs
    # Metrics reach some hundreds in float32: a few 2^-24 of that.
    assert np.abs(found - brute_force(sent, modulation, demapper=demapper)).max() < 2e-3


def test_joint_llrs_are_those_of_sionna() -> None:
    from sionna.phy.mimo.detection import MaximumLikelihoodDetector

    sent = send("qpsk", rayleigh(3, 2, 2, 40, snr_db=8.0))
    block = MaximumLikelihoodDetector("bit", "app", 2, "qam", 2)
    seen = sent.observation
    expected = block(
        tf.transpose(seen.received, [0, 2, 1]),
        tf.transpose(seen.channel, [0, 3, 2, 1]),
        tf.eye(2, batch_shape=[3, 40], dtype=tf.complex64),
    )
    expected = expected.numpy().transpose(0, 2, 1, 3).reshape(sent.bits.shape)
    found = receive(configuration("qpsk", users=2, antennas=2, detector="ml", demapper="app"), seen).llrs
    assert np.abs(found - expected).max() < 2e-3


def test_joint_detection_gives_the_same_llrs_however_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    from phy.receivers import joint

    sent = send("qpsk", rayleigh(3, 2, 1, 41, snr_db=8.0))
    config = configuration("qpsk", users=2, detector="ml", demapper="app")
    whole = receive(config, sent.observation).llrs
    joint.joint.cache_clear()
    monkeypatch.setattr(joint, "_METRICS_AT_A_TIME", 16 * 10)
    cut = receive(config, sent.observation).llrs
    joint.joint.cache_clear()
    # Another chunk length may round differently in vectorised exponentials.
    assert np.abs(cut - whole).max() < 1e-4


@pytest.mark.parametrize("antennas", [1, 2])
def test_joint_detection_is_never_worse_than_cancellation(antennas: int) -> None:
    sent = send("qpsk", rayleigh(8, 2, antennas, 10_000, snr_db=[14.0, 8.0]))
    joint, sic = error_rates(sent, "ml"), error_rates(sent, "sic")
    for user in range(2):
        assert joint[user].mean() <= sic[user].mean()
    # Where it matters, on one antenna, it is clearly better.
    if antennas == 1:
        assert standard_errors_apart(sic[1], joint[1]) > ERRORS_OF_A_CHECK


def coded(detector: str, *, snr_db: tuple[float, float] = (9.0, 3.0), attempts: int = 1) -> NDArray[np.float64]:
    """Bits of two QPSK users wrong after a repetition code and the last of some attempts, `[users, bits]`."""
    rows, users, payload = 16, 2, 1000
    codec = Repetition(payload, repeats=4)
    bits = np.random.default_rng(6).integers(0, 2, (rows, users, payload)).astype(np.int32)
    symbols = modulated(np.tile(bits, 4), "qpsk")
    config = configuration("qpsk", users=users, detector=detector, demapper="app")
    summed = np.zeros((rows, users, codec.coded_bits), np.float32)
    for attempt in range(attempts):
        channel = rayleigh(rows, users, 1, symbols.shape[-1], snr_db=snr_db, seed=20 + attempt)
        seen = observe(symbols, channel, seed=attempt)
        decoded = receive(config, seen, codec=codec, earlier_llrs=summed)
        summed = summed + decoded.llrs
    return np.moveaxis(decoded.bits != bits, 1, 0).reshape(users, -1).astype(float)


def test_cancelling_decoded_packets_beats_cancelling_symbols() -> None:
    packets, symbols = coded("sic-codeword"), coded("sic")
    # The strongest is received in the same way by both; what it leaves behind differs.
    assert np.array_equal(packets[0], symbols[0])
    assert standard_errors_apart(symbols[1], packets[1]) > ERRORS_OF_A_CHECK


@pytest.mark.parametrize("detector", ["sic", "sic-codeword", "ml"])
def test_soft_values_of_an_earlier_attempt_help(detector: str) -> None:
    once, twice = (coded(detector, snr_db=(4.0, 0.0), attempts=n) for n in (1, 2))
    for user in range(2):
        assert standard_errors_apart(once[user], twice[user]) > ERRORS_OF_A_CHECK


def test_cancelling_decoded_packets_saves_an_ldpc_code_that_cancelling_symbols_loses() -> None:
    from phy.coding.packet import build_codec
    from phy.config import CodingConfig

    coding = CodingConfig(code="ldpc5g", rate=0.5, iterations=10, standard="sionna")
    codec = build_codec(coding, payload_bits=400, bits_per_symbol=2, crc="crc16")
    bits = np.random.default_rng(6).integers(0, 2, (40, 2, 400)).astype(np.int32)
    coded_bits = codec.encode(tf.constant(bits.reshape(80, 400))).numpy().reshape(40, 2, codec.coded_bits)
    symbols = modulated(coded_bits, "qpsk")
    # The first packet arrives at 3 dB over noise and the second, the second at 3 dB once the first is gone.
    amplitude = np.sqrt([10.0**0.3 * (1.0 + 10.0**0.3), 10.0**0.3])
    seen = observe(symbols, np.broadcast_to(amplitude[:, None, None], (40, 2, 1, symbols.shape[-1])))
    packets, by_symbols = (
        receive(configuration("qpsk", users=2, detector=d, demapper="app"), seen, codec=codec)
        for d in ("sic-codeword", "sic")
    )
    assert packets.accepted.all()
    assert np.array_equal(packets.bits, bits)
    assert by_symbols.accepted[:, 0].all()
    assert by_symbols.accepted[:, 1].mean() < 0.5


def test_a_wrong_packet_of_the_first_user_is_subtracted_as_decoded() -> None:
    class Stubborn(Repetition):
        """Decodes every packet to ones and accepts none."""

        def decode(self, llrs: Any) -> tuple[Any, Any]:
            rows = llrs.shape[0]
            return tf.ones([rows, self.payload_bits], tf.int32), tf.zeros([rows], bool)

    sent = send("qpsk", np.broadcast_to(np.array([10.0, 1.0])[:, None, None], (2, 2, 1, 50)), noise_power=1e-6)
    config = configuration("qpsk", users=2, detector="sic-codeword")
    decoded = receive(config, sent.observation, codec=Stubborn(100))
    all_ones = modulated(np.ones((1, 100), np.int32), "qpsk")
    left = sent.observation.received.numpy()[:, 0] - 10.0 * all_ones
    assert not decoded.accepted.any()
    assert np.array_equal(decoded.llrs[:, 1].reshape(2, 50, 2)[..., 0] > 0, left.real < 0)
