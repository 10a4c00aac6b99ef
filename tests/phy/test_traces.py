"""Recorded channels: their frequency response, their error rates against theory and against the models they come from,
which snapshot a packet meets, and a sentence for each file that cannot be one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy.special import erfc

import phyloop
from phy.config import ChannelConfig
from phy.config.delays import power_delay_profile
from phy.engines.fused.fading.traces import TraceLines, respond
from phy.traces.clock import TraceClock, users_of
from phy.traces.errors import TraceError
from phy.traces.statistics import channel_statistics
from phy.traces.trace import Trace, defects, open_trace
from phyloop.channel import save_channel

GRID = {"num_subcarriers": 64, "subcarrier_spacing_hz": 30e3, "cyclic_prefix_length": 16, "pilot_symbols": [2, 11]}
CARRIERS_HZ = (np.arange(64) - 32) * 30e3


def normals(seed: int, *shape: int) -> np.ndarray:
    """Return CN(0, 1)."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)) / np.sqrt(2.0)


def tdl(path: Path, *, snapshots: int, devices: int, antennas: int = 1, spread_s: float = 100e-9) -> Path:
    """Write independent snapshots of TDL-A as paths."""
    delays, powers = power_delay_profile("tdl-a")
    a = normals(3, snapshots, devices, antennas, len(delays)) * np.sqrt(powers)
    tau = np.broadcast_to(delays * spread_s, (snapshots, devices, len(delays)))
    return save_channel(path, a=a, tau_s=tau)


def rate(num_devices: int = 4, num_bits: int = 60_000, **keys: Any) -> tuple[float, float]:
    """Return a measured bit error rate and its standard error, if packets of 200 bits are independent."""
    link = phyloop.Link(num_devices=num_devices, num_bits=num_bits, packet_size_bytes=25, modulation="qpsk", **keys)
    bits = np.random.default_rng(1).integers(0, 2, (num_devices, num_bits)).astype(np.uint8)
    received = link.send(bits, seed=5)
    wrong = (received.bits != bits).reshape(-1, 200).mean(axis=1)
    return float(wrong.mean()), float(wrong.std() / np.sqrt(len(wrong)))


def test_two_paths_have_the_response_of_their_closed_form() -> None:
    a, tau = np.array([[0.8 - 0.3j, 0.2 + 0.5j]]), np.array([[0.0, 217e-9]])
    found = respond(a, tau, CARRIERS_HZ, threads=1)[0]
    expected = a[0, 0] + a[0, 1] * np.exp(-2j * np.pi * CARRIERS_HZ * tau[0, 1])
    np.testing.assert_allclose(found[0] + 1j * found[1], expected, atol=1e-5)


def test_a_path_of_one_amplitude_is_white_noise_alone(tmp_path: Path) -> None:
    # Absolute gains of -6 dB at 13 dB: 7 dB, of which a QPSK bit has Es/2N0 = 4 dB, and Q(sqrt(Es/N0')) per axis.
    save_channel(tmp_path / "one.npz", a=np.full((5, 4, 1, 1), 0.5j), tau_s=np.zeros((5, 4, 1)))
    channel = {"model": "trace", "file": str(tmp_path / "one.npz"), "normalize": "none"}
    for ofdm in ("none", GRID):
        found, error = rate(channel=channel, ofdm=ofdm, power={"snr_max_db": 13.0})
        snr = 10.0**1.3 * 0.25 / 2.0
        expected = 0.5 * float(erfc(np.sqrt(snr / 2.0)))
        assert abs(found - expected) < 4.0 * error


@pytest.mark.parametrize("access", ["orthogonal", "noma"])
@pytest.mark.parametrize("antennas", [1, 2])
def test_snapshots_of_tdl_a_have_the_error_rate_of_tdl_a(tmp_path: Path, access: str, antennas: int) -> None:
    file = tdl(tmp_path / "tdl.npz", snapshots=3000, devices=4, antennas=antennas)
    trace = {"model": "trace", "file": str(file), "coherence": "packet", "normalize": "per-link"}
    model = {"model": "tdl-a", "delay_spread_s": 100e-9, "coherence": "packet"}
    receiver = {"num_antennas": antennas, "equalizer": "zf" if access == "noma" else "lmmse"}
    common = {"access": access, "ofdm": GRID, "receiver": receiver, "power": {"snr_max_db": 12.0}}
    (one, error), (other, error_too) = rate(channel=trace, **common), rate(channel=model, **common)
    assert abs(one - other) < 4.0 * np.hypot(error, error_too)


