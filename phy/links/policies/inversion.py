"""Channel inversion, with and without a cutoff."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from phy.config.power import Cutoff, Kernel, PowerPolicy, power_policies


@power_policies.register
class Inversion(PowerPolicy):
    """Every device arrives with one common amplitude: |w| = 1 / |h^|."""

    name: Literal["inversion"] = "inversion"
    kernel: ClassVar[Kernel | None] = "inverse"

    def amplitude(self, gain: Any, mean_gain: Any, xp: Any) -> Any:
        """1 / `gain`, at most 1e15."""
        del mean_gain
        return 1.0 / xp.maximum(gain, 1e-15)


@power_policies.register
class TruncatedInversion(PowerPolicy):
    """Inversion, but a device whose power gain is more than `cutoff_db` below its mean stays silent for that block."""

    name: Literal["truncated-inversion"] = "truncated-inversion"
    kernel: ClassVar[Kernel | None] = "inverse"
    silences: ClassVar[bool] = True
    cutoff_db: Cutoff = -10.0

    def amplitude(self, gain: Any, mean_gain: Any, xp: Any) -> Any:
        """1 / `gain` where `gain`^2 reaches the cutoff, else 0."""
        cutoff = 10.0 ** (self.cutoff_db / 10.0)
        return xp.where(gain**2 >= cutoff * mean_gain**2, 1.0 / xp.maximum(gain, 1e-15), 0.0)
