"""Channels given as arrays, which a link reads as it reads a recorded channel."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from phyloop.channel import save_channel
from scenarios.schema.errors import ScenarioError


def channel_section(channel: Any, *, sample_rate_hz: float | None, snapshot_s: float | None) -> dict[str, Any]:
    """Return `{"channel": section}` for a section, or for taps that are kept in a file until Python ends.

    Nothing for None. ScenarioError for arrays that are no taps, and for a rate without taps or taps without a rate.
    """
    given = dict(channel) if isinstance(channel, Mapping) else {"taps": channel}
    taps = given.pop("taps", None)
    if taps is None:
        if sample_rate_hz is not None or snapshot_s is not None:
            key = "snapshot_s" if sample_rate_hz is None else "sample_rate_hz"
            problem = "is that of taps [snapshot, device, rx_antenna, tap], and channel has none"
            raise ScenarioError(key=key, problem=problem, remedy="give taps as channel, or leave it out")
        return {"channel": given} if given or channel is not None else {}
    if isinstance(taps, str):
        raise ScenarioError(
            key="channel", value=taps, problem="is no section and no array", remedy="write {'model': ...}"
        )
    array = np.asarray(taps)
    if array.ndim != 4 or array.dtype.kind != "c" or 0 in array.shape:
        raise ScenarioError(
            key="channel",
            problem=f"the taps are {array.dtype} of shape {array.shape}",
            remedy="give complex taps [snapshot, device, rx_antenna, tap]",
        )
    if not np.isfinite(array).all():
        raise ScenarioError(key="channel", problem="a tap is no finite number", remedy="write 0 for a missing tap")
    if sample_rate_hz is None or not 0.0 < sample_rate_hz < np.inf:
        raise ScenarioError(
            key="sample_rate_hz",
            value=sample_rate_hz,
            problem="is the rate of the taps [Hz], above 0",
            remedy="write for example 20e6",
        )
    return {"channel": {"model": "trace", **given, "file": str(_kept(array, sample_rate_hz, snapshot_s))}}


def _kept(taps: Any, sample_rate_hz: float, snapshot_s: float | None) -> Path:
    """Write taps once into a folder of this process, and return the file."""
    digest = hashlib.sha256(
        np.ascontiguousarray(taps).tobytes() + repr((taps.shape, sample_rate_hz, snapshot_s)).encode()
    )
    path = _folder() / f"taps-{digest.hexdigest()[:16]}.npz"
    if not path.exists():
        times = {} if snapshot_s is None else {"snapshot_s": snapshot_s}
        save_channel(path, h=taps, sample_rate_hz=sample_rate_hz, **times)
    return path


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="phyloop-taps-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