def test_the_sum_of_a_narrow_band_fades_as_rayleigh(tmp_path: Path) -> None:
    file = tdl(tmp_path / "tdl.npz", snapshots=4000, devices=4)
    channel = {"model": "trace", "file": str(file), "coherence": "packet", "normalize": "per-link"}
    found, error = rate(channel=channel, power={"snr_max_db": 10.0})
    # Proakis (14.3-7): 1/2 (1 - sqrt(g / (1 + g))) with g the SNR of a bit, half of Es / 2 N0 = 7 dB.
    g = 10.0 / 2.0 / 2.0
    assert abs(found - 0.5 * (1.0 - np.sqrt(g / (1.0 + g)))) < 4.0 * error


def test_devices_that_invert_a_recorded_channel_add_up_to_their_sum(tmp_path: Path) -> None:
    file = tdl(tmp_path / "tdl.npz", snapshots=50, devices=5)
    air = phyloop.Air(
        num_devices=5,
        num_symbols=640,
        channel={"model": "trace", "file": str(file), "normalize": "per-link"},
        ofdm=GRID,
        power={"snr_max_db": 80.0, "policy": "inversion"},
    )
    amplitudes = np.random.default_rng(2).uniform(-1.0, 1.0, (5, 640))
    found = air.superpose(amplitudes, seed=3)
    np.testing.assert_allclose(np.real(found.sum), amplitudes.sum(axis=0), atol=0.05)


def lines(trace: Trace, *, moves: bool, offsets_s: np.ndarray) -> TraceLines:
    """Return the lines of a trace at one carrier."""
    return TraceLines(
        trace=trace, frequencies_hz=np.zeros(1), offsets_s=offsets_s, moves=moves, num_antennas=1, threads=1
    )


def test_a_doppler_shift_turns_a_path_by_its_sign(tmp_path: Path) -> None:
    doppler = np.array([40.0, -25.0])
    save_channel(
        tmp_path / "d.npz",
        a=np.ones((1, 2, 1, 1), complex) + np.zeros((3, 1, 1, 1)),
        tau_s=np.zeros((3, 2, 1)),
        doppler_hz=np.broadcast_to(doppler[None, :, None], (3, 2, 1)),
        snapshot_s=1.0,
    )
    trace, offsets = open_trace(tmp_path / "d.npz"), np.linspace(0.0, 0.02, 9)
    keys = np.array([[0, 1], [1, 1]], np.uint32)
    found = lines(trace, moves=True, offsets_s=offsets).given(keys, np.full(2, 0.1, np.float32)).reshape(2, 9, 2)
    expected = np.exp(2j * np.pi * doppler[:, None] * (0.1 + offsets))
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], expected, atol=1e-5)  # of a start in float32


def test_between_snapshots_the_channel_goes_along_a_straight_line(tmp_path: Path) -> None:
    h = normals(1, 4, 1, 1, 1)
    save_channel(tmp_path / "s.npz", h=h, sample_rate_hz=1e6, time_s=np.array([0.0, 1.0, 3.0, 4.0]))
    trace = open_trace(tmp_path / "s.npz")
    found = lines(trace, moves=True, offsets_s=np.array([0.0, 0.5, 1.5, 2.75, 3.5])).given(
        np.array([[0, 1]], np.uint32), np.zeros(1, np.float32)
    )
    turned = h[:, 0, 0, 0] / np.sqrt(np.mean(np.abs(h) ** 2))
    # After snapshot 3 the trace begins anew, one usual step of 1 s later.
    at = [(1, 1, 0.0), (1, 2, 0.25), (1, 2, 0.75), (2, 3, 0.75), (3, 0, 0.5)]
    expected = [turned[i] + share * (turned[j] - turned[i]) for i, j, share in at]
    values = found.reshape(-1, 2)
    np.testing.assert_allclose(values[:, 0] + 1j * values[:, 1], expected, atol=1e-6)


