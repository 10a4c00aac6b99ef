"""Power that follows the error rate of each device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from phy.config.conflict import Conflict, Write
from phy.config.power import Kernel, LoopConfig, PowerPolicy, power_policies

if TYPE_CHECKING:
    from phy.config.link import LinkConfig


@power_policies.register
class ClosedLoop(PowerPolicy):
    """|w| = 1, times what the error rate measured in the last round asks for (`phy.links.packets.closed_loop`)."""

    name: Literal["closed-loop"] = "closed-loop"
    kernel: ClassVar[Kernel | None] = "constant"
    closed_loop: ClassVar[bool] = True
    loop: LoopConfig = Field(default=LoopConfig(), description="target and steps of the loop")

    def amplitude(self, gain: Any, mean_gain: Any, xp: Any) -> Any:
        """1."""
        del mean_gain
        return xp.ones_like(gain)

    def conflicts(self, link: LinkConfig) -> Iterator[Conflict]:
        """See `PowerPolicy.conflicts`."""
        if link.access == "superposition":
            yield Conflict(
                "power.policy access",
                "closed-loop follows the error rate of each device, which superposition does not measure",
                Write({"policy": "inversion"}),
                Write({"access": "orthogonal"}),
            )
        elif link.flips_independently:
            yield Conflict(
                "power.policy error_model",
                "the closed form of error model analytic knows no closed loop"
                if link.error_model == "analytic"
                else f"the flips of error model {link.error_model} are no measurement for a closed loop to follow",
                Write({"error_model": "measured"}),
                Write({"policy": "fixed"}),
            )
        if self.loop.target == "ber" and link.packets.policy != "accept":
            yield Conflict(
                "power.loop.target packets.policy",
                f"under packets.policy {link.packets.policy} ber is measured on intact packets only",
                Write({"power.loop.target": "bler"}),
                Write({"packets.policy": "accept"}),
            )
