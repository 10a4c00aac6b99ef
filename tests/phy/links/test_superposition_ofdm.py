"""Sums over the carriers of an OFDM grid: against the flat link, closed forms, and a channel written out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from ofdm_air import OFDM, QUIET, TDL, air, amplitudes, link_over, recovered, superpose
from radio import ERRORS_OF_A_CHECK, context, random_payload, standard_errors_off, unpacked

from phy.compile import compile_air
from phy.config import CsiEstimation, ImpairmentsConfig
from phy.links.link import LinkError
from phy.links.superposition_ofdm.chain import compiled_chain
from phy.links.superposition_ofdm.chunks import SionnaSums
from phy.links.superposition_ofdm.layout import Layout
from phy.links.superposition_ofdm.link import OfdmSuperposition


@dataclass(frozen=True)
class TwoRays:
    """A known channel: a direct ray and an echo that turns with time, the same for every key but for its phase."""

    echo: complex = 0.5j
    delay_s: float = 2e-6
    doppler_hz: float = 0.0
    num_antennas: int = 1

    @property
    def delays_s(self) -> NDArray[np.float64]:
        return np.array([0.0, self.delay_s])

    @property
    def powers(self) -> NDArray[np.float64]:
        power = np.array([1.0, abs(self.echo) ** 2])
        return power / power.sum()

    def taps(self, key: Any, instants_s: Any) -> Any:
        import tensorflow as tf

        scale = 1.0 / np.sqrt(1.0 + abs(self.echo) ** 2)
        phase = tf.cast(key[:, 0, None] % np.uint32(7), tf.float32)
        direct = tf.exp(1j * tf.cast(phase + 0.0 * instants_s, tf.complex64)) * np.complex64(scale)
        turn = tf.exp(tf.cast(2.0 * np.pi * self.doppler_hz * instants_s, tf.complex64) * 1j)
        return tf.stack([direct, turn * np.complex64(scale * self.echo)], axis=1)[:, None]

    def path_correlation(self, lag_s: NDArray[np.float64]) -> NDArray[np.complex128]:
        turning = np.exp(-2j * np.pi * self.doppler_hz * np.asarray(lag_s))
        return np.stack([np.ones_like(turning), turning])


def test_without_fading_it_is_the_flat_link() -> None:
    """Same noise by key and position, same level: equal to the flat link up to rounding, not only in law."""
    x = amplitudes(4, 3, 130)
    over_carriers, flat = (superpose(c, x) for c in (air(), air().model_copy(update={"ofdm": "none"})))
    np.testing.assert_allclose(over_carriers.decision.amplitude, flat.decision.amplitude, rtol=1e-6)
    np.testing.assert_allclose(over_carriers.received, flat.received, atol=1e-4)
    assert over_carriers.num_active.tolist() == flat.num_active.tolist()


@pytest.mark.parametrize("noise_power", [0.5, 3.0])
def test_the_error_of_the_sum_is_noise_over_amplitude(noise_power: float) -> None:
    """E|y / A - sum|^2 = 2 N0 / A^2, A^2 = P0 = 10 N0 over a channel that is known and does not fade."""
    x = amplitudes(40, 3, 300)
    error = recovered(superpose(air(channel={"noise_power": noise_power}), x)) - x.sum(axis=1)
    assert abs(standard_errors_off(np.abs(error) ** 2, 0.2)) < ERRORS_OF_A_CHECK
    assert abs(standard_errors_off(error.real**2, 0.1)) < ERRORS_OF_A_CHECK
    # Planted: half a decibel less noise is found out.
    assert abs(standard_errors_off(np.abs(error) ** 2, 0.2 * 10**-0.05)) > ERRORS_OF_A_CHECK


@pytest.mark.parametrize("policy", ["inversion", "truncated-inversion"])
def test_a_known_selective_channel_does_not_change_the_sum(policy: str) -> None:
    config = air(policy=policy, snr_max_db=100.0, channel={**QUIET, **TDL}, cutoff_db=-5.0)
    x = np.ones((6, 5, 230))
    heard = superpose(config, x)
    expected = heard.decision.amplitude[:, None] * np.broadcast_to(heard.num_active, (6, 230))
    # Noise of 1e-5, and float32: 3e-7 of weights of up to 1 / sqrt(cutoff) or the deepest fade.
    assert np.abs(heard.received - expected).max() < 1e-4
    if policy == "inversion":
        assert (heard.num_active == 5).all()
    else:
        assert heard.num_active.shape == (6, 230)
        assert 0.5 < heard.num_active.mean() / 5 < 0.9  # exp(-10^-0.5) = 0.73 of the elements
        assert len(np.unique(heard.num_active)) > 3


def test_the_channel_in_between_is_that_of_the_propagation() -> None:
    """Full power with phases undone: device k arrives as |H_k|, the two rays written out."""
    rays = TwoRays()
    config = air(policy="fixed", snr_max_db=100.0, channel=QUIET)
    link = link_over(config, rays, num_devices=1, num_symbols=120)
    heard = link.superpose(np.ones((3, 1, 120)), context=context(3), caps={})
    frequency = (np.array([c for c in range(2, 23) if c != 12]) - 12) * 15e3
    magnitude = np.abs(heard.received).reshape(3, 6, 20)
    assert np.ptp(magnitude, axis=1).max() < 1e-4  # nothing moves
    found = magnitude[:, 0]
    for trial in range(3):
        # The phase of the direct ray is one of seven.
        errors = [
            np.abs(
                np.abs(np.exp(1j * key) + 0.5j * np.exp(-2j * np.pi * frequency * 2e-6)) / np.sqrt(1.25) - found[trial]
            ).max()
            for key in range(7)
        ]
        assert min(errors) < 1e-4
        assert sorted(errors)[1] > 1e-2  # planted: any other phase is found out


def test_time_passes_over_symbols_and_rounds() -> None:
    """An echo of 40 Hz: |H| turns with the middle of each OFDM symbol, pilots skipped, and from round to round."""
    rays = TwoRays(doppler_hz=40.0, delay_s=0.0)
    config = air(
        policy="fixed", snr_max_db=100.0, channel={**QUIET, "speed_m_s": 1.0}, coherence="doppler", fading="rayleigh"
    )
    link = link_over(config, rays, num_devices=1, num_symbols=240)
    index = np.array([0, 2, 3, 4, 6, 7, 9, 10, 11, 13, 14, 16])
    for round_index in (0, 3):
        heard = link.superpose(np.ones((2, 1, 240)), context=context(2, round_index=round_index), caps={})
        at = (round_index * 21 + index) * OFDM.symbol_s + OFDM.prefix_s + 0.5 / 15e3
        found = np.abs(heard.received).reshape(2, 12, 20)
        errors = [
            np.abs(np.abs(np.exp(1j * key) + 0.5j * np.exp(2j * np.pi * 40.0 * at)) / np.sqrt(1.25) - found[0, :, 7])
            for key in range(7)
        ]
        assert min(error.max() for error in errors) < 1e-4


def test_bits_are_amplitudes_of_plus_and_minus_one() -> None:
    payload = random_payload(3, 4, 141)
    x = 1.0 - 2.0 * unpacked(payload, 141)
    link = {"fading": "rayleigh", "policy": "truncated-inversion", "coherence": "symbol"}
    analog = superpose(air(**link), x)
    uplink = compile_air(air("bpsk", **link), num_devices=4, num_symbols=141)
    bits = uplink.superpose(payload, context=context(3), caps={})
    np.testing.assert_allclose(bits.decision.level, analog.decision.level, rtol=1e-6)
    np.testing.assert_allclose(bits.received, analog.received, atol=2e-5)  # float32, two compiled programs
    np.testing.assert_allclose(bits.energy_j, analog.energy_j, rtol=1e-5)


@pytest.mark.parametrize("estimator", ["ls", "lmmse"])
def test_estimates_approach_the_channel_as_pilots_grow_strong(estimator: str) -> None:
    """Flat Rayleigh fading: the estimate's error is noise alone and falls with power, 10 dB for 10 dB."""
    x = np.ones((60, 4, 100))
    errors = []
    for snr_max_db in (20.0, 30.0, 40.0, 100.0):
        config = air(
            csi=estimator, fading="rayleigh", policy="truncated-inversion", snr_max_db=snr_max_db, channel=QUIET
        )
        heard = superpose(config, x)
        error = recovered(heard) - heard.num_active
        noise = 2e-10 / heard.decision.amplitude[:, None] ** 2
        errors.append(np.mean(np.abs(error) ** 2 - noise))
    ratios = np.array(errors[:-2]) / np.array(errors[1:-1])
    assert (ratios > 7.0).all()  # 10, with the spread of 240 fades
    assert (ratios < 14.0).all()
    assert errors[-1] < 1e-7