def channel(path: Path, **keys: Any) -> ChannelConfig:
    """Return the configuration of a trace."""
    return ChannelConfig.model_validate({"model": "trace", "file": str(path), **keys})


def test_all_devices_meet_the_same_snapshot_and_the_next_one_in_the_next_turn(tmp_path: Path) -> None:
    config = channel(tdl(tmp_path / "t.npz", snapshots=7, devices=3))
    clock = TraceClock(channel=config, trace=open_trace(tmp_path / "t.npz"))
    turns = np.arange(20)
    users = np.broadcast_to(np.arange(3), (20, 3))
    keys, _ = clock.keys(turns, users, seconds=np.zeros(20), seed=1, trials=np.zeros(20, np.int64))
    assert (keys[..., 0] == users).all()
    assert (keys[:, :1, 1] == keys[..., 1]).all()
    assert (np.diff(keys[:, 0, 1].astype(int)) % 7 == 1).all()


def test_random_snapshots_are_uniform_and_the_same_for_the_same_turn(tmp_path: Path) -> None:
    config = channel(tdl(tmp_path / "t.npz", snapshots=5, devices=1), order="random")
    clock = TraceClock(channel=config, trace=open_trace(tmp_path / "t.npz"))
    turns, one = np.arange(5000), np.zeros((5000, 1), np.int64)
    trials = np.zeros(5000, np.int64)
    first, _ = clock.keys(turns, one, seconds=np.zeros(5000), seed=1, trials=trials)
    again, _ = clock.keys(turns[::-1], one, seconds=np.zeros(5000), seed=1, trials=trials)
    np.testing.assert_array_equal(first, again[::-1])
    counts = np.bincount(first[:, 0, 1], minlength=5)
    assert np.abs(counts - 1000).max() < 4.0 * np.sqrt(5000 * 0.2 * 0.8)


def test_a_trace_with_an_end_is_used_once_from_its_first_snapshot_on(tmp_path: Path) -> None:
    config = channel(tdl(tmp_path / "t.npz", snapshots=7, devices=1), at_end="error")
    clock = TraceClock(channel=config, trace=open_trace(tmp_path / "t.npz"))
    users, at = np.zeros((7, 1), np.int64), np.zeros(7)
    keys, _ = clock.keys(np.arange(7), users, seconds=at, seed=1, trials=np.arange(7))
    assert keys[:, 0, 1].tolist() == list(range(7))
    with pytest.raises(TraceError, match="the trace has 7 snapshots, and 8 are needed, one for every round"):
        clock.keys(np.arange(1, 8), users, seconds=at, seed=1, trials=np.arange(7))
    moves = clock.channel.model_copy(update={"coherence": "doppler"})
    save_channel(tmp_path / "s.npz", a=normals(1, 3, 1, 1, 2), tau_s=np.zeros((3, 1, 2)), snapshot_s=0.5)
    clock = TraceClock(channel=moves, trace=open_trace(tmp_path / "s.npz"))
    found, since_s = clock.keys(np.zeros(7, int), users, seconds=at + 0.75, seed=1, trials=np.arange(7))
    assert (found[:, 0, 1] == 1).all()
    np.testing.assert_allclose(since_s, 0.25)
    with pytest.raises(TraceError, match=r"the trace lasts 1 s, and 1.25 s are needed"):
        clock.keys(np.zeros(7, int), users, seconds=at + 1.25, seed=1, trials=np.arange(7))


