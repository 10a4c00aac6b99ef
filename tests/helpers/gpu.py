"""A GPU for tests of engine cuda, or CUDA's simulator on a machine without one."""

from __future__ import annotations

import sys
from pathlib import Path

import numba
import pytest


def gpu_or_simulator() -> None:
    """Have the simulator if there is no GPU: it is chosen before `numba.cuda` is imported. Skips if it was imported."""
    if "numba.cuda" not in sys.modules and not Path("/dev/nvidiactl").exists():
        numba.config.ENABLE_CUDASIM = True
    from numba import cuda

    if not cuda.is_available():
        pytest.skip("there is no GPU, and numba.cuda was imported before its simulator could be chosen")
