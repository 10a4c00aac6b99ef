"""Sums of waveforms sample by sample: against the frequency domain, closed forms, and convolutions written out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from ofdm_air import QUIET, air, amplitudes, link_over, recovered, superpose
from radio import ERRORS_OF_A_CHECK, context, standard_errors_off

from phy.config import LinkConfig, OfdmConfig
from phy.frontends.impairments import clock_phase, draw_offsets
from phy.links.packets.layout import impairment_keys
from phy.links.superposition_ofdm.link import OfdmSuperposition
from phy.links.superposition_ofdm.waveform import nodes_of_window

GRID = OfdmConfig(num_subcarriers=16, cyclic_prefix_length=4, num_symbols=5, pilot_symbols=(2,), domain="time")
"""Of five OFDM symbols one is empty: what is late falls into it, and nothing falls into the next."""
EVERY = GRID.model_copy(update={"pilot_symbols": ()})
SAMPLE_S = GRID.sample_s


@dataclass(frozen=True)
class Echoes:
    """A known channel: rays with delays in samples that turn with time, with a phase that depends on the key."""

    amplitudes: tuple[complex, ...]
    samples: tuple[float, ...]
    doppler_hz: tuple[float, ...] = (0.0,)
    num_antennas: int = 1

    @property
    def delays_s(self) -> NDArray[np.float64]:
        return np.array(self.samples) * SAMPLE_S

    @property
    def powers(self) -> NDArray[np.float64]:
        power = np.abs(self.amplitudes) ** 2
        return np.asarray(power / power.sum())

    def at(self, key: NDArray[np.uint32], instants_s: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Path gains `[paths, instants]`."""
        phase = np.exp(2j * np.pi * float(key[0] % np.uint32(16)) / 16)
        turning = np.exp(2j * np.pi * np.array(self.doppler_hz)[:, None] * instants_s)
        return np.asarray(phase * np.array(self.amplitudes)[:, None] * turning)

    def taps(self, key: Any, instants_s: Any) -> Any:
        phase = tf.cast(key[:, 0, None, None] % np.uint32(16), tf.float64) / 16.0
        turns = (
            phase + tf.constant(self.doppler_hz, tf.float64)[None, :, None] * tf.cast(instants_s, tf.float64)[:, None]
        )
        turns = tf.cast(2.0 * np.pi * (turns - tf.round(turns)), tf.complex128)
        return tf.cast(tf.exp(1j * turns) * np.array(self.amplitudes)[None, :, None], tf.complex64)[:, None]

    def path_correlation(self, lag_s: NDArray[np.float64]) -> NDArray[np.complex128]:
        return np.asarray(np.exp(-2j * np.pi * np.multiply.outer(self.doppler_hz, lag_s)))


