"""Channels of other programs: files as DeepMIMO 4, QuaDRiGa-lib, SigMF and MATLAB write them, made here by hand.

They have the frequency response of their closed form, and a file that cannot be one gets one sentence."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy.io import loadmat, savemat

from phy.traces import container
from phy.traces.errors import TraceError
from phy.traces.foreign import Asked, read_foreign
from phy.traces.matlab5 import variables_of_5
from phy.traces.recording import write_recording
from phy.traces.trace import Snapshot, Trace, open_trace
from phyloop.channel import save_channel

CARRIER_HZ = 3.5e9
OFFSETS_HZ = (np.arange(64) - 32) * 120e3
PATHS = {"a": np.array([0.8 - 0.3j, 0.2 + 0.5j]), "tau_s": np.array([217.3e-9, 401.9e-9], np.float32)}
"""Amplitudes of reflections alone, and absolute delays."""


def imported(path: Path, out: Path, **asked: Any) -> Trace:
    """Return the trace that an import writes."""
    with out.open("wb") as stream:
        write_recording(stream, read_foreign(path, Asked(**asked)))
    return open_trace(out)


def response(one: Snapshot) -> np.ndarray:
    """Return the frequency response of every link and antenna, `[device, antenna, carrier]`."""
    return (one.a[..., None] * np.exp(-2j * np.pi * OFFSETS_HZ * one.tau_s[..., None])).sum(axis=2)


def expected(turned_hz: float = CARRIER_HZ) -> np.ndarray:
    """Return the response of `PATHS` after the first one, with the carrier phase of the absolute delays."""
    tau = PATHS["tau_s"].astype(np.float64)
    a = PATHS["a"] * np.exp(-2j * np.pi * turned_hz * tau)
    return (a[:, None] * np.exp(-2j * np.pi * OFFSETS_HZ * (tau - tau[0])[:, None])).sum(axis=0)


# --- DeepMIMO --------------------------------------------------------------------------------------


def deepmimo(
    folder: Path, *, tracer: str = "Sionna Ray Tracing", scenes: int = 1, masts: int = 1, kind: str = "npz"
) -> Path:
    """Write a data set of four receivers, of which the second one hears nothing in the first scene: `PATHS` else."""
    folder.mkdir()
    ends = {"txrx_set_0": {"id": 0, "is_tx": True, "is_rx": False, "num_points": masts}}
    ends["txrx_set_1"] = {"id": 1, "is_tx": False, "is_rx": True, "num_points": 4}
    rays = {"frequency": CARRIER_HZ, "raytracer_name": tracer}
    params = {"version": "4.0.5", "rt_params": rays, "txrx_sets": ends, "scene": {"num_scenes": scenes}}
    (folder / "params.json").write_text(json.dumps(params))
    for scene in range(scenes):
        inside = folder / f"scene_{scene}" if scenes > 1 else folder
        inside.mkdir(exist_ok=True)
        for mast in range(masts):
            gain = (1.0 + mast) * (1.0 + scene)
            rows = {
                "power": 20.0 * np.log10(np.abs(PATHS["a"]) * gain),
                "phase": np.angle(PATHS["a"], deg=True),
                "delay": PATHS["tau_s"],
                "aod_az": np.array([10.0, -20.0]),
            }
            arrays = {name: np.tile([*one, np.nan], (4, 1)).astype(np.float32) for name, one in rows.items()}
            if scene == 0:  # as many paths as the largest number of the scene
                arrays = {name: one[:, :2] for name, one in arrays.items()}
            for one in arrays.values():
                one[1] = np.nan if scene == 0 else one[1]
            arrays["rx_pos"] = np.arange(12, dtype=np.float32).reshape(4, 3) + 100 * scene
            arrays["tx_pos"] = np.array([[mast, 0.0, 20.0]], np.float32)
            for name, one in arrays.items():
                stem = inside / f"{name}_t000_tx{mast:03}_r001"
                if kind == "mat":
                    savemat(stem.with_suffix(".mat"), {name: one})
                else:
                    np.savez_compressed(stem.with_suffix(".npz"), **{name: one})
    return folder


@pytest.mark.parametrize("kind", ["npz", "mat", "zip"])
def test_a_data_set_from_sionna_rt_gets_its_carrier_phase_back(tmp_path: Path, kind: str) -> None:
    folder = deepmimo(tmp_path / "street", kind=kind)
    if kind == "zip":
        shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
        folder = tmp_path / "packed.zip"
    trace = imported(folder, tmp_path / "street.npz")
    found = response(trace.read_snapshot(0))
    assert found.shape == (3, 1, 64)  # without the receiver that hears nothing
    np.testing.assert_allclose(found[:, 0], np.tile(expected(), (3, 1)), atol=1e-5)
    assert np.abs(found[0, 0] - expected(turned_hz=0.0)).max() > 0.5  # what DeepMIMO itself computes
    assert trace.carrier_frequency_hz == CARRIER_HZ
    np.testing.assert_array_equal(trace.arrays.read("position_m")[0, :, 0], [0.0, 6.0, 9.0])
    np.testing.assert_array_equal(trace.arrays.read("azimuth_deg")[0], np.tile([10.0, -20.0], (3, 1)))


def test_phases_of_other_ray_tracers_are_those_of_the_whole_path(tmp_path: Path) -> None:
    trace = imported(deepmimo(tmp_path / "city", tracer="Remcom Wireless Insite"), tmp_path / "city.npz")
    np.testing.assert_allclose(response(trace.read_snapshot(0))[0, 0], expected(turned_hz=0.0), atol=1e-5)


def test_scenes_are_snapshots_and_the_server_is_the_transmitter_asked_for(tmp_path: Path) -> None:
    folder = deepmimo(tmp_path / "moves", scenes=2, masts=2)
    trace = imported(folder, tmp_path / "moves.npz", server=1, snapshot_s=0.1)
    assert (trace.num_snapshots, trace.num_devices, trace.duration_s) == (2, 4, pytest.approx(0.2))
    for scene in range(2):
        found = response(trace.read_snapshot(scene))[2, 0]
        np.testing.assert_allclose(found, 2.0 * (1.0 + scene) * expected(), atol=5e-5)


# --- QuaDRiGa-lib ----------------------------------------------------------------------------------


def quadriga_links() -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and relative delays `[device, rx, tx, path, snapshot]` of four antennas around their middle,
    so that two of them hear the line of sight before delay 0; of two antennas of a device the first one counts."""
    rng = np.random.default_rng(1)
    coeff = rng.normal(size=(2, 2, 4, 3, 5)) + 1j * rng.normal(size=(2, 2, 4, 3, 5))
    delay = np.sort(rng.uniform(1e-8, 1e-6, (2, 2, 1, 3, 5)), axis=3) + np.zeros((1, 1, 4, 1, 1))
    delay[:, :, :, 0] = (np.arange(4) - 1.5)[None, None, :, None] * 1e-10
    return coeff, delay