@pytest.mark.slow
def test_linear_mmse_estimates_align_better_than_least_squares() -> None:
    x = np.ones((60, 4, 100))
    error = []
    for estimator in ("ls", "lmmse"):
        heard = superpose(
            air(csi=estimator, policy="truncated-inversion", snr_max_db=10.0, channel={**TDL, "delay_spread_s": 2e-7}),
            x,
        )
        error.append(np.mean(np.abs(recovered(heard) - heard.num_active) ** 2))
    assert error[1] < 0.8 * error[0]


def test_least_squares_on_a_constant_channel_misses_by_noise_and_interpolation() -> None:
    """h = 1 and h^ = 1 + e with Var e = (2 N0 / P0) g: a device at fixed power is turned by the angle of 1 + e.

    To first order in e the sum of K devices is K - K Var e / 4 + j sum of Im e. Pilots lie on all carriers, on symbols
    1 and 5, so a data symbol at t has g = w^2 + (1 - w)^2, w = (t - 1) / 4, extrapolated beyond the ends.
    """
    num_devices, snr_max_db = 3, 30.0
    heard = superpose(
        air(csi="ls", policy="fixed", snr_max_db=snr_max_db, channel=QUIET), np.ones((200, num_devices, 100))
    )
    weight = (np.array([0, 2, 3, 4, 6]) - 1) / 4
    variance = 2e-3 * (weight**2 + (1 - weight) ** 2)
    # Amplitude is the mean of |h^| over devices and elements, 1 + Var e / 4; received noise is 2 N0 / P0 a symbol.
    across = recovered(heard).imag.reshape(200, 5, 20)
    for symbol in range(5):
        expected = num_devices * variance[symbol] / 2 + 1e-3
        assert abs(standard_errors_off(across[:, symbol] ** 2, expected)) < ERRORS_OF_A_CHECK + 1  # 2nd order in e
    # Planted: interpolation that forgets the time of a symbol would give all symbols one variance.
    assert np.mean(across[:, 0] ** 2) > 1.3 * np.mean(across[:, 2] ** 2)


