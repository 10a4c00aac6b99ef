"""Recorded channels under waveforms in time: against sums written out, closed forms, and the models they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, context, standard_errors_off
from scipy.special import erfc
from test_traces import normals, rate, tdl

import phyloop
from phy.compile import compile_air
from phy.config import LinkConfig
from phy.engines.fused.waveform.recorded import RecordedWaves, recorded_waves
from phy.frontends.resource_grid import Grid
from phy.frontends.windows import CLOCK_DRAW, CLOCK_PHASES
from phy.links.packets.layout import impairment_keys
from phy.numerics.random import threefry
from phyloop.channel import save_channel

SIZE, PREFIX, SYMBOLS = 16, 3, 5
EACH = SIZE + PREFIX
BINS = np.arange(SIZE) - SIZE // 2
SAMPLE_S = 1.0 / (SIZE * 15e3)
GRID_OF_SUMS = {
    "num_subcarriers": SIZE,
    "cyclic_prefix_length": PREFIX,
    "num_symbols": SYMBOLS,
    "pilot_symbols": [2],
}
"""The third symbol is empty, and what is late falls into it."""


def waves_over(file: Path, *, coherence: str = "packet", antennas: int = 1) -> RecordedWaves:
    """Return a recorded channel as packets of one slot meet it."""
    ofdm = {"num_subcarriers": SIZE, "cyclic_prefix_length": PREFIX, "num_symbols": SYMBOLS, "pilot_symbols": []}
    channel = {"model": "trace", "file": str(file), "coherence": coherence, "normalize": "none"}
    link = {"channel": channel, "receiver": {"num_antennas": antennas}, "ofdm": {**ofdm, "domain": "time"}}
    config = LinkConfig.model_validate(link)
    assert config.ofdm != "none"
    found = recorded_waves(config, Grid.of(config.ofdm, num_users=1, num_symbols=SIZE * SYMBOLS), threads=1)
    assert found is not None
    return found


def keys_of(rows: int) -> NDArray[np.uint32]:
    """Return keys `[rows, 8]` of which those of the clocks differ."""
    return np.random.default_rng(4).integers(0, 1 << 32, (rows, 8), dtype=np.uint32)


def clocks_of(keys: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Return the phases u of sample clocks."""
    words = threefry((keys[:, 6], keys[:, 7]), (np.uint32(0), np.uint32(CLOCK_DRAW)))
    return ((np.asarray(words[0]) >> np.uint32(16)).astype(float) + 0.5) / CLOCK_PHASES


