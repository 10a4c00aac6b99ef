"""Types of arrays by their numbers: F64 is float64, U8 is uint8 (packed bits, most significant first), and so on."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

F64: TypeAlias = NDArray[np.float64]
F32: TypeAlias = NDArray[np.float32]
I64: TypeAlias = NDArray[np.int64]
U32: TypeAlias = NDArray[np.uint32]
U8: TypeAlias = NDArray[np.uint8]
Bools: TypeAlias = NDArray[np.bool_]
Reals: TypeAlias = NDArray[np.floating[Any]]