def test_pilots_cost_time_and_energy() -> None:
    x = amplitudes(2, 3, 130)
    known, estimated = (superpose(air(csi=csi, channel=QUIET, snr_max_db=100.0), x) for csi in ("perfect", "ls"))
    slot_s, sample_s = 7 * OFDM.symbol_s, 1.0 / (24 * 15e3)
    np.testing.assert_allclose(known.airtime_s, 2 * slot_s)
    np.testing.assert_allclose(estimated.airtime_s, (2 + 3) * slot_s)
    # P0 = 1 on 40 pilot elements, and the prefix on top.
    assert known.energy_j is not None
    np.testing.assert_allclose(estimated.energy_j - known.energy_j, 40 * sample_s * 28 / 24, rtol=1e-4)
    np.testing.assert_allclose(known.energy_j, (x**2).sum(axis=2) * sample_s * 28 / 24, rtol=1e-5)


@pytest.mark.parametrize(
    "link",
    [
        # Its estimates are in the contract of the air, impaired; more trials than a chunk has are below.
        pytest.param({"channel": TDL, "policy": "truncated-inversion", "csi": "lmmse"}, marks=pytest.mark.slow),
        {"channel": TDL, "csi": "ls", "impairments": {"cfo_hz": 300.0, "clipping_db": 3.0, "timing_offset_s": 1e-6}},
        {"fading": "rayleigh", "coherence": "symbol", "csi_error": 0.1, "impairments": {"phase_error_deg": 10.0}},
    ],
    ids=["lmmse", "impaired", "symbol"],
)
def test_a_trial_has_the_same_numbers_in_any_batch(link: dict[str, Any]) -> None:
    num_trials = 60
    config = air(**link)
    uplink = compile_air(config, num_devices=3, num_symbols=70)
    x = amplitudes(num_trials, 3, 70)
    whole = uplink.superpose(x, context=context(num_trials), caps={})
    for rows in ([0], [num_trials - 1], [7, 3, 51], list(range(5, 18))):
        part = uplink.superpose(x[rows], context=context(tuple(rows)), caps={})
        assert np.array_equal(part.received, whole.received[rows])
        assert np.array_equal(part.num_active, whole.num_active[rows])
        assert np.array_equal(part.decision.amplitude, whole.decision.amplitude[rows])
        assert np.array_equal(part.energy_j, whole.energy_j[rows])


