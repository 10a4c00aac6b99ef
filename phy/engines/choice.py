"""Choice of the engine of a link: Sionna under XLA supports all links, fused kernels the common ones, on a CPU.

A few have kernels for a GPU too: engine `cuda`, which `auto` never chooses. Codes of 3GPP that Sionna has with other
conventions are in kernels only, whatever the machine.

Both see the same fades and noise, but may round sums and roots differently. The engine is therefore part of the
identity of a result. This module imports neither TensorFlow nor numba: a scenario is checked without them.
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

Engine = Literal["sionna", "fused", "cuda"]

_VECTORS = "avx2"
"""The first x86 instructions on eight integers and eight floats at once."""

_ONEDNN_BFLOAT16 = frozenset(("avx512f", "avx512bw", "avx512vl", "avx512dq"))
"""What oneDNN's kernels for bfloat16 need; those before AVX-512 BF16 emulate its product."""


def engine_of(link: LinkConfig) -> Engine:
    """Return the engine of `link.engine` on this machine; access and modulation must not be `auto`."""
    if link.engine != "auto":
        return link.engine
    if link.only_in_kernels:
        return "fused"
    return "fused" if link.fusible and not sees_gpu() and _vectors_or_say() else "sionna"


def with_engine(link: LinkConfig) -> LinkConfig:
    """Return the link with its engine named."""
    return link.model_copy(update={"engine": engine_of(link)})


def loads_tensorflow(link: LinkConfig) -> bool:
    """Return True for a link that fused kernels do not carry alone; access and modulation must not be `auto`."""
    fused = link.plain or link.fusible_packets or link.access == "superposition"
    return link.error_model != "error_free" and not (fused and engine_of(link) != "sionna")


@lru_cache(maxsize=1)
def sees_gpu() -> bool:
    """True if TensorFlow can use a GPU: its CUDA libraries are installed, and a device is present and not hidden."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    return not hidden and Path("/dev/nvidiactl").exists() and find_spec("nvidia") is not None


@lru_cache(maxsize=1)
def instructions() -> frozenset[str]:
    """Names by which Linux lists instruction sets of this processor, among other words; none on other systems."""
    listed = Path("/proc/cpuinfo")
    return frozenset(listed.read_text(encoding="ascii", errors="replace").split() if listed.exists() else ())


def has_vectors() -> bool:
    """True if this processor has the vector instructions that make fused kernels fast, or nothing is known."""
    return platform.machine().lower() in ("arm64", "aarch64") or not instructions() or _VECTORS in instructions()


def has_bfloat16() -> bool:
    """True if this processor multiplies bfloat16 (AMX, AVX-512 BF16), TensorFlow has a GPU, or nothing is known."""
    known = instructions()
    return sees_gpu() or not known or not known.isdisjoint(("amx_bf16", "avx512_bf16", "bf16"))


def has_bfloat16_kernels() -> bool:
    """True if TensorFlow has fast kernels for bfloat16 here: those of oneDNN, which need AVX-512, or those of a GPU.

    False where switches of TensorFlow or oneDNN take them away: TensorFlow looks at the processor alone, hands bfloat16
    to oneDNN, and the process ends.
    """
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or ""
    limited = limit.upper().startswith(("SSE", "AVX2")) or limit.upper() == "AVX"
    switched_off = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").strip().lower() in ("0", "false")
    return sees_gpu() or (instructions() >= _ONEDNN_BFLOAT16 and not limited and not switched_off)


@lru_cache(maxsize=1)
def _vectors_or_say() -> bool:
    if not has_vectors():
        warnings.warn(
            f"this processor has no {_VECTORS}, without which fused kernels are slow: links of engine auto are "
            "computed by Sionna; write link.engine: fused to have them all the same",
            stacklevel=2,
        )
    return has_vectors()
