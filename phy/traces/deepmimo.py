"""Data sets of DeepMIMO 4: a folder, or its zip, with `params.json` and a file for each matrix.

A path has the amplitude sqrt(power) exp(j phase), as DeepMIMO computes channels. What was imported from Sionna RT has
lost the phase of the carrier over the path, exp(-2 pi j f_c delay): it is put back. Ray tracers that DeepMIMO reads
otherwise give phases of the whole path. Source: https://github.com/DeepMIMO/DeepMIMO, version 4.0.5.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.npz import shapes_in_npz
from phy.traces.container import reading
from phy.traces.errors import TraceError
from phy.traces.matlab5 import variables_of_5
from phy.traces.recording import Parts, Recording, check_size, rows, whole

_PARAMS = "params.json"
_MOST_PARAMS_BYTES = 64 << 20
_MOST_BYTES = 8 << 30
_LOST_PHASE = "sionna"
_FIRST_PATHS = 25
"""DeepMIMO keeps the first 25 paths of Sionna RT, not the strongest."""


@dataclass(frozen=True, kw_only=True)
class _Scenario:
    """Where the files are: `folder`, or within the zip, and the prefix of their names."""

    path: Path
    prefix: str

    def names(self) -> list[str]:
        if self.path.is_dir():
            return [one.relative_to(self.path).as_posix() for one in self.path.rglob("*") if one.is_file()]
        with zipfile.ZipFile(self.path) as archive:
            return archive.namelist()

    def open(self, name: str, most: int = _MOST_BYTES) -> IO[bytes]:
        """Return a file, which is in memory if it comes from a zip. TraceError if it is too large."""
        if self.path.is_dir():
            return (self.path / name).open("rb")
        with zipfile.ZipFile(self.path) as archive:
            if (size := archive.getinfo(name).file_size) > most:
                raise TraceError(f"{name} has {size / 1e9:.3g} GB", f"at most {most / 1e9:.3g} are read")
            return io.BytesIO(archive.read(name))


def is_deepmimo(path: Path) -> bool:
    """True for a folder or a zip of a DeepMIMO data set."""
    return path.is_dir() or path.suffix.lower() == ".zip"


def read_deepmimo(path: Path, *, server: int, snapshot_s: float | None) -> Recording:
    """Return the channels between transmitter number `server` and all receivers that have a path.

    Scenes of a dynamic data set are snapshots, `snapshot_s` apart. TraceError for a folder that holds no data set.
    """
    with reading(path, "DeepMIMO data set"):
        scenario, params = _opened(path)
        ends = params["txrx_sets"].values()
        masts = [(one["id"], point) for one in ends if one["is_tx"] for point in range(one["num_points"])]
        people = [one["id"] for one in ends if one["is_rx"] and not one["is_tx"]]
        rays, scenes = params["rt_params"], _scenes(scenario, int(params["scene"].get("num_scenes", 1)))
        carrier_hz, tracer = float(rays["frequency"]), str(rays.get("raytracer_name", "an unknown ray tracer"))
    if not people or server not in range(len(masts)):
        problem = f"{path.name} has {len(masts)} transmitters and {len(people)} sets of receivers"
        raise TraceError(problem, f"choose --server 0 to {max(len(masts) - 1, 0)}")
    matrices = _Matrices(scenario=scenario, mast=masts[server], people=tuple(people), scenes=scenes)
    with reading(path, "DeepMIMO data set"):
        survey = matrices.survey()
    heard, mast_m, lost = survey.heard, survey.mast_m, _LOST_PHASE in tracer.lower()
    shape = (len(scenes), int(heard.sum()), 1, survey.num_paths)
    flat = (shape[0], shape[1], shape[3])
    if not heard.any():
        raise TraceError(f"no receiver has a path to transmitter {server}", "choose another --server")
    make = partial(matrices.snapshots, survey)
    arrays = {
        "a": Parts(
            shape=shape,
            dtype=np.dtype(np.complex64),
            make=partial(make, ("power", "phase", "delay"), partial(_amplitudes, carrier_hz if lost else 0.0)),
        ),
        "tau_s": Parts(shape=flat, dtype=np.dtype(np.float32), make=partial(make, ("delay",), _delays)),
        "azimuth_deg": Parts(shape=flat, dtype=np.dtype(np.float32), make=partial(make, ("aod_az",), _angles)),
        "carrier_frequency_hz": whole(carrier_hz),
        "position_m": whole(survey.position_m[:, heard]),
        "server_m": whole(mast_m),
        "software": whole(f"DeepMIMO {params.get('version', '')}".strip()),
        "source": whole(f"{path.stem}, traced by {tracer}"),
    }
    if snapshot_s is not None:
        arrays["snapshot_s"] = whole(np.float64(snapshot_s))
    return Recording(arrays=arrays, assumed=tuple(_assumed(server, survey, lost=lost, tracer=tracer)))


def _assumed(server: int, survey: _Survey, *, lost: bool, tracer: str) -> Iterator[str]:
    heard, place = survey.heard, ", ".join(f"{one:.6g}" for one in survey.mast_m.tolist())
    yield f"the server is transmitter {server}, at ({place}) m, with one antenna; devices are the receivers"
    if not heard.all():
        yield f"{int((~heard).sum())} of {heard.size} receivers have no path and are left out"
    if lost:
        yield "the carrier phase, which DeepMIMO drops from Sionna RT's paths, is put back from the delays"
        if survey.num_paths == _FIRST_PATHS:
            yield f"DeepMIMO keeps the first {_FIRST_PATHS} paths of a link, not the strongest; more may be missing"
    else:
        yield f"phases of {tracer} are taken as those of the whole path, with the carrier"
    yield "the data set holds no Doppler shifts and no times"


def _opened(path: Path) -> tuple[_Scenario, dict[str, Any]]:
    bare = _Scenario(path=path, prefix="")
    found = sorted((one for one in bare.names() if one.split("/")[-1] == _PARAMS), key=len)
    if not found:
        raise TraceError(f"{path.name} has no {_PARAMS}", "name the folder or zip of a DeepMIMO 4 data set")
    scenario = _Scenario(path=path, prefix=found[0].removesuffix(_PARAMS))
    with closing(scenario.open(found[0], _MOST_PARAMS_BYTES)) as stream:
        params = json.loads(stream.read(_MOST_PARAMS_BYTES))
    return scenario, params


def _scenes(scenario: _Scenario, count: int) -> tuple[str, ...]:
    """The folder of each scene, of one scene that of the data set."""
    if count <= 1:
        return (scenario.prefix,)
    inside = {one.removeprefix(scenario.prefix).split("/")[0] for one in scenario.names() if one.endswith("npz")}
    folders = sorted(one for one in inside if not one.endswith("npz"))
    if len(folders) != count:
        raise TraceError(f"{count} scenes in {len(folders)} folders", "copy the whole data set")
    return tuple(f"{scenario.prefix}{one}/" for one in folders)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Survey:
    """Which receivers have a path in any scene, shapes of the matrices of each scene and set of receivers, positions of
    receivers `[scene, receiver, 3]` and of the transmitter."""

    heard: NDArray[np.bool_]
    shapes: Mapping[tuple[str, int], tuple[int, ...]]
    position_m: NDArray[np.float32]
    mast_m: NDArray[np.float32]

    @property
    def num_paths(self) -> int:
        """Largest number of paths."""
        return max(shape[1] for shape in self.shapes.values())


@dataclass(frozen=True, kw_only=True)
class _Matrices:
    """The matrices of one transmitter and of all receivers, scene by scene."""

    scenario: _Scenario
    mast: tuple[int, int]
    people: tuple[int, ...]
    scenes: tuple[str, ...]

    def survey(self) -> _Survey:
        """Return what the powers say: a path that is missing has none."""
        shapes, heard, positions = {}, None, []
        for scene in self.scenes:
            there = []
            for people in self.people:
                power = self.read(scene, "power", people)
                shapes[scene, people] = power.shape
                there.append(np.isfinite(power).any(axis=1))
            now = np.concatenate(there)
            heard = now if heard is None else heard | now
            positions.append(np.concatenate([self.read(scene, "rx_pos", people) for people in self.people]))
        assert heard is not None
        mast = self.read(self.scenes[0], "tx_pos", self.people[0]).reshape(-1)[:3]
        return _Survey(heard=heard, shapes=shapes, position_m=np.stack(positions), mast_m=mast)

    def read(self, scene: str, name: str, people: int) -> NDArray[Any]:
        """Return a matrix, whose file is `.npz`, `.mat` or `.npy`."""
        stem = f"{scene}{name}_t{self.mast[0]:03}_tx{self.mast[1]:03}_r{people:03}"
        names = set(self.scenario.names())
        if (found := f"{stem}.npz") in names:
            with self.scenario.open(found) as stream:
                shapes = shapes_in_npz(stream)
                if name not in shapes:
                    raise TraceError(f"{found} has no {name}", "convert the data set anew")
                check_size(name, *shapes[name])
                stream.seek(0)
                with np.load(stream, allow_pickle=False) as file:
                    return np.asarray(file[name])
        if (found := f"{stem}.mat") in names:
            return variables_of_5(partial(self.scenario.open, found))[name].load()
        raise TraceError(f"{stem}.npz is not there", "copy the whole data set")

    def snapshots(self, survey: _Survey, names: tuple[str, ...], make: Any) -> Iterator[NDArray[Any]]:
        """Yield what `make` returns of the matrices, in rows of receivers that are heard, filled up with NaN."""
        for scene in self.scenes:
            first = 0
            for people in self.people:
                with reading(self.scenario.path, "DeepMIMO data set"):
                    found = [self.read(scene, name, people) for name in names]
                usual = survey.shapes[scene, people]
                for name, one in zip(names, found, strict=True):
                    if one.shape != usual:
                        raise TraceError(f"{name} has shape {one.shape}, power {usual}", "copy the whole data set")
                kept = np.flatnonzero(survey.heard[first : first + usual[0]])
                first += usual[0]
                for part in rows(len(kept), survey.num_paths):
                    short = [one[kept[part]] for one in found]
                    more = ((0, 0), (0, survey.num_paths - usual[1]))
                    yield make(*(np.pad(one, more, constant_values=np.nan) for one in short))


def _amplitudes(
    lost_carrier_hz: float, power: NDArray[Any], phase: NDArray[Any], delay: NDArray[Any]
) -> NDArray[np.complex64]:
    """sqrt(power) exp(j phase), turned by the carrier over the delay; 0 for a path that is missing."""
    turns = phase.astype(np.float64) / 360.0 - lost_carrier_hz * delay.astype(np.float64)
    there = np.isfinite(power) & np.isfinite(turns)
    angle = (2.0 * np.pi * np.where(there, turns - np.round(turns), 0.0)).astype(np.float32)
    size = np.where(there, np.power(np.float32(10.0), np.where(there, power, 0.0).astype(np.float32) / 20.0), 0.0)
    found = np.empty(power.shape, np.complex64)
    found.real, found.imag = size * np.cos(angle), size * np.sin(angle)
    return found


def _delays(delay: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.where(np.isfinite(delay), delay, -1.0))


def _angles(azimuth: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.nan_to_num(azimuth))