@pytest.mark.parametrize(
    ("keys", "rounds"),
    [({}, 31), ({"coherence": "packet"}, 16), ({"coherence": "doppler"}, 94)],
)
def test_a_run_that_needs_more_than_a_trace_with_an_end_is_refused(
    tmp_path: Path, keys: dict[str, Any], rounds: int
) -> None:
    # 650 weights of 8 bits are 2 packets of 2 slots. A round of 4 devices takes 16 slots of 14 symbols of 125/3 us, or
    # 9.33 ms, of the 870 ms from the first snapshot to the last.
    a, tau = normals(1, 30, 4, 1, 2), np.zeros((30, 4, 2))
    save_channel(tmp_path / "t.npz", a=a, tau_s=tau, snapshot_s=0.03)
    given = {"model": "trace", "file": str(tmp_path / "t.npz"), "at_end": "error", **keys}
    study = {
        "link": {"channel": given, "packet_size_bytes": 325, "ofdm": GRID},
        "learning": {"algorithm": "fedavg", "num_devices": 4, "rounds": rounds},
    }
    (error,) = phyloop.check(study).errors
    assert "needed" in str(error)
    assert "write at_end: loop, or write fewer rounds" in str(error)
    study["learning"]["rounds"] = rounds - 1
    assert not phyloop.check(study).errors


def test_a_link_study_over_a_trace_with_an_end_is_refused(tmp_path: Path) -> None:
    save_channel(tmp_path / "t.npz", a=normals(1, 30, 4, 1, 2), tau_s=np.zeros((30, 4, 2)), snapshot_s=0.03)
    given = {"model": "trace", "file": str(tmp_path / "t.npz"), "at_end": "error"}
    link = {"access": "orthogonal", "modulation": "qpsk", "channel": given, "ofdm": GRID}
    study = {"link": link, "measure": {"values": [0], "num_devices": 4}}
    (error,) = phyloop.check(study).errors
    assert error.remedy == "write at_end: loop"
    given["at_end"] = "loop"
    assert phyloop.check(study).ok


def test_random_users_differ_from_each_other_and_from_trial_to_trial(tmp_path: Path) -> None:
    config = channel(tdl(tmp_path / "t.npz", snapshots=2, devices=30), users="random")
    found = users_of(config, num_devices=10, seed=3, trials=(0, 1))
    assert all(len(set(row)) == 10 for row in found.tolist())
    assert found[0].tolist() != found[1].tolist()


@pytest.mark.parametrize(("normalize", "expected"), [("none", [2.0, 4.0]), ("per-link", [1.0, 1.0])])
def test_gains_are_normalised_as_the_scenario_says(tmp_path: Path, normalize: str, expected: list[float]) -> None:
    from phy.fading.gains import device_gains

    a = np.array([2.0, 4.0])[None, :, None, None] * np.ones((3, 1, 1, 1), complex)
    save_channel(tmp_path / "g.npz", a=a, tau_s=np.zeros((3, 2, 1)))
    config = channel(tmp_path / "g.npz", normalize=normalize)
    np.testing.assert_allclose(device_gains(config, num_devices=2, seed=0, trials=(0,))[0], expected, rtol=1e-6)
    site = channel(tmp_path / "g.npz")
    found = device_gains(site, num_devices=2, seed=0, trials=(0,))[0]
    np.testing.assert_allclose(found, np.array([2.0, 4.0]) / np.sqrt(10.0), rtol=1e-6)


def test_hdf5_and_npz_give_the_same_bits(tmp_path: Path) -> None:
    found = []
    for name in ("t.npz", "t.h5"):
        tdl(tmp_path / name, snapshots=20, devices=4)
        given = {"model": "trace", "file": str(tmp_path / name), "coherence": "packet"}
        found.append(rate(num_bits=4000, channel=given, ofdm=GRID, power={"snr_max_db": 8.0}))
    assert found[0] == found[1]


def test_missing_paths_count_for_nothing(tmp_path: Path) -> None:
    a, tau = normals(1, 3, 2, 1, 4), np.abs(normals(2, 3, 2, 4)) * 1e-7
    full = save_channel(tmp_path / "full.npz", a=a[..., :2], tau_s=tau[..., :2])
    a[..., 2], tau[..., 3] = np.nan, -1.0
    part = save_channel(tmp_path / "part.npz", a=a, tau_s=tau)
    one, two = open_trace(full), open_trace(part)
    np.testing.assert_allclose(one.amplitudes, two.amplitudes)
    np.testing.assert_allclose(one.snapshot(1).tau_s, two.snapshot(1).tau_s[..., :2])


