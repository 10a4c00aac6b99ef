"""Full power, phase compensated."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from phy.config.power import Kernel, PowerPolicy, Sums, power_policies


@power_policies.register
class Fixed(PowerPolicy):
    """Every device at full power: |w| = 1."""

    name: Literal["fixed"] = "fixed"
    kernel: ClassVar[Kernel | None] = "constant"

    def amplitude(self, gain: Any, mean_gain: Any, xp: Any) -> Any:
        """1."""
        del mean_gain
        return xp.ones_like(gain)

    def level(self, reach: NDArray[np.float64], sums: Sums | None) -> NDArray[np.float64]:
        """The largest: devices with less power send at all that they have."""
        del sums
        return np.asarray(np.where(np.isfinite(reach), reach, 0.0).max(axis=1))
