"""Recorded channels for `link.channel: {model: trace}`, from arrays of one's own or from Sionna RT.

This module needs NumPy alone: copy it into an environment with a ray tracer, or install phyloop there without its
dependencies.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike


def save_channel(
    file: str | Path,
    *,
    h: ArrayLike | None = None,
    sample_rate_hz: float | None = None,
    a: ArrayLike | None = None,
    tau_s: ArrayLike | None = None,
    doppler_hz: ArrayLike | None = None,
    **facts: Any,
) -> Path:
    """Write the channel of several devices as `phyloop channel check` reads it; return the path.

    Args:
        file: `.npz`, or `.h5` with h5py.
        h: taps `[snapshot, device, rx_antenna, tap]`, complex, with `sample_rate_hz`.
        sample_rate_hz: rate of the taps [Hz].
        a: amplitudes of paths `[snapshot, device, rx_antenna, path]`, complex, with the phase at the carrier.
        tau_s: delays `[snapshot, device, path]`, -1 where there is no path [s].
        doppler_hz: Doppler shift of every path `[snapshot, device, path]`; left out: not known [Hz].
        facts: `time_s` or `snapshot_s`, `carrier_frequency_hz`, `position_m`, `names`, `source`, see the page on
            recorded channels.

    Raises:
        ValueError: neither taps nor paths are given, or both.
    """
    if (h is None) == (a is None) or (h is None) != (sample_rate_hz is None) or (a is None) != (tau_s is None):
        raise ValueError("give taps h with sample_rate_hz, or paths a with tau_s")
    arrays = {"h": h, "sample_rate_hz": sample_rate_hz, "a": a, "tau_s": tau_s, "doppler_hz": doppler_hz, **facts}
    given: dict[str, Any] = {name: np.asarray(one) for name, one in arrays.items() if one is not None}
    path = Path(file)
    if path.suffix.lower() == ".npz":
        with path.open("wb") as stream:  # of a name in capitals NumPy makes another one
            np.savez_compressed(stream, **given)
        return path
    import h5py

    with h5py.File(path, "w") as out:
        for name, one in given.items():
            out[name] = one.astype(object) if one.dtype.kind == "U" else one
    return path


def from_sionna_rt(
    paths: Any,
    file: str | Path,
    *,
    devices: Literal["transmitters", "receivers"] = "transmitters",
    server: int = 0,
    most_paths: int | None = None,
    **facts: Any,
) -> Path:
    """Write what Sionna RT 2.x has traced as a recorded channel; return the path.

    `cir` takes the carrier phase from normalised delays unless it is told otherwise, and then links lose their phase
    against each other: here it is told otherwise. A path that is missing has delay -1. Paths are sorted by power, since
    their order differs from run to run; of a synthetic array path p is the same one at every antenna.

    Args:
        paths: `Paths` of a `PathSolver`, or several, one per snapshot, of which one at a time needs to be in memory.
        file: `.npz` or `.h5`.
        devices: the ends that are devices. Of several antennas of a device the first one counts.
        server: which of the other ends is the server.
        most_paths: keep the strongest ones of each link; left out: all.
        facts: as for `save_channel`.
    """
    snapshots: Iterable[Any] = [paths] if hasattr(paths, "cir") else paths
    found = [_of_one(one, devices=devices, server=server) for one in snapshots]
    count = max(a.shape[-1] for a, _, _ in found)
    joined = [_sorted(_padded(one, count), most_paths or count) for one in found]
    a, tau_s, doppler_hz = (np.stack(part) for part in zip(*joined, strict=True))
    return save_channel(file, a=a, tau_s=tau_s, doppler_hz=doppler_hz, software="Sionna RT", **facts)


def _of_one(paths: Any, *, devices: str, server: int) -> tuple[Any, Any, Any]:
    """(a `[device, antenna, path]`, tau and Doppler shifts `[device, path]`) of one snapshot."""
    a, tau = paths.cir(normalize_delays=False, out_type="numpy")
    a, tau, doppler = a[..., 0], np.asarray(tau), np.asarray(paths.doppler)
    if tau.ndim == 5:  # of every pair of antennas, which have delays of their own
        tau, doppler = tau[:, 0, :, 0], doppler[:, 0, :, 0]
    if devices == "transmitters":
        return a[server, :, :, 0].transpose(1, 0, 2), tau[server], doppler[server]
    return a[:, 0, server], tau[:, server], doppler[:, server]


def _padded(one: tuple[Any, Any, Any], count: int) -> tuple[Any, Any, Any]:
    a, tau, doppler = one
    more = count - a.shape[-1]
    return (
        np.pad(a, ((0, 0), (0, 0), (0, more))),
        np.pad(tau, ((0, 0), (0, more)), constant_values=-1.0),
        np.pad(doppler, ((0, 0), (0, more))),
    )


def _sorted(one: tuple[Any, Any, Any], most: int) -> tuple[Any, Any, Any]:
    """The strongest paths of every link, strongest first."""
    a, tau, doppler = one
    there = (tau >= 0.0)[:, None]
    power = (np.abs(np.where(there, a, 0.0)) ** 2).sum(axis=1)
    order = np.argsort(-power, axis=-1, kind="stable")[:, :most]
    picked = np.take_along_axis(np.where(there, a, 0.0), order[:, None], axis=2)
    return (
        picked.astype(np.complex64),
        np.take_along_axis(tau, order, axis=1).astype(np.float32),
        np.take_along_axis(doppler, order, axis=1).astype(np.float32),
    )