def test_statistics_of_a_known_channel(tmp_path: Path) -> None:
    # Two paths of equal mean power 200 ns apart: half of that is the delay spread at equal amplitudes.
    a = np.exp(2j * np.pi * np.random.default_rng(1).random((500, 3, 1, 2)))
    save_channel(tmp_path / "s.npz", a=a, tau_s=np.broadcast_to([1e-7, 3e-7], (500, 3, 2)), snapshot_s=0.01)
    found = channel_statistics(trace := open_trace(tmp_path / "s.npz"))
    assert found.median_spread_s == pytest.approx(100e-9, rel=1e-6)
    np.testing.assert_allclose(found.gain_db, 10.0 * np.log10(2.0), atol=1e-9)
    assert found.autocorrelation()[1] < 0.15  # of 500 independent snapshots, 4 / sqrt(500) at most
    np.testing.assert_allclose(trace.delay_profile[1], [0.5, 0.5])


GOOD: dict[str, Any] = {"a": np.ones((2, 3, 1, 2), complex), "tau_s": np.zeros((2, 3, 2))}
BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "neither h nor a, but nothing; write taps h"),
    ({**GOOD, "h": np.ones((2, 3, 1, 2), complex)}, "both h and a"),
    ({"a": GOOD["a"]}, "paths a without delays"),
    ({"h": np.ones((2, 3, 1, 2), complex)}, "taps h without sample_rate_hz"),
    ({"h": np.ones((2, 3, 1, 2), complex), "sample_rate_hz": 0.0}, "above 0"),
    ({"h": np.ones((2, 3, 1, 2)), "sample_rate_hz": 1.0}, "h is float64, no complex array"),
    ({"h": np.ones((2, 3, 1, 4, 2)), "sample_rate_hz": 1.0}, "write h[..., 0] + 1j * h[..., 1]"),
    ({"a": np.ones((2, 3, 2), complex), "tau_s": GOOD["tau_s"]}, "a has shape (2, 3, 2)"),
    ({**GOOD, "tau_s": np.zeros((2, 3, 3))}, "tau_s is float64 of shape (2, 3, 3)"),
    ({**GOOD, "tau_s": np.zeros((2, 3, 2), complex)}, "tau_s is complex128"),
    ({**GOOD, "doppler_hz": np.zeros((2, 3))}, "doppler_hz is float64 of shape (2, 3)"),
    ({**GOOD, "time_s": np.array([1.0, 0.5])}, "time_s does not ascend at snapshot 1"),
    ({**GOOD, "time_s": np.array([1.0])}, "time_s has 1 times for 2 snapshots"),
    ({**GOOD, "snapshot_s": -1.0}, "snapshot_s is -1"),
    ({**GOOD, "snapshot_s": np.ones(2)}, "snapshot_s is float64 of shape (2,)"),
    ({**GOOD, "names": np.array([{"a": 1}], object)}, "names holds Python objects"),
]


@pytest.mark.parametrize(("arrays", "sentence"), BAD)
def test_arrays_that_are_no_channel_get_one_sentence(tmp_path: Path, arrays: dict[str, Any], sentence: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(TraceError) as error:
        open_trace(tmp_path / "bad.npz")
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["bad.npz", "bad.h5", "bad.mat"])
def test_files_that_hold_no_arrays_get_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("no arrays")
    with pytest.raises(TraceError, match=r"is not a whole file of arrays|is of no known kind"):
        open_trace(tmp_path / name)


