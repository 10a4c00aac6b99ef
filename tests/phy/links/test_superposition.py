"""Over the air: the sum that arrives, its noise, its misalignment, and who is in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, context, link_config, random_payload, standard_errors_off, unpacked
from scipy import integrate, special, stats

from phy.compile import compile_air
from phy.config import LinkConfig
from phy.engines.sionna import air as air_sionna
from phy.fading.block_taps import CHUNK_SYMBOLS, UplinkContext
from phy.links.link import LinkError, Superposition
from phy.measure import theory

QUIET = {"noise_power": 1e-10}
"""With snr_max_db = 100 the power is P0 = 1 and the noise 1e-5 per dimension."""

ROUNDING = 1e-4
"""Ten standard deviations of that noise; float32 sums of a few terms of magnitude 1 round below 1e-5."""


def air(modulation: str = "analog", **link: Any) -> LinkConfig:
    return link_config(modulation, access="superposition", **{"policy": "inversion", **link})


def superpose(
    config: LinkConfig, payload: NDArray[Any], *, where: UplinkContext | None = None, **caps: Any
) -> Superposition:
    """Amplitudes `[num_trials, num_devices, num_symbols]` through the air."""
    uplink = compile_air(config, num_devices=payload.shape[1], num_symbols=payload.shape[2])
    return uplink.superpose(payload, context=where or context(len(payload)), caps=caps)


def amplitudes(num_trials: int, num_devices: int, num_symbols: int, *, seed: int = 5) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (num_trials, num_devices, num_symbols))


@pytest.mark.parametrize(
    "link",
    [
        {},
        {"fading": "rayleigh", "coherence": "symbol", "policy": "truncated-inversion", "csi_error": 0.1},
        {"fading": "rician", "policy": "fixed"},
    ],
    ids=str,
)
def test_the_air_is_linear(link: dict[str, Any]) -> None:
    config = air(snr_max_db=100.0, channel=QUIET, **link)
    a, b = amplitudes(4, 6, 50), amplitudes(4, 6, 50, seed=6)
    whole, first, second = (superpose(config, x).received for x in (0.5 * a - 2.0 * b, a, b))
    # The noise is the same in all three: 1 - 0.5 + 2 of it remains.
    assert np.abs(whole - (0.5 * first - 2.0 * second)).max() < 2.5 * ROUNDING


@pytest.mark.parametrize("fading", ["constant", "rayleigh"])
def test_the_sum_arrives_at_the_amplitude_decided(fading: str) -> None:
    config = air(fading=fading, snr_max_db=100.0, channel=QUIET)
    x = amplitudes(5, 7, 40)
    heard = superpose(config, x)
    expected = heard.decision.amplitude[:, None] * x.sum(axis=1)
    assert np.abs(heard.received - expected).max() < ROUNDING


def test_complex_amplitudes_are_carried_with_their_phase() -> None:
    config = air(fading="rayleigh", coherence="symbol", snr_max_db=100.0, channel=QUIET)
    x = amplitudes(3, 4, 20) + 1j * amplitudes(3, 4, 20, seed=8)
    heard = superpose(config, x)
    assert np.abs(heard.received - heard.decision.amplitude[:, None] * x.sum(axis=1)).max() < ROUNDING


def test_the_noise_has_variance_n0_in_each_real_dimension() -> None:
    noise_power, num_trials, num_symbols = 2.5, 40, 1000
    x = amplitudes(num_trials, 3, num_symbols)
    heard = superpose(air(snr_max_db=0.0, channel={"noise_power": noise_power}), x)
    z = heard.received - heard.decision.amplitude[:, None] * x.sum(axis=1)
    # n s^2 / N0 is chi-square of n degrees; limits at the tail of 4 standard errors, 3.2e-5 a side.
    low, high = stats.chi2.ppf([stats.norm.sf(4.0), stats.norm.cdf(4.0)], z.size)
    for part in (z.real, z.imag):
        assert low < (part.astype(float) ** 2).sum() / noise_power < high
        assert stats.kstest(part.ravel(), "norm", args=(0.0, np.sqrt(noise_power))).pvalue > 1e-4
    # White over symbols and trials, and between the dimensions: correlations of standard error 1/sqrt(n).
    for first, second in (
        (z[:, 1:].real, z[:, :-1].real),
        (z[1:].real, z[:-1].real),
        (z.real, z.imag),
    ):
        assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 4.0 / np.sqrt(first.size)


def test_every_round_has_noise_of_its_own() -> None:
    x = np.zeros((1, 1, 4000))
    first, second = (superpose(air(), x, where=context(round_index=i)).received[0] for i in (0, 1))
    correlation = np.vdot(first, second) / np.sqrt((np.abs(first) ** 2).sum() * (np.abs(second) ** 2).sum())
    assert abs(correlation) < 4.0 / np.sqrt(4000)


@pytest.mark.parametrize("policy", ["fixed", "inversion", "truncated-inversion"])
def test_permuting_devices_with_their_gains_changes_nothing(policy: str) -> None:
    gains = np.array([0.3, 0.9, 1.4, 2.0, 0.6])
    order = np.array([3, 0, 4, 1, 2])
    x = amplitudes(3, 5, 64)
    heard, permuted = (
        superpose(air(policy=policy, channel={"gain": tuple(gains[o])}), x[:, o]) for o in (np.arange(5), order)
    )
    assert np.array_equal(heard.decision.level, permuted.decision.level)
    assert np.array_equal(heard.decision.active[:, order], permuted.decision.active)
    # The same five terms summed in another order in float32, each below 8: a few 2^-24 of that.
    assert np.abs(heard.received - permuted.received).max() < 1e-5


def test_bits_are_amplitudes_of_plus_and_minus_one() -> None:
    payload = random_payload(3, 4, 41)
    x = 1.0 - 2.0 * unpacked(payload, 41)
    analog = superpose(air(fading="rayleigh"), x)
    uplink = compile_air(air("bpsk", fading="rayleigh"), num_devices=4, num_symbols=41)
    bits = uplink.superpose(payload, context=context(3), caps={})
    assert np.array_equal(bits.decision.level, analog.decision.level)
    np.testing.assert_allclose(bits.received, analog.received, atol=1e-5)  # float32, two compiled programs


def test_one_device_alone_has_the_error_rate_of_bpsk() -> None:
    num_trials, num_symbols, snr_max_db = 64, 8192, 5.0
    payload = random_payload(num_trials, 1, num_symbols)
    uplink = compile_air(air("bpsk", snr_max_db=snr_max_db), num_devices=1, num_symbols=num_symbols)
    received = uplink.superpose(payload, context=context(num_trials), caps={}).received
    wrong = (received.real < 0.0) != unpacked(payload, num_symbols)[:, 0]
    predicted = float(theory.awgn_bit_error_rate(10.0 ** (snr_max_db / 10.0) / 2.0, bits_per_symbol=1))
    assert abs(standard_errors_off(wrong.mean(axis=1), predicted)) < ERRORS_OF_A_CHECK


def test_a_phase_known_badly_turns_the_sum_as_theory_says() -> None:
    """Fixed power, h = 1, h^ = 1 + e: each device arrives as conj(u), u = (1 + e)/|1 + e|.

    E u from the density of e in polar coordinates; Var u = 1 - (E u)^2; the sum of K devices has K times
    both, for their errors are independent.
    """
    variance, num_devices = 0.2, 5

    def weighted_cosine(radius: float) -> float:
        """2 r / v exp(-(1 + r^2)/v) I1(2 r / v), the density of |1 + e| = r times the mean cosine there."""
        return (
            2.0
            * radius
            / variance
            * np.exp(-((1.0 - radius) ** 2) / variance)
            * special.ive(1, 2.0 * radius / variance)
        )

    mean = integrate.quad(weighted_cosine, 0.0, 8.0, epsabs=1e-12)[0]
    config = air(policy="fixed", coherence="symbol", csi_error=variance, snr_max_db=100.0, channel=QUIET)
    received = superpose(config, np.ones((16, num_devices, 4096))).received.astype(complex).ravel()
    assert abs(standard_errors_off(received.real, num_devices * mean)) < ERRORS_OF_A_CHECK
    assert abs(standard_errors_off(received.imag, 0.0)) < ERRORS_OF_A_CHECK
    spread = np.abs(received - num_devices * mean) ** 2
    assert abs(standard_errors_off(spread, num_devices * (1.0 - mean**2))) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize(("coherence", "independent"), [("symbol", 4096), ("packet", 64), ("round", 1)])
def test_a_residual_phase_turns_the_sum_as_theory_says(coherence: str, independent: int) -> None:
    """E exp(j phi) = exp(-s^2/2), Var exp(j phi) = 1 - exp(-s^2); K devices have K times both."""
    degrees, num_devices, num_trials = 30.0, 5, 200
    config = air(
        coherence=coherence,
        snr_max_db=100.0,
        channel=QUIET,
        impairments={"phase_error_deg": degrees},
        packet_size_bytes=8,
    )
    heard = superpose(config, np.ones((num_trials, num_devices, 4096)))
    arrived = heard.received.astype(complex) / heard.decision.amplitude[:, None]
    blocks = arrived.reshape(num_trials, independent, -1)
    assert np.ptp(blocks.real, axis=2).max() < 20 * ROUNDING  # one phase for each coherence block
    each, spread = blocks[:, :, 0], np.deg2rad(degrees)
    mean = num_devices * np.exp(-(spread**2) / 2)
    assert abs(standard_errors_off(each.real, mean)) < ERRORS_OF_A_CHECK
    assert abs(standard_errors_off(each.imag, 0.0)) < ERRORS_OF_A_CHECK
    expected = num_devices * (1.0 - np.exp(-(spread**2)))
    assert abs(standard_errors_off(np.abs(each - mean) ** 2, expected)) < ERRORS_OF_A_CHECK


def test_a_frequency_offset_turns_a_device_steadily_on_a_single_carrier() -> None:
    config = air(snr_max_db=100.0, channel=QUIET, impairments={"cfo_hz": 500.0}, bandwidth_hz=1e6)
    received = superpose(config, np.ones((4, 1, CHUNK_SYMBOLS + 64))).received.astype(complex)
    step = np.angle((received[:, 1:] * received[:, :-1].conj()).sum(axis=1))
    assert (np.abs(step) < 2 * np.pi * 5e-4).all()
    assert len(np.unique(step)) == 4
    last = CHUNK_SYMBOLS + 63  # in the second chunk
    np.testing.assert_allclose(np.angle(received[:, last] * np.exp(-1j * step * last)), 0.0, atol=5e-3)


def test_the_amplifier_clips_amplitudes_beyond_its_limit() -> None:
    config = air(snr_max_db=100.0, channel=QUIET, impairments={"clipping_db": 3.0})
    x = amplitudes(3, 1, 4096)
    heard = superpose(config, x)
    limit = np.sqrt((x**2).mean(axis=2) * 10.0**0.3)
    assert (limit < 0.9).all()
    expected = heard.decision.amplitude[:, None] * np.clip(x[:, 0], -limit, limit)
    assert np.abs(heard.received - expected).max() < ROUNDING
    clipped = heard.energy_j
    assert clipped is not None
    np.testing.assert_allclose(clipped, (np.clip(x, -limit[..., None], limit[..., None]) ** 2).sum(2) * 1e-6, rtol=1e-5)


def test_energy_and_airtime_are_those_of_the_symbols_sent() -> None:
    """Under inversion a device of gain h sends A x / h; 13 symbols of 1 us each."""
    x = amplitudes(3, 2, 13)
    heard = superpose(air(channel={"gain": (0.5, 2.0)}), x)
    assert heard.airtime_s is not None
    assert heard.energy_j is not None
    np.testing.assert_allclose(heard.airtime_s, 13e-6)
    sent = heard.decision.level[:, None, None] * x / np.array([0.5, 2.0])[None, :, None]
    np.testing.assert_allclose(heard.energy_j, (sent**2).sum(axis=2) * 1e-6, rtol=1e-5)
    bits = compile_air(air("bpsk"), num_devices=2, num_symbols=13)
    spent = bits.superpose(random_payload(3, 2, 13), context=context(3), caps={})
    np.testing.assert_allclose(spent.energy_j, spent.decision.level[:, None] ** 2 * np.full((3, 2), 13e-6), rtol=1e-6)


@pytest.mark.parametrize("num_devices", [1, 6])
def test_the_misalignment_under_truncated_inversion_is_as_theory_says(num_devices: int) -> None:
    """Rayleigh h and h^ = h + e are jointly Gaussian: h = h^ / (1 + v) + r with Var r = v / (1 + v).

    A device on the air arrives as h / h^ = 1/(1 + v) + r / h^. With t = c / (1 + v) the mean of 1/|h^|^2
    over |h^|^2 >= c is e^t E1(t) / (1 + v), so the misalignment has variance v / (1 + v)^2 e^t E1(t).
    """
    variance, cutoff = 0.1, 10.0**-1.0
    config = air(
        fading="rayleigh",
        coherence="symbol",
        policy="truncated-inversion",
        csi_error=variance,
        cutoff_db=-10.0,
        snr_max_db=100.0,
        channel={**QUIET, "gain": 0.04},
    )
    heard = superpose(config, np.ones((16, num_devices, 4096)))
    arrived = heard.received.astype(complex) / heard.decision.level[:, None]
    error = arrived - heard.num_active / (1.0 + variance)
    t = cutoff / (1.0 + variance)
    per_device = variance / (1.0 + variance) ** 2 * np.exp(t) * special.exp1(t)
    assert abs(standard_errors_off(error.real, 0.0)) < ERRORS_OF_A_CHECK
    expected = per_device * num_devices * np.exp(-t)
    assert abs(standard_errors_off(np.abs(error) ** 2, expected)) < ERRORS_OF_A_CHECK


def test_the_count_of_active_devices_matches_theory() -> None:
    config = air(fading="rayleigh", coherence="symbol", policy="truncated-inversion", cutoff_db=-5.0)
    num_active = superpose(config, np.ones((16, 10, 1024))).num_active
    p = np.exp(-(10.0**-0.5))
    assert num_active.shape == (16, 1024)
    assert abs(standard_errors_off(num_active, 10 * p)) < ERRORS_OF_A_CHECK
    assert num_active.var() == pytest.approx(10 * p * (1 - p), rel=4.0 * np.sqrt(2.0 / num_active.size))  # k = 4


@pytest.mark.parametrize("coherence", ["symbol", "round"])
def test_only_active_devices_are_in_the_sum(coherence: str) -> None:
    config = air(
        fading="rayleigh",
        coherence=coherence,
        policy="truncated-inversion",
        cutoff_db=-3.0,
        snr_max_db=100.0,
        channel=QUIET,
    )
    heard = superpose(config, np.ones((30, 5, 12)))
    expected = heard.decision.level[:, None] * heard.num_active
    assert heard.num_active.shape == ((30, 12) if coherence == "symbol" else (30, 1))
    assert len(np.unique(heard.num_active)) > 2
    assert np.abs(heard.received - expected).max() < ROUNDING
    if coherence == "round":
        assert np.array_equal(heard.num_active[:, 0], heard.decision.active.sum(axis=1))


def test_a_cap_lowers_the_amplitude_of_the_sum() -> None:
    x = amplitudes(3, 4, 10)
    heard = superpose(air(snr_max_db=100.0, channel=QUIET), x, privacy=[0.1, 0.2, np.inf])
    np.testing.assert_allclose(heard.decision.amplitude, [0.1, 0.2, 1.0], rtol=1e-6)  # float32 gains
    expected = np.array([0.1, 0.2, 1.0])[:, None] * x.sum(axis=1)
    assert np.abs(heard.received - expected).max() < ROUNDING


def test_larger_amplitudes_leave_less_power_for_each() -> None:
    uplinks = (compile_air(air(), num_devices=2, num_symbols=8, payload_bound=bound) for bound in (1.0, 4.0))
    one, four = (u.superpose(np.ones((1, 2, 8)), context=context(), caps={}).decision for u in uplinks)
    assert one.amplitude == pytest.approx(4.0 * four.amplitude, rel=1e-12)


def test_a_payload_of_several_chunks_arrives_whole() -> None:
    config = air(fading="rayleigh", coherence="packet", snr_max_db=100.0, channel=QUIET)
    x = amplitudes(2, 2, CHUNK_SYMBOLS + 100)
    heard = superpose(config, x)
    assert heard.received.shape == (2, CHUNK_SYMBOLS + 100)
    assert np.abs(heard.received - heard.decision.amplitude[:, None] * x.sum(axis=1)).max() < ROUNDING


@pytest.mark.parametrize(
    ("modulation", "link"),
    [
        ("bpsk", {"fading": "rayleigh", "policy": "truncated-inversion", "csi_error": 0.1}),
        ("analog", {"fading": "rician", "coherence": "symbol", "csi_error": 0.1}),
        ("analog", {}),
    ],
    ids=str,
)
def test_a_trial_has_the_same_numbers_in_any_batch(modulation: str, link: dict[str, Any]) -> None:
    """Bit for bit, also for the last trial of a chunk, whose rows end at no multiple of a vector length."""
    num_devices, num_symbols = 3, 5
    trials_per_chunk = CHUNK_SYMBOLS // (8 * num_devices)
    num_trials = trials_per_chunk + 9
    uplink = compile_air(air(modulation, **link), num_devices=num_devices, num_symbols=num_symbols)
    x: NDArray[Any] = amplitudes(num_trials, num_devices, num_symbols)
    if modulation == "bpsk":
        x = random_payload(num_trials, num_devices, num_symbols)
    whole = uplink.superpose(x, context=context(num_trials), caps={})
    last = trials_per_chunk - 1
    for rows in ([0], [last], [last + 1], [num_trials - 1], [7, 3, last], list(range(5, 18))):
        part = uplink.superpose(x[rows], context=context(tuple(rows)), caps={})
        assert np.array_equal(part.received, whole.received[rows])
        assert np.array_equal(part.num_active, whole.num_active[rows])
        assert np.array_equal(part.decision.amplitude, whole.decision.amplitude[rows])


def test_nothing_is_traced_again_after_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    functions: list[Any] = []
    original = air_sionna._compiled

    def recording(chain: Any) -> Any:
        functions.append(original(chain))
        return functions[-1]

    monkeypatch.setattr(air_sionna, "_compiled", recording)
    for snr_max_db, num_trials in ((3.0, 1), (9.0, 7), (20.0, 3000)):
        uplink = compile_air(
            air(snr_max_db=snr_max_db, fading="rayleigh", engine="sionna"), num_devices=4, num_symbols=6
        )
        for round_index in (0, 1):
            where = context(num_trials, round_index=round_index)
            uplink.superpose(amplitudes(num_trials, 4, 6), context=where, caps={})
    assert len({id(function) for function in functions}) == 1
    assert functions[0].experimental_get_tracing_count() == 1


def test_modulations_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(LinkError, match="superposition adds BPSK symbols or amplitudes"):
        compile_air(air("16qam"), num_devices=1, num_symbols=8)
    with pytest.raises(LinkError, match="name access: superposition"):
        compile_air(link_config("analog"), num_devices=1, num_symbols=8)


@pytest.mark.parametrize("error_model", ["iid", "analytic"])
def test_error_models_that_flip_bits_are_refused(error_model: str) -> None:
    with pytest.raises(LinkError, match="superposition detects no device's bits"):
        compile_air(air("bpsk", error_model=error_model), num_devices=1, num_symbols=8)