def sent_over(
    waves: RecordedWaves, which: NDArray[np.int64], *, start_s: float = 0.0
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return X `[rows, times, bins]`, Y and H `[rows, antennas, times or 1, bins]`, DC in the middle."""
    keys, bins = keys_of(len(which)), normals(9, len(which), SYMBOLS, SIZE).astype(np.complex64)
    given = waves.given(which.astype(np.uint32), np.full(len(which), start_s, np.float32))
    received, channel = waves.arrive(np.fft.ifftshift(bins, axes=-1), keys, given)
    return bins, np.fft.fftshift(received, axes=-1), np.fft.fftshift(channel, axes=-1)


def written_out(bins: NDArray[Any], gains: Any, delays: NDArray[np.float64], clock: float) -> NDArray[np.complex128]:
    """Return the carriers `[times, bins]` of one packet, one sample of one path after the other.

    `gains(samples since the packet began)` `[paths]`; `delays` `[paths]` [samples].
    """
    out = np.zeros((SYMBOLS, SIZE), complex)
    for t in range(SYMBOLS):
        window = np.zeros(SIZE, complex)
        for n in range(SIZE):
            at = t * EACH + PREFIX + n
            for gain, delay in zip(gains(at), delays, strict=True):
                symbol = (at - int(np.floor(delay + clock + 1e-6))) // EACH
                if symbol >= 0:
                    inside = at - delay - symbol * EACH - PREFIX
                    window[n] += gain * (np.exp(2j * np.pi * BINS * inside / SIZE) @ bins[symbol]) / np.sqrt(SIZE)
        out[t] = np.exp(-2j * np.pi * np.outer(BINS, np.arange(SIZE)) / SIZE) @ window / np.sqrt(SIZE)
    return out


def test_late_paths_of_every_link_are_those_of_the_sum_written_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    delays = rng.uniform(0.0, 12.0, (3, 2, 4))
    delays[1, 1] = np.minimum(delays[1, 1], 2.0)  # none late
    delays[..., 0], delays[0, 0, 1] = 0.0, 7.0
    a = normals(1, 3, 2, 2, 4)
    save_channel(tmp_path / "late.npz", a=a, tau_s=delays * SAMPLE_S)
    waves = waves_over(tmp_path / "late.npz", antennas=2)
    which = np.array([[0, 0], [1, 1], [1, 2], [0, 1], [1, 0]])
    bins, received, _ = sent_over(waves, which)
    mean = np.sqrt((np.abs(a) ** 2).sum(axis=3).mean(axis=(0, 2)))
    for row, (user, snapshot) in enumerate(which):
        for antenna in range(2):
            gains = a[snapshot, user, antenna] / mean[user]
            expected = written_out(bins[row], lambda _, g=gains: g, delays[snapshot, user], clocks_of(keys_of(5))[row])
            np.testing.assert_allclose(received[row, antenna], expected, atol=3e-5)


@pytest.mark.parametrize("shifts", [True, False])
def test_motion_within_a_symbol_is_that_of_the_sum_written_out(tmp_path: Path, shifts: bool) -> None:
    # Doppler shifts of up to a tenth of the spacing; without them the next snapshot comes 4 symbols later.
    a, tau = normals(1, 3, 1, 1, 3), np.broadcast_to(np.array([0.0, 1.3, 2.6]) * SAMPLE_S, (3, 1, 3))
    doppler = np.array([1500.0, -700.0, 300.0])
    extra = {"doppler_hz": np.broadcast_to(doppler, (3, 1, 3))} if shifts else {}
    step = 20.0 * EACH if shifts else 4.0 * EACH
    save_channel(tmp_path / "moves.npz", a=a, tau_s=tau, snapshot_s=step * SAMPLE_S, **extra)
    bins, received, _ = sent_over(waves_over(tmp_path / "moves.npz", coherence="doppler"), np.array([[0, 0]]))
    taps = a[:, 0, 0] / np.sqrt((np.abs(a) ** 2).sum(axis=3).mean())

    def gains(at: int) -> NDArray[Any]:
        if shifts:
            return np.asarray(taps[0] * np.exp(2j * np.pi * doppler * at * SAMPLE_S))
        before, share = int(at // step), at / step % 1.0
        return np.asarray(taps[before] + share * (taps[before + 1] - taps[before]))

    expected = written_out(bins[0], gains, tau[0, 0] / SAMPLE_S, 0.5)
    # 2^-14 of the amplitude of a path (`Windows`); the parabola of symbol 3 takes an instant behind the next snapshot.
    straight = [t for t in range(SYMBOLS) if shifts or t != 3]
    np.testing.assert_allclose(received[0, 0][straight], expected[straight], atol=2e-3 if shifts else 3e-5)
    still = sent_over(waves_over(tmp_path / "moves.npz"), np.array([[0, 0]]))[1]
    assert np.abs(still[0, 0] - expected).max() > 0.1


def test_interference_of_a_path_beyond_the_prefix_is_its_closed_form(tmp_path: Path) -> None:
    # `phy.frontends.windows`: sum_p 2 p_p min(e_p / N, 1), here of paths 2.6 and, of power 0.1, 30 samples beyond.
    rows, delays, powers = 3000, np.array([0.0, PREFIX + 2.6, PREFIX + 30.0]), np.array([0.5, 0.4, 0.1])
    a = np.exp(2j * np.pi * np.random.default_rng(3).random((rows, 1, 1, 3))) * np.sqrt(powers)
    save_channel(tmp_path / "late.npz", a=a, tau_s=np.broadcast_to(delays * SAMPLE_S, (rows, 1, 3)))
    which = np.stack([np.zeros(rows, np.int64), np.arange(rows)], axis=1)
    bins, received, channel = sent_over(waves_over(tmp_path / "late.npz"), which)
    left = (np.abs(received[:, 0, 1:] - channel[:, 0] * bins[:, 1:]) ** 2).mean(axis=(1, 2))
    closed = 2.0 * (0.4 * 2.6 / SIZE + 0.1)
    assert abs(standard_errors_off(left, closed)) < ERRORS_OF_A_CHECK
    assert abs(standard_errors_off(left, closed + 2.0 * 0.4 * 0.4 / SIZE)) > ERRORS_OF_A_CHECK  # whole samples


LATE = {"num_subcarriers": 64, "subcarrier_spacing_hz": 15e3, "cyclic_prefix_length": 1, "pilot_symbols": [2, 11]}
"""TDL-A of 2 us is up to 18.5 samples late."""


def test_one_path_is_white_noise_alone_in_the_time_domain(tmp_path: Path) -> None:
    save_channel(tmp_path / "one.npz", a=np.full((5, 4, 1, 1), 0.5j), tau_s=np.zeros((5, 4, 1)))
    channel = {"model": "trace", "file": str(tmp_path / "one.npz"), "normalize": "none"}
    found, error = rate(channel=channel, ofdm={**LATE, "domain": "time"}, power={"snr_max_db": 13.0})
    expected = 0.5 * float(erfc(np.sqrt(10.0**1.3 * 0.25 / 4.0)))  # 7 dB, of which a bit has 4, as in `test_traces`
    assert abs(found - expected) < 4.0 * error


@pytest.mark.parametrize("csi", ["perfect", {"estimator": "lmmse"}])
def test_snapshots_of_tdl_a_have_the_error_rate_of_tdl_a_behind_a_short_prefix(tmp_path: Path, csi: Any) -> None:
    file = tdl(tmp_path / "tdl.npz", snapshots=3000, devices=4, spread_s=2e-6)
    trace = {"model": "trace", "file": str(file), "coherence": "packet", "normalize": "per-link"}
    model = {"model": "tdl-a", "delay_spread_s": 2e-6, "coherence": "packet"}
    rates = {
        (kind, domain): rate(channel=channel, ofdm={**LATE, "domain": domain}, csi=csi, power={"snr_max_db": 28.0})
        for kind, channel in (("trace", trace), ("model", model))
        for domain in ("time", "frequency")
    }
    (one, error), (other, error_too) = rates["trace", "time"], rates["model", "time"]
    assert abs(one - other) < 4.0 * np.hypot(error, error_too)
    assert one - rates["trace", "frequency"][0] > 4.0 * np.hypot(error, rates["trace", "frequency"][1])


def test_carrier_offsets_act_on_a_recorded_channel_as_on_the_model(tmp_path: Path) -> None:
    file = tdl(tmp_path / "tdl.npz", snapshots=3000, devices=4)
    trace = {"model": "trace", "file": str(file), "coherence": "packet", "normalize": "per-link"}
    model = {"model": "tdl-a", "delay_spread_s": 100e-9, "coherence": "packet"}
    common = {"ofdm": LATE, "power": {"snr_max_db": 15.0}, "impairments": {"cfo_hz": 400.0, "clipping_db": 3.0}}
    (one, error), (other, error_too) = rate(channel=trace, **common), rate(channel=model, **common)
    assert abs(one - other) < 4.0 * np.hypot(error, error_too)


@pytest.mark.parametrize("moves", [False, True])
def test_sums_of_waveforms_are_those_written_out(tmp_path: Path, moves: bool) -> None:
    delays, doppler = (
        np.array([[0.0, 4.4], [0.0, 7.0], [0.0, 1.2]]),
        np.array([[300.0, -200.0], [0.0, 50.0], [400.0, 0.0]]),
    )
    a = normals(1, 1, 3, 1, 2)
    extra = {"doppler_hz": doppler[None]} if moves else {}
    twice = {name: np.repeat(one, 2, 0) for name, one in {"a": a, "tau_s": delays[None] * SAMPLE_S, **extra}.items()}
    save_channel(tmp_path / "sum.npz", **twice, snapshot_s=1e-2)
    channel = {"model": "trace", "file": str(tmp_path / "sum.npz"), "normalize": "none", "noise_power": 1e-10}
    channel |= {"coherence": "doppler", "at_end": "error"} if moves else {}
    x = np.random.default_rng(8).uniform(-1.0, 1.0, (1, 3, 4 * SIZE - 3))
    ofdm = {**GRID_OF_SUMS, "domain": "time"}
    link = {"access": "superposition", "modulation": "analog", "channel": channel, "ofdm": ofdm}
    config = LinkConfig.model_validate({**link, "power": {"policy": "fixed", "snr_max_db": 100.0}})
    uplink = compile_air(config, num_devices=3, num_symbols=x.shape[2])
    heard = uplink.superpose(x, context=context(1), caps={})
    keys = np.zeros((3, 8), np.uint32)
    keys[:, 6:] = impairment_keys(context(1), num_devices=3)[0]
    expected = np.zeros((SYMBOLS, SIZE), complex)
    for device in range(3):
        shifts = doppler[device] if moves else np.zeros(2)

        def gains(at: float, k: int = device, shifts: Any = shifts) -> NDArray[Any]:
            return np.asarray(a[0, k, 0] * np.exp(2j * np.pi * shifts * at * SAMPLE_S))

        bins = np.zeros((SYMBOLS, SIZE), complex)
        for place, t in enumerate((0, 1, 3, 4)):
            h = gains(t * EACH + PREFIX + SIZE / 2) @ np.exp(-2j * np.pi * np.outer(delays[device], BINS) / SIZE)
            mine = np.pad(x[0, device], (0, 3))[place * SIZE : (place + 1) * SIZE]
            bins[t] = heard.decision.level[0] * h.conj() / np.abs(h) * mine
        expected += written_out(bins, gains, delays[device], clocks_of(keys)[device])
    wanted = expected[[0, 1, 3, 4]].ravel()[: x.shape[2]]
    # Straight lines between few instants of a slot: 2 pi 400 Hz over a quarter of it bend by 6e-3.
    np.testing.assert_allclose(heard.received[0], wanted, atol=2e-2 if moves else 2e-4)
    on_carriers = compile_air(
        config.model_copy(update={"ofdm": config.ofdm.model_copy(update={"domain": "frequency"})}),
        num_devices=3,
        num_symbols=x.shape[2],
    ).superpose(x, context=context(1), caps={})
    assert np.abs(on_carriers.received[0] - wanted).max() > 0.1


def test_a_round_in_the_middle_of_a_trace_is_the_same_for_a_link_that_begins_there(tmp_path: Path) -> None:
    # What a run that was killed and goes on from a checkpoint relies on, and workers that share trials.
    a, tau = normals(1, 9, 3, 1, 4), np.random.default_rng(1).random((9, 3, 4)) * 12e-6
    save_channel(tmp_path / "walk.npz", a=a, tau_s=tau, snapshot_s=0.004)
    channel = {"model": "trace", "file": str(tmp_path / "walk.npz"), "coherence": "doppler"}
    given: dict[str, Any] = {"num_devices": 3, "num_bits": 400, "packet_size_bytes": 25, "modulation": "qpsk"}
    given |= {"channel": channel, "ofdm": {**LATE, "domain": "time"}, "power": {"snr_max_db": 10.0}}
    bits = np.random.default_rng(1).integers(0, 2, (3, 400)).astype(np.uint8)
    walked, begun = phyloop.Link(**given), phyloop.Link(**given)
    received = [walked.send(bits, seed=5, round=number).bits for number in range(6)]
    assert np.unique(np.stack(received), axis=0).shape[0] == 6
    np.testing.assert_array_equal(begun.send(bits, seed=5, round=5).bits, received[5])
