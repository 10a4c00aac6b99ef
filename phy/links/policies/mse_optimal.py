"""Power control with the smallest mean square error of a sum over the air."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from phy.config.conflict import Conflict, Say, Write
from phy.config.power import Kernel, PowerPolicy, Sums, power_policies
from phy.links.policies.inversion import Inversion

if TYPE_CHECKING:
    from phy.config.link import LinkConfig


@power_policies.register
class MseOptimal(PowerPolicy):
    """Inversion to a common amplitude c; devices too weak for it send at full power (Cao, Zhu, Xu and Huang 2020).

    With independent payloads x_k of power p_k, device k arriving at a_k <= q_k = |h^_k| sqrt(P0 / p_k), the error

        E |y / c - sum_k x_k|^2 = sum_k p_k (a_k / c - 1)^2 + sigma^2 / c^2

    is smallest for a_k = min(c, q_k) and, with devices in the order of q_k,

        c = min_j (sum_{k <= j} p_k q_k^2 + sigma^2) / sum_{k <= j} p_k q_k.

    The paper has p_k = 1. No other amplitudes under the same powers have a smaller error. The sum is biased: weak
    devices count for a_k / c < 1.
    """

    name: Literal["mse-optimal"] = "mse-optimal"
    kernel: ClassVar[Kernel | None] = "inverse"
    clips: ClassVar[bool] = True

    def amplitude(self, gain: Any, mean_gain: Any, xp: Any) -> Any:
        """See `Inversion.amplitude`."""
        return Inversion().amplitude(gain, mean_gain, xp)

    def level(self, reach: NDArray[np.float64], sums: Sums | None) -> NDArray[np.float64]:
        """c, `[num_trials]`; infinite where nobody sends."""
        assert sums is not None
        sends = np.isfinite(reach)
        power, q = np.where(sends, sums.payload_power, 0.0), np.where(sends, reach, 0.0)
        order = np.argsort(q, axis=1)
        power, q = np.take_along_axis(power, order, axis=1), np.take_along_axis(q, order, axis=1)
        reached, squares = np.cumsum(power * q, axis=1), np.cumsum(power * q * q, axis=1)
        with np.errstate(divide="ignore"):
            return np.asarray(((squares + sums.noise_power) / reached).min(axis=1))

    def conflicts(self, link: LinkConfig) -> Iterator[Conflict]:
        """See `PowerPolicy.conflicts`."""
        if link.access != "superposition":
            yield Conflict(
                "power.policy access",
                f"mse-optimal minimises the error of a sum over the air, the access is {link.access}",
                Write({"access": "superposition"}),
                Say("policy: fixed or inversion"),
            )
        elif not link.steady:
            yield Conflict(
                "power.policy channel.coherence channel.model csi.estimator receiver.combining",
                "mse-optimal takes one channel gain per device and round, but this link has several (paths, "
                "pilots, or a coherence shorter than a round)",
                Write({"policy": "fixed"}),
            )
