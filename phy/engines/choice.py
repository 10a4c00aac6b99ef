"""Which engine computes a link: Sionna under XLA has every chain, fused kernels the hot ones, on a CPU.

Both meet the same fades and the same noise, but sums and roots may be rounded otherwise, so the engine is part of what
identifies a result. Nothing here imports TensorFlow or numba: a scenario is checked without either.
"""

from __future__ import annotations

import os
import platform
import warnings
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from phy.config import LinkConfig

Engine = Literal["sionna", "fused"]

_VECTORS = "avx2"
"""The first instructions of x86 that work on eight integers and eight floats at once."""


def engine_of(link: LinkConfig) -> Engine:
    """The engine that `link.engine` stands for on this machine; access and modulation are to be explicit."""
    if link.engine != "auto":
        return link.engine
    return "fused" if link.fusible and not sees_gpu() and _vectors_or_say() else "sionna"


@lru_cache(maxsize=1)
def sees_gpu() -> bool:
    """Whether TensorFlow can have a GPU here: its CUDA libraries are installed, the device is there and not hidden."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    return not hidden and Path("/dev/nvidiactl").exists() and find_spec("nvidia") is not None


@lru_cache(maxsize=1)
def has_vectors() -> bool:
    """Whether this processor has the vector instructions that fused kernels are fast with."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    listed = Path("/proc/cpuinfo")
    return not listed.exists() or _VECTORS in listed.read_text(encoding="ascii", errors="replace").split()


@lru_cache(maxsize=1)
def _vectors_or_say() -> bool:
    if not has_vectors():
        warnings.warn(
            f"this processor has no {_VECTORS}, without which fused kernels are slow: links of engine auto are "
            "computed by Sionna; write link.engine: fused to have them all the same",
            stacklevel=2,
        )
    return has_vectors()