def quadriga_response(coeff: np.ndarray, delay: np.ndarray, device: int, snapshot: int) -> np.ndarray:
    """Return `[antenna, carrier]` of a link after its first path."""
    tau = delay[device, 0, :, :, snapshot]
    phases = np.exp(-2j * np.pi * OFFSETS_HZ * (tau - tau.min())[..., None])
    return (coeff[device, 0, :, :, snapshot, None] * phases).sum(axis=1)


@pytest.mark.parametrize("kind", ["two reals", "complex", "hdf5", "mat"])
def test_links_of_quadriga_keep_the_mutual_delays_of_antennas(tmp_path: Path, kind: str) -> None:
    coeff, delay = quadriga_links()
    if kind == "hdf5":
        path = tmp_path / "q.hdf5"
        with h5py.File(path, "w") as file:
            file["ChannelDims"] = np.array([2, 1, 1, 1], np.uint32)
            for device in range(2):
                group = file.create_group(f"channel_{device + 1}")
                group.attrs.update({"Name": np.bytes_(f"ue{device}"), "CenterFrequency": np.float32(CARRIER_HZ)})
                for snapshot in range(5):
                    inside = group.create_group(f"Snap_{snapshot}")
                    one = coeff[device, ..., snapshot].T.astype(np.complex64)
                    inside["coeff_re"], inside["coeff_im"] = one.real, one.imag
                    inside["delay"] = delay[device, ..., snapshot].T.astype(np.float32)
    elif kind == "complex":
        np.savez(path := tmp_path / "q.npz", coeff=coeff, delay=delay)
    elif kind == "mat":
        savemat(path := tmp_path / "q.mat", {"coeff_re": coeff.real, "coeff_im": coeff.imag, "delay": delay})
    else:
        np.savez(path := tmp_path / "q.npz", coeff_re=coeff.real, coeff_im=coeff.imag, delay=delay)
    trace = imported(path, tmp_path / "out.npz", snapshot_s=0.01)
    assert (trace.num_snapshots, trace.num_devices, trace.num_antennas, trace.num_paths) == (5, 2, 4, 3)
    for snapshot in (0, 4):
        found = response(trace.read_snapshot(snapshot))
        for device in range(2):
            # Delays in single precision: 2 pi 4 MHz times 3e-14 s, and amplitudes of 1e-7.
            np.testing.assert_allclose(found[device], quadriga_response(coeff, delay, device, snapshot), atol=2e-5)