def test_an_array_beyond_memory_is_not_unpacked(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "z.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("h.npy", "w") as file:
        header: Any = {"descr": "<c8", "fortran_order": False, "shape": (10_000, 1000, 4, 64)}
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(TraceError, match=r"array h takes 19 GiB, of \.npz at most 8; write HDF5"):
        open_trace(tmp_path / "z.npz")


def one_defect(path: Path, sentence: str, *, wrong: bool) -> None:
    """Assert that a trace has a defect."""
    found = list(defects(open_trace(path)))
    assert any(is_wrong == wrong and sentence in said for is_wrong, said in found), found


def test_defects_of_numbers_are_told(tmp_path: Path) -> None:
    a, tau = normals(1, 4, 3, 1, 2), np.zeros((4, 3, 2))
    late, negative, dead, dim = tau + 0.5, tau - 2e-9, a.copy(), a.copy()
    dead[:, 1], dim[2] = 0.0, dim[2] * 1e-7
    cases = [
        ({"a": a, "tau_s": late}, "a path is 0.5 s late, or 1.5e+05 km; write tau_s in seconds", True),
        ({"a": a, "tau_s": negative}, "24 delays are negative and not -1", True),
        ({"a": dead, "tau_s": tau}, "device 1 has no power in any snapshot", True),
        ({"a": dim, "tau_s": tau}, "the power of a link changes by", False),
        ({"a": a, "tau_s": tau, "extra": np.ones(3)}, "extra: no array that phyloop knows", False),
        ({"a": a, "tau_s": tau}, "neither time_s nor snapshot_s", False),
    ]
    for number, (arrays, sentence, wrong) in enumerate(cases):
        np.savez(tmp_path / f"{number}.npz", **arrays)
        one_defect(tmp_path / f"{number}.npz", sentence, wrong=wrong)
    h = normals(1, 4, 3, 1, 2)
    h[2, 1, 0, 1] = np.nan
    np.savez(tmp_path / "nan.npz", h=h, sample_rate_hz=1e6)
    one_defect(tmp_path / "nan.npz", "h[2, 1, 0, 1] is no finite number", wrong=True)


def test_a_large_file_is_read_snapshot_by_snapshot(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "big.h5", "w") as file:
        file["h"], file["sample_rate_hz"] = normals(1, 40, 5, 1, 3).astype(np.complex64), 1e6
    trace = open_trace(tmp_path / "big.h5")
    first = trace.snapshot(7)
    assert trace.snapshot(7) is first
    for index in range(100):
        trace.snapshot(index % 40)
    assert len(trace.kept) <= 64


@pytest.mark.parametrize(
    ("key", "value"), [("order", "random"), ("at_end", "error"), ("users", "random"), ("normalize", "none")]
)
def test_every_key_of_a_trace_changes_the_identity_and_its_place_does_not(tmp_path: Path, key: str, value: str) -> None:
    from scenarios.plan.identity import physics_json
    from scenarios.schema.schema import validate_quickly

    def text(file: Path, **keys: Any) -> str:
        given = {"model": "trace", "file": str(file), **keys}
        return physics_json(validate_quickly({"name": "s", "link": {"channel": given}}))

    one, other = tmp_path / "one.npz", tmp_path / "there" / "other.npz"
    other.parent.mkdir()
    np.savez(one, **GOOD)
    other.write_bytes(one.read_bytes())
    assert text(one) == text(other)
    assert text(one) != text(one, **{key: value})
    np.savez(other, **{**GOOD, "a": 2.0 * GOOD["a"]})
    assert text(one) != text(other)


def matlab_73(path: Path, **arrays: Any) -> None:
    """Write what MATLAB's -v7.3 writes: HDF5, axes in reverse, complex numbers as pairs."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, one in arrays.items():
            values = np.asarray(one)
            values = values.reshape(1, -1) if values.ndim < 2 else values
            if values.dtype.kind == "c":
                pairs = np.empty(values.shape, [("real", "f8"), ("imag", "f8")])
                pairs["real"], pairs["imag"] = values.real, values.imag
                values = pairs
            file[name] = values.T


@pytest.mark.parametrize("version", ["5", "7.3"])
def test_matlab_files_give_the_arrays_that_were_saved(tmp_path: Path, version: str) -> None:
    from scipy.io import savemat

    from phy.traces.foreign import Asked
    from scenarios.cli.channel import import_channel

    h = normals(1, 5, 3, 2, 4)
    arrays = {"H_ul": h, "sample_rate_hz": 2e6, "time_s": np.arange(5) * 0.1}
    if version == "5":
        savemat(tmp_path / "m.mat", arrays)
    else:
        matlab_73(tmp_path / "m.mat", **arrays)
    assert import_channel(tmp_path / "m.mat", tmp_path / "m.npz", Asked(names={"h": "H_ul"}))
    trace = open_trace(tmp_path / "m.npz")
    np.testing.assert_allclose(trace.snapshot(3).a, h[3], rtol=1e-6)
    assert trace.sample_rate_hz == 2e6
    np.testing.assert_allclose(trace.times_s, np.arange(5) * 0.1)


def test_a_last_axis_of_length_one_that_matlab_drops_is_added(tmp_path: Path) -> None:
    from scipy.io import savemat

    from phy.traces.variables import read_variables

    savemat(tmp_path / "m.mat", {"h": normals(1, 5, 3, 2), "sample_rate_hz": 1e6})
    found = read_variables(tmp_path / "m.mat", names={}, facts={}).arrays["h"]
    assert found.shape == (5, 3, 2, 1) == next(iter(found.make())).shape


@pytest.mark.parametrize(
    ("name", "names", "sentence"),
    [
        ("m.mat", ["h=H"], "m.mat has no variable H; name one that it has"),
        ("m.mat", ["x=H"], "x is no array of a channel"),
        ("m.mat", ["h"], "names no variable"),
        ("m.csv", [], "m.csv is of no known kind"),
        ("bad.mat", [], "bad.mat is not a whole MATLAB file"),
    ],
)
def test_imports_that_cannot_be_get_one_sentence(tmp_path: Path, name: str, names: list[str], sentence: str) -> None:
    from scipy.io import savemat

    from phy.traces.foreign import Asked
    from scenarios.cli.channel import import_channel, named_arrays
    from scenarios.schema.errors import ScenarioError

    savemat(tmp_path / "m.mat", {"h": normals(1, 5, 3, 2, 2)})
    for other in ("bad.mat", "m.csv"):
        (tmp_path / other).write_text("no MATLAB")
    with pytest.raises(ScenarioError) as error:
        import_channel(tmp_path / name, tmp_path / "out.npz", Asked(names=named_arrays(names)))
    assert sentence in str(error.value)


def test_the_commands_print_defects_and_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from scenarios.cli.channel import check_channel, show_channel

    rng = np.random.default_rng(1)
    save_channel(tmp_path / "s.npz", a=normals(1, 30, 4, 1, 3), tau_s=rng.random((30, 4, 3)) * 1e-6, snapshot_s=0.1)
    assert check_channel(tmp_path / "s.npz")
    said = capsys.readouterr().out
    assert "s.npz: 30 snapshots x 4 devices x 1 receive antenna x up to 3 paths" in said
    assert "3 s long" in said
    assert [path.suffix for path in show_channel(tmp_path / "s.npz", tmp_path / "s")] == [".svg", ".png", ".html"]
    assert (tmp_path / "s-channel.png").stat().st_size > 10_000
    np.savez(tmp_path / "dead.npz", a=np.zeros((3, 2, 1, 1), complex), tau_s=np.zeros((3, 2, 1)))
    assert not check_channel(tmp_path / "dead.npz")
    assert "error: device 0 has no power in any snapshot; leave it out." in capsys.readouterr().out


def test_a_run_over_more_rounds_than_snapshots_is_warned_of(tmp_path: Path) -> None:
    tdl(tmp_path / "t.npz", snapshots=30, devices=4)
    study = {
        "link": {"channel": {"model": "trace", "file": str(tmp_path / "t.npz")}},
        "learning": {"algorithm": "fedavg", "num_devices": 4, "rounds": 60},
    }
    assert any(
        "30 snapshots for 60 rounds, so that the trace runs 2 times" in one for one in phyloop.check(study).warnings
    )
    study["learning"]["rounds"] = 30
    assert not any("snapshots for" in one for one in phyloop.check(study).warnings)
