"""The GPU of this machine."""

from __future__ import annotations

from importlib.util import find_spec

from numba import cuda

from phy.links.link import LinkError


def require_gpu() -> None:
    """Raise LinkError if numba sees no GPU, or if its extra is not installed. Its simulator counts as a GPU."""
    if cuda.is_available():
        return
    if find_spec("numba_cuda") is None:
        raise LinkError(
            "engine cuda needs numba-cuda, which is not installed",
            "run pip install 'phyloop[cuda]', or write engine: auto",
        )
    raise LinkError(
        "engine cuda finds no NVIDIA GPU with a driver of CUDA 13 on this machine",
        "run it where nvidia-smi lists one, or write engine: auto",
    )