def offsets_of(
    config: LinkConfig, num_trials: int, num_devices: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(delay [samples], frequency [turns per sample], phase [turns]) of every device, `[num_trials, num_devices]`."""
    drawn = draw_offsets(
        tf.constant(impairment_keys(context(num_trials), num_devices=num_devices)),
        config=config.impairments,
        sample_s=SAMPLE_S,
        carrier_hz=15e3,
    )
    nothing = np.zeros((num_trials, num_devices))
    delay = nothing if drawn.delay is None else (2.0**32 - np.asarray(drawn.delay).astype(float)) / 2.0**32 * 16
    frequency = nothing if drawn.frequency is None else np.asarray(drawn.frequency).astype(np.int32) / 2.0**32
    return delay, frequency, nothing if drawn.phase is None else np.asarray(drawn.phase)[..., 0].astype(float)


def written_out(
    config: LinkConfig, link: OfdmSuperposition, rays: Echoes, x: NDArray[Any], level: NDArray[np.float64]
) -> NDArray[np.complex128]:
    """Received carriers `[trials, n]` of `x`, one sample of one path of one device after the other.

    A waveform is evaluated wherever a path asks for it: at the instant of the OFDM symbol to which the instant belongs.
    """
    ofdm = config.ofdm
    assert ofdm != "none"
    size, prefix = ofdm.num_subcarriers, ofdm.cyclic_prefix_length
    each, bins = size + prefix, np.arange(size) - size // 2
    num_trials, num_devices, num_symbols = x.shape
    rows = [s for s in range(ofdm.num_symbols) if s not in ofdm.pilot_symbols]
    symbols = num_symbols // size
    numbers = np.array([t // len(rows) * ofdm.num_symbols + rows[t % len(rows)] for t in range(symbols)])
    delays, frequencies, phases = offsets_of(config, num_trials, num_devices)
    own = impairment_keys(context(num_trials), num_devices=num_devices)
    clocks = np.asarray(clock_phase(tf.constant(own))).reshape(num_trials, num_devices)
    keys = link._who(context(num_trials)).channel_key
    out = np.zeros((num_trials, symbols, size), complex)
    for trial in range(num_trials):
        for device in range(num_devices):
            sent = np.zeros((numbers[-1] + 1, size), complex)
            for t, number in enumerate(numbers):
                middle = (number * each + prefix + size / 2) * SAMPLE_S
                ray = rays.at(keys[trial, device], np.array([middle]))[:, 0]
                h = ray @ np.exp(-2j * np.pi * np.array(rays.samples)[:, None] * bins / size)
                sent[number] = level[trial] * h.conj() / np.abs(h) * x[trial, device, t * size : (t + 1) * size]
            for t, number in enumerate(numbers):
                window = np.zeros(size, complex)
                for n in range(size):
                    at = number * each + prefix + n
                    gains = rays.at(keys[trial, device], np.array([at * SAMPLE_S]))[:, 0]
                    for gain, behind in zip(gains, rays.samples, strict=True):
                        then = at - delays[trial, device] - behind
                        # A symbol begins at the sample that the two clocks make of its begin.
                        begun = at - np.floor(delays[trial, device] + behind + clocks[trial, device] + 1e-6)
                        which = int(np.floor(begun / each))
                        if which >= 0:
                            inside = then - which * each - prefix
                            wave = np.exp(2j * np.pi * bins * inside / size) @ sent[which] / np.sqrt(size)
                            window[n] += gain * wave
                    window[n] *= np.exp(2j * np.pi * (frequencies[trial, device] * at + phases[trial, device]))
                spectrum = np.exp(-2j * np.pi * np.outer(bins, np.arange(size)) / size) @ window / np.sqrt(size)
                out[trial, t] += spectrum
    return out.reshape(num_trials, -1)


def both_domains(x: NDArray[Any], **link: Any) -> list[NDArray[np.complex64]]:
    grids = [GRID.model_copy(update={"domain": domain}) for domain in ("time", "frequency")]
    return [superpose(air(ofdm=grid, snr_max_db=100.0, **link), x).received for grid in grids]


WITHIN: dict[str, dict[str, Any]] = {
    "flat Rayleigh fading": {"fading": "rayleigh"},
    "a new fade in every OFDM symbol": {"fading": "rayleigh", "coherence": "symbol"},
    "TDL within the prefix": {"channel": {**QUIET, "model": "tdl-a", "delay_spread_s": 1e-6}},
    "an offset within the prefix": {"impairments": {"timing_offset_s": 3.99 * SAMPLE_S}},
    "an offset and echoes that the prefix just covers": {
        "channel": {**QUIET, "model": "tdl-a", "delay_spread_s": 0.5e-6},
        "impairments": {"timing_offset_s": 2.8 * SAMPLE_S, "phase_error_deg": 20.0, "clipping_db": 3.0},
    },
    "a frequency offset": {"impairments": {"cfo_hz": 2e3}},
}


@pytest.mark.parametrize("case", WITHIN)
def test_both_domains_agree_while_the_prefix_covers_all_delays(case: str) -> None:
    """To float32 rounding: one Fourier transform there and back on amplitudes of about ten."""
    x = amplitudes(4, 3, 97)
    link = {"channel": QUIET, "policy": "fixed", **WITHIN[case]}
    time, frequency = both_domains(x, **link)
    assert np.abs(time - frequency).max() < 4e-6 * np.abs(frequency).max() + 1e-5


def test_an_offset_beyond_the_prefix_sets_them_apart() -> None:
    """Planted: what the frequency domain calls a turn of the carriers is interference by then."""
    time, frequency = both_domains(
        amplitudes(4, 3, 97), channel=QUIET, policy="fixed", impairments={"timing_offset_s": 8 * SAMPLE_S}
    )
    assert np.abs(time - frequency).max() > 0.3


@pytest.mark.parametrize("domain", ["time", "frequency"])
def test_offsets_that_devices_estimate_cost_nothing_within_the_prefix(domain: str) -> None:
    """Delay and phase are undone with the channel: as from devices in step. Beyond the prefix interference stays."""
    grid = GRID.model_copy(update={"domain": domain})
    x = amplitudes(3, 2, 97)

    def received(timing_offset_s: float) -> NDArray[np.complex64]:
        offsets = {"timing_offset_s": timing_offset_s, "phase_error_deg": 90.0, "estimated": True}
        return superpose(air(ofdm=grid, snr_max_db=100.0, channel=QUIET, impairments=offsets), x).received

    in_step = superpose(air(ofdm=grid, snr_max_db=100.0, channel=QUIET), x).received
    assert np.abs(received(3.9 * SAMPLE_S) - in_step).max() < 2e-5
    assert (np.abs(received(9.0 * SAMPLE_S) - in_step).max() > 0.3) == (domain == "time")


CASES: dict[str, tuple[Echoes, dict[str, Any]]] = {
    "one late path": (Echoes((1.0,), (7.0,)), {}),
    "echoes between samples, around the end of the prefix": (
        Echoes((1.0, 0.6j, -0.4, 0.3), (0.0, 2.5, 4.0, 9.75), (0.0,) * 4),
        {},
    ),
    "an offset on top of close echoes": (
        Echoes((1.0, 0.6j, -0.4), (0.0, 0.4, 1.3), (0.0,) * 3),
        {"impairments": {"timing_offset_s": 11 * SAMPLE_S}},
    ),
    "offsets in time, frequency and phase": (
        Echoes((1.0, 0.5j), (0.0, 3.2), (0.0,) * 2),
        {"impairments": {"timing_offset_s": 6 * SAMPLE_S, "cfo_hz": 1e3, "phase_error_deg": 30.0}},
    ),
    "paths that turn within a symbol": (
        Echoes((1.0, 0.5j, 0.3), (0.0, 3.2, 6.5), (300.0, -900.0, 2000.0)),
        {
            "channel": {**QUIET, "speed_m_s": 100.0, "carrier_frequency_hz": 7e9},
            "coherence": "doppler",
            "fading": "rayleigh",
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("chunk", [1 << 16, 96], ids=["one chunk", "chunks of two symbols"])
def test_received_sums_are_those_of_waveforms_written_out(
    case: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every sample of every path of every device, in double precision; three devices and nine OFDM symbols."""
    from phy.links.superposition_ofdm import chunks as module

    monkeypatch.setattr(module, "CHUNK_SYMBOLS", chunk)
    rays, more = CASES[case]
    config = air(ofdm=GRID, policy="fixed", snr_max_db=100.0, **{"channel": QUIET, **more})
    x = amplitudes(2, 3, 9 * 16)
    link = link_over(config, rays, num_devices=x.shape[1], num_symbols=x.shape[2])
    heard = link.superpose(x, context=context(2), caps={})
    expected = written_out(config, link, rays, x, heard.decision.level)
    # Noise of 1e-5 per dimension; float32 on amplitudes of about ten; polynomials in time to 2^-20 of each path.
    assert np.abs(heard.received - expected).max() < 6e-5


@pytest.mark.parametrize("late", [5, 9, 20])
def test_interference_beyond_the_prefix_has_its_closed_form(late: int) -> None:
    """One path e samples beyond the prefix of all N carriers: (1 - e/N)^2 useful, e/N (1 - e/N) + e/N interferes."""
    rays, excess = Echoes((1.0,), (float(late),)), (late - 4) / 16
    x = np.random.default_rng(1).choice([-1.0, 1.0], (60, 1, 40 * 16))
    config = air(ofdm=EVERY, policy="fixed", snr_max_db=100.0, channel=QUIET)
    heard = link_over(config, rays, num_devices=x.shape[1], num_symbols=x.shape[2]).superpose(
        x, context=context(60), caps={}
    )
    found = recovered(heard) * x[:, 0]  # of +1, the symbol
    found = found[:, 16:]  # nothing comes before the first OFDM symbol
    assert abs(standard_errors_off(found.real.mean(axis=1), 1 - excess)) < ERRORS_OF_A_CHECK
    power = (np.abs(found - (1 - excess)) ** 2).mean(axis=1)
    expected = excess * (1 - excess) + excess
    assert abs(standard_errors_off(power, expected)) < ERRORS_OF_A_CHECK
    # Planted: one sample more of prefix is found out.
    less = excess - 1 / 16
    assert abs(standard_errors_off(power, less * (1 - less) + less)) > ERRORS_OF_A_CHECK


def test_a_frequency_offset_costs_what_its_closed_form_says() -> None:
    """Offset of f carriers, all N in use: D^2 = (sin(pi f) / (N sin(pi f / N)))^2 useful, 1 - D^2 between carriers."""
    num_trials = 200
    x = np.random.default_rng(2).choice([-1.0, 1.0], (num_trials, 1, 20 * 16))
    config = air(ofdm=EVERY, policy="fixed", snr_max_db=100.0, channel=QUIET, impairments={"cfo_hz": 6e3})
    found = (recovered(superpose(config, x)) * x[:, 0]).reshape(num_trials, 20, 16)
    turns = offsets_of(config, num_trials, 1)[1]
    middles = np.arange(20) * 20 + 4 + 7.5  # of a window's samples
    found *= np.exp(-2j * np.pi * turns * middles)[:, :, None]
    kept = np.sin(np.pi * turns * 16) / (16 * np.sin(np.pi * turns))
    useful = found.real.mean(axis=(1, 2)) - kept[:, 0]
    assert abs(standard_errors_off(useful, 0.0)) < ERRORS_OF_A_CHECK
    interference = (np.abs(found - kept[:, :, None]) ** 2).mean(axis=(1, 2))
    assert abs(standard_errors_off(interference - (1 - kept[:, 0] ** 2), 0.0)) < ERRORS_OF_A_CHECK
    # Planted: the offset of a symbol with its prefix, a quarter longer, is found out.
    assert abs(standard_errors_off(interference - (1 - np.sinc(turns[:, 0] * 20) ** 2), 0.0)) > ERRORS_OF_A_CHECK


def test_moving_gains_are_followed_to_two_to_the_minus_twenty() -> None:
    for turn in (0.0, 0.02, 0.2, 3.14):
        nodes, between = nodes_of_window(72, turn=turn)
        wave = np.exp(1j * turn / 72 * np.arange(72))
        assert np.abs(np.exp(1j * turn / 72 * nodes) @ between - wave).max() < 2.0**-20
        if len(nodes) > 1:  # planted: one instant fewer is too few at the next larger turn
            fewer, short = nodes_of_window(72, turn=turn / 8)
            assert len(fewer) == len(nodes) or np.abs(np.exp(1j * turn / 72 * fewer) @ short - wave).max() > 2.0**-20