def test_transmitters_are_devices_if_asked_for(tmp_path: Path) -> None:
    coeff, delay = quadriga_links()
    np.savez(tmp_path / "q.npz", coeff=coeff.swapaxes(1, 2), delay=delay.swapaxes(1, 2))
    trace = imported(tmp_path / "q.npz", tmp_path / "out.npz", devices="transmitters")
    np.testing.assert_allclose(response(trace.read_snapshot(2))[1], quadriga_response(coeff, delay, 1, 2), atol=2e-5)


# --- SigMF -----------------------------------------------------------------------------------------


def sigmf(path: Path, raw: bytes, captures: list[dict[str, Any]], notes: Any = (), **common: Any) -> Path:
    """Write a recording sampled at 1 MHz."""
    path.with_suffix(".sigmf-data").write_bytes(raw)
    told = {"core:sample_rate": 1e6, "core:version": "1.2.0", **common}
    meta = {"global": told, "captures": captures, "annotations": list(notes)}
    path.with_suffix(".sigmf-meta").write_text(json.dumps(meta))
    return path.with_suffix(".sigmf-meta")


def test_captures_are_snapshots_without_their_headers_and_from_their_offset_on(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).integers(-3000, 3000, (3, 16, 2, 2)).astype("<i2")  # capture, sample, channel
    raw = b"".join(b"\xff" * (40 + 3 * index) + one.tobytes() for index, one in enumerate(numbers)) + b"end"
    captures = [
        {
            "core:sample_start": 1000 + 16 * index,
            "core:header_bytes": 40 + 3 * index,
            "core:frequency": CARRIER_HZ,
            "core:datetime": f"2026-01-01T00:00:0{2 * index}.250000Z",
        }
        for index in range(3)
    ]
    common = {"core:datatype": "ci16_le", "core:num_channels": 2, "core:offset": 1000, "core:trailing_bytes": 3}
    trace = imported(sigmf(tmp_path / "s", raw, captures, **common), tmp_path / "out.npz")
    truth = (numbers[..., 0] + 1j * numbers[..., 1]) / 32768.0
    for index in range(3):
        np.testing.assert_array_equal(trace.read_snapshot(index).a[0], truth[index].T)
    assert trace.times_s is not None
    np.testing.assert_allclose(trace.times_s, [0.0, 2.0, 4.0])
    assert (trace.sample_rate_hz, trace.carrier_frequency_hz) == (1e6, CARRIER_HZ)


