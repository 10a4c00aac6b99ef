"""Foreign files of channels: which reader a file is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phy.traces.container import SUFFIXES
from phy.traces.deepmimo import is_deepmimo, read_deepmimo
from phy.traces.errors import TraceError
from phy.traces.quadriga import Ends, is_quadriga, read_quadriga
from phy.traces.recording import Recording
from phy.traces.sigmf import is_sigmf, read_sigmf
from phy.traces.variables import read_variables


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a user says of a foreign file: names of variables, facts that it does not hold, and which ends are meant."""

    names: Mapping[str, str] = field(default_factory=dict)
    snapshot_s: float | None = None
    carrier_frequency_hz: float | None = None
    num_taps: int | None = None
    server: int = 0
    devices: Ends = "receivers"


def read_foreign(path: Path, asked: Asked) -> Recording:
    """Return the channel in a file, a folder or a zip. TraceError for one that is of no known kind, or damaged."""
    if not path.exists():
        raise TraceError(f"{path.name} cannot be read (no such file or directory)", "correct the path")
    if is_deepmimo(path):
        return read_deepmimo(path, server=asked.server, snapshot_s=asked.snapshot_s)
    if is_sigmf(path):
        return read_sigmf(path, num_taps=asked.num_taps)
    if path.suffix.lower() not in (*SUFFIXES, ".mat"):
        remedy = "name a folder or zip of DeepMIMO, .sigmf-meta, .mat, .npz or .h5"
        raise TraceError(f"{path.name} is of no known kind", remedy)
    facts = {"snapshot_s": asked.snapshot_s, "carrier_frequency_hz": asked.carrier_frequency_hz}
    given = {name: value for name, value in facts.items() if value is not None}
    if not asked.names and is_quadriga(path):
        return read_quadriga(path, devices=asked.devices, facts=given)
    return read_variables(path, names=asked.names, facts=given)
