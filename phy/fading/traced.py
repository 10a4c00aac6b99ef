"""Statistics of a recorded channel, as estimators assume them: its mean delay profile, without motion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class TracedFading:
    """See `Propagation`; taps are in fused kernels alone."""

    num_antennas: int
    delays_s: NDArray[np.float64]
    powers: NDArray[np.float64]

    def taps(self, key: Any, instants_s: Any) -> NoReturn:
        """See `Propagation.taps`; a conflict keeps links with a recorded channel from Sionna's chain."""
        raise NotImplementedError("recorded channels are read in fused kernels")

    def path_correlation(self, lag_s: NDArray[np.float64]) -> NDArray[np.complex128]:
        """See `Propagation.path_correlation`."""
        return np.ones((len(self.powers), *np.shape(lag_s)), np.complex128)