@pytest.mark.slow
def test_a_payload_of_several_chunks_arrives_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers however the grid is cut: channel, weights and offsets go on over the cut."""
    from phy.links.superposition_ofdm import chunks as module

    config = air(
        "bpsk",
        channel={**TDL, "speed_m_s": 30.0},
        policy="truncated-inversion",
        impairments={"cfo_hz": 200.0, "clipping_db": 4.0},
        csi="ls",
    )
    payload = random_payload(3, 2, 777)
    whole = compile_air(config, num_devices=2, num_symbols=777).superpose(payload, context=context(3), caps={})
    monkeypatch.setattr(module, "CHUNK_SYMBOLS", 300)
    cut = compile_air(config, num_devices=2, num_symbols=777).superpose(payload, context=context(3), caps={})
    np.testing.assert_allclose(cut.decision.level, whole.decision.level, rtol=1e-6)
    np.testing.assert_allclose(cut.received, whole.received, atol=1e-4)
    np.testing.assert_allclose(cut.energy_j, whole.energy_j, rtol=1e-5)
    assert np.array_equal(cut.num_active, whole.num_active)


def test_nothing_is_traced_again_after_the_first_call() -> None:
    functions = set()
    for snr_max_db, num_trials, gain in ((3.0, 1, 1.0), (9.0, 7, 0.5), (20.0, 150, 2.0)):
        config = air(snr_max_db=snr_max_db, csi="lmmse", channel={**TDL, "gain": gain}, cutoff_db=-snr_max_db)
        uplink = compile_air(config, num_devices=4, num_symbols=6)
        assert isinstance(uplink, OfdmSuperposition)
        for round_index in (0, 1):
            uplink.superpose(
                amplitudes(num_trials, 4, 6), context=context(num_trials, round_index=round_index), caps={}
            )
        assert isinstance(uplink._sums, SionnaSums)
        functions.add(uplink._sums.chain(1)[0])
    assert len(functions) == 1
    (chain,) = functions
    assert chain.carry.experimental_get_tracing_count() == 1
    assert chain.measure.experimental_get_tracing_count() == 1
    assert compiled_chain.cache_info().hits > 0


def test_rounds_meet_the_same_channel_only_in_a_run() -> None:
    x = np.ones((2, 3, 40))
    for coherence, same in (("run", True), ("round", False)):
        config = air(policy="fixed", coherence=coherence, snr_max_db=100.0, channel={**QUIET, **TDL})
        first, second = (superpose(config, x, where=context(2, round_index=i)).received for i in (0, 1))
        assert (np.abs(first - second).max() < 1e-3) == same


def test_invalid_settings_are_refused() -> None:
    base = air()
    for update, words in (
        ({"receiver": base.receiver.model_copy(update={"combining": "zf"})}, "as many antennas at least"),
        (
            {
                "ofdm": OFDM.model_copy(update={"domain": "time"}),
                "impairments": ImpairmentsConfig(timing_offset_s=7e-5),
            },
            "misses",
        ),
        ({"power": base.power.model_copy(update={"policy": "closed-loop"})}, "closed-loop"),
        ({"ofdm": OFDM.model_copy(update={"pilot_symbols": ()}), "csi": CsiEstimation()}, "pilot"),
    ):
        with pytest.raises(LinkError, match=words):
            compile_air(base.model_copy(update=update), num_devices=2, num_symbols=8)
    with pytest.raises(LinkError, match="coherence symbol"):
        compile_air(air(csi="ls", fading="rayleigh", coherence="symbol"), num_devices=2, num_symbols=8)
    wrong = {"ofdm": "none", "impairments": ImpairmentsConfig(timing_offset_s=1e-6)}
    with pytest.raises(LinkError, match="timing offset"):
        compile_air(base.model_copy(update=wrong), num_devices=2, num_symbols=8)


def test_the_layout_counts_slots_as_drawn() -> None:
    layout = Layout(ofdm=OFDM, num_devices=3, num_symbols=101, pilots=True)
    assert (layout.used_ofdm_symbols, layout.num_slots, layout.pilot_elements) == (6, 2, 40)
    assert layout.airtime_s == pytest.approx(5 * 7 * 28 / (24 * 15e3))
    place, number = layout.positions(np.uint32(3), 5)
    assert place.numpy().tolist() == [3, 4, 0, 1, 2]
    assert number.numpy().tolist() == [4, 6, 7, 9, 10]


def test_the_estimate_of_a_run_is_the_same_in_every_round() -> None:
    """Under coherence run the error of variance v stays: a device is off by one angle, arg(1 + e), in all rounds."""
    config = air(coherence="run", csi_error=0.1, policy="fixed", snr_max_db=100.0, channel=QUIET)
    link = compile_air(config, num_devices=1, num_symbols=24)
    first, second = (
        link.superpose(np.ones((300, 1, 24)), context=context(300, round_index=i), caps={}).received for i in (0, 1)
    )
    assert np.abs(first - second).max() < 1e-4
    assert np.abs(first - first[:, :1]).max() < 1e-4  # one path: one error for all carriers
    error = np.abs(first[:, 0] - 1.0) ** 2
    assert abs(standard_errors_off(error, 0.05)) < ERRORS_OF_A_CHECK  # to first order E (Im e)^2 = v / 2