def test_annotations_are_impulse_responses_of_the_device_in_their_label(tmp_path: Path) -> None:
    samples = np.exp(2j * np.pi * np.random.default_rng(2).random(600)).astype(">c8")
    notes = [
        {"core:sample_start": 100 * index + 10, "core:sample_count": 40, "core:label": f"phone {index % 2}"}
        for index in range(6)
    ]
    file = sigmf(tmp_path / "s", samples.tobytes(), [{"core:sample_start": 0}], notes, **{"core:datatype": "cf32_be"})
    trace = imported(file, tmp_path / "out.npz")
    assert (trace.num_snapshots, trace.names) == (3, ("phone 0", "phone 1"))
    for index in range(6):
        found = trace.read_snapshot(index // 2).a[index % 2, 0]
        np.testing.assert_array_equal(found, samples[100 * index + 10 :][:40])


def test_a_stream_is_cut_into_impulse_responses_of_so_many_taps(tmp_path: Path) -> None:
    samples = np.arange(2 * 105, dtype=np.float32).astype(np.complex64)
    captures = [{"core:sample_start": 0}, {"core:sample_start": 105}]
    file = sigmf(tmp_path / "s", samples.tobytes(), captures, **{"core:datatype": "cf32_le"})
    trace = imported(file, tmp_path / "out.npz", num_taps=10)
    starts = [*range(0, 100, 10), *range(105, 205, 10)]
    assert trace.num_snapshots == len(starts)
    for snapshot, start in enumerate(starts):
        np.testing.assert_array_equal(trace.read_snapshot(snapshot).a[0, 0].real, np.arange(start, start + 10))


# --- MATLAB and NumPy ------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_variables_of_matlab_are_those_that_scipy_reads(tmp_path: Path, packed: bool) -> None:
    rng = np.random.default_rng(1)
    arrays = {
        "big": rng.normal(size=(70, 80, 90)) + 1j * rng.normal(size=(70, 80, 90)),  # of several parts
        "single": rng.normal(size=(3, 4)).astype(np.float32),
        "whole": rng.integers(-9, 9, (5, 6, 2)),
        "number": 2.5,
        "few": np.array([1, 2, 3], np.int8),
        "flags": np.array([True, False]),
        "text": "a street",
        "structure": {"inside": 1.0},
    }
    savemat(tmp_path / "m.mat", arrays, do_compression=packed)
    found, theirs = variables_of_5(lambda: (tmp_path / "m.mat").open("rb")), loadmat(tmp_path / "m.mat")
    assert set(found) == set(arrays) - {"structure"}
    for name in set(found) - {"text"}:
        assert found[name].shape == theirs[name].shape
        np.testing.assert_array_equal(found[name].load(), theirs[name].astype(found[name].dtype))
    assert "".join(map(chr, found["text"].load().ravel())) == "a street"


def test_arrays_of_numpy_under_other_names_become_a_channel(tmp_path: Path) -> None:
    h = quadriga_links()[0][:, 0, 0].transpose(2, 0, 1)[:, :, None]
    np.savez_compressed(tmp_path / "n.npz", H=h, fs=2e6)
    names = {"h": "H", "sample_rate_hz": "fs"}
    trace = imported(tmp_path / "n.npz", tmp_path / "out.npz", names=names, snapshot_s=0.2)
    assert (trace.sample_rate_hz, trace.duration_s) == (2e6, 1.0)
    np.testing.assert_allclose(trace.read_snapshot(3).a, h[3], rtol=1e-6)


def test_a_snapshot_is_read_without_the_rest_of_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "_kept", {})
    h = quadriga_links()[0][:, 0, 0].transpose(2, 0, 1)[:, :, None]
    savemat(tmp_path / "m.mat", {"h": h, "sample_rate_hz": 1e6})
    trace = imported(tmp_path / "m.mat", tmp_path / "out.npz")
    np.testing.assert_allclose(trace.read_snapshot(4).a, h[4], rtol=1e-6)
    assert "h" not in {name for _, _, name in container._kept}


# --- files that cannot be ------------------------------------------------------------------------


def _bad_deepmimo(where: Path, change: Callable[[Path], object]) -> Path:
    folder = deepmimo(where / "bad")
    change(folder)
    return folder


def _sigmf_of(where: Path, **common: Any) -> Path:
    told = {"core:datatype": "cf32_le", **common}
    return sigmf(where / "bad", bytes(800), [{"core:sample_start": 0}], **told)


def _npz(where: Path, **arrays: Any) -> Path:
    np.savez(where / "bad.npz", **arrays)
    return where / "bad.npz"


