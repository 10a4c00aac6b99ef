"""The distance to the optimum of a strongly convex task, and Theorem 2's bound on it, beside the measured run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fl.bounds import theorem2_bound
from fl.config import FedAvgConfig

if TYPE_CHECKING:
    from fl.federation import Federation
