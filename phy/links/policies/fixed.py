"""Full power, phase compensated."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from phy.config.power import Kernel, PowerPolicy, power_policies


@power_policies.register
class Fixed(PowerPolicy):
    """Every device at full power: |w| = 1."""

    name: Literal["fixed"] = "fixed"
    kernel: ClassVar[Kernel | None] = "constant"

    def amplitude(self, gain: Any, mean_gain: Any, xp: Any) -> Any:
        """1."""
        del mean_gain
        return xp.ones_like(gain)