def _bomb(where: Path) -> Path:
    """A matrix that claims 8 TB."""
    folder = deepmimo(where / "bad")
    header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 20, 1 << 21)}
    np.lib.format.write_array_header_1_0(inside := io.BytesIO(), header)
    with zipfile.ZipFile(folder / "power_t000_tx000_r001.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("power.npy", inside.getvalue() + bytes(1 << 20))
    return folder


DELAYS = np.zeros((1, 4, 3))
BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a folder without parameters": (
        lambda at: _bad_deepmimo(at, lambda f: (f / "params.json").unlink()),
        "bad has no params.json; name the folder or zip of a DeepMIMO 4 data set",
    ),
    "parameters that are no JSON": (
        lambda at: _bad_deepmimo(at, lambda f: (f / "params.json").write_text("{")),
        "bad is not a whole DeepMIMO data set",
    ),
    "a matrix that is missing": (
        lambda at: _bad_deepmimo(at, lambda f: (f / "phase_t000_tx000_r001.npz").unlink()),
        "phase_t000_tx000_r001.npz is not there; copy the whole data set",
    ),
    "a matrix of Python objects": (
        lambda at: _bad_deepmimo(
            at, lambda f: np.savez(f / "power_t000_tx000_r001.npz", power=np.array([[{}]], object))
        ),
        "array power holds Python objects, which are never opened",
    ),
    "a matrix that unpacks to 8 TB": (_bomb, "array power takes 8192 GiB; at most 8 GiB are read"),
    "a matrix of other axes": (
        lambda at: _bad_deepmimo(at, lambda f: np.savez(f / "phase_t000_tx000_r001.npz", phase=np.zeros((4, 5)))),
        "phase has shape (4, 5), power (4, 2)",
    ),
    "coefficients of two axes": (
        lambda at: _npz(at, re=DELAYS[0], im=DELAYS[0], delay=DELAYS[0]),
        "an array has shape (4, 3); write axes [rx, tx, path]",
    ),
    "a real part without an imaginary one": (
        lambda at: _npz(at, re=DELAYS, delay=DELAYS),
        "bad.npz has no coeff_im",
    ),
    "delays of other paths": (
        lambda at: _npz(at, coeff=DELAYS + 0j, delay=DELAYS[..., :2]),
        "coefficients of shape (1, 4, 3), delays of (1, 4, 2)",
    ),
    "complex numbers as real parts": (
        lambda at: _npz(at, re=DELAYS + 0j, im=DELAYS, delay=DELAYS),
        "bad.npz has complex128 coefficients",
    ),
    "arrays of other names": (
        lambda at: _npz(at, H=DELAYS),
        "bad.npz has H; name the variable of an array",
    ),
    "real samples": (
        lambda at: _sigmf_of(at, **{"core:datatype": "rf32_le"}),
        "samples are rf32_le; impulse responses are complex",
    ),
    "a recording without a rate": (
        lambda at: _sigmf_of(at, **{"core:sample_rate": 0}),
        "bad.sigmf-meta has no sample rate or no capture",
    ),
    "samples of another recording": (
        lambda at: _sigmf_of(at, **{"core:sha512": "0" * 128}),
        "bad.sigmf-data has another SHA-512 than its metadata say",
    ),
    "an offset behind the captures": (
        lambda at: _sigmf_of(at, **{"core:offset": 50}),
        "captures begin at samples 0 to 0, the data hold 50 to 150",
    ),
    "metadata without a datatype": (
        lambda at: sigmf(at / "bad", bytes(800), [{"core:sample_start": 0}]),
        "bad.sigmf-meta is not a whole SigMF recording",
    ),
    "an annotation behind the end": (
        lambda at: sigmf(
            at / "bad",
            bytes(800),
            [{"core:sample_start": 0}],
            [{"core:sample_start": 90, "core:sample_count": 20}],
            **{"core:datatype": "cf32_le"},
        ),
        "the impulse response at sample 90 has 20 samples, more than its capture",
    ),
    "a MATLAB file that ends early": (
        lambda at: _cut(at / "bad.mat", {"h": np.ones((4, 3, 2, 2)) + 1j, "sample_rate_hz": 1e6}),
        "bad.mat is not a whole MATLAB file",
    ),
    "nothing": (lambda at: at / "bad.npz", "bad.npz cannot be read (no such file or directory)"),
}


def _cut(path: Path, arrays: dict[str, Any]) -> Path:
    savemat(path, arrays)
    path.write_bytes(path.read_bytes()[:500])
    return path


@pytest.mark.parametrize("case", BAD)
def test_files_that_cannot_be_a_channel_get_one_sentence(tmp_path: Path, case: str) -> None:
    make, sentence = BAD[case]
    with pytest.raises(TraceError) as error:
        imported(make(tmp_path), tmp_path / "out.npz")
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_vanished_is_said_to_be_missing_and_capitals_are_read(tmp_path: Path) -> None:
    save_channel(tmp_path / "S.NPZ", a=np.ones((2, 1, 1, 1), complex), tau_s=np.zeros((2, 1, 1)))
    trace = open_trace(tmp_path / "S.NPZ")
    assert trace.num_snapshots == 2
    trace.arrays.path.unlink()
    with pytest.raises(TraceError, match=r"^S.NPZ cannot be read \(no such file or directory\); correct the path$"):
        open_trace(tmp_path / "S.NPZ")
