"""Rounds that stream their devices in blocks, and the reason why other rounds cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl.algorithms.device_blocks import devices_in_a_block
from phy.config import LinkConfig

if TYPE_CHECKING:
    from fl.learning.fedavg import FedAvgConfig


def held_at_once(config: FedAvgConfig) -> str | None:
    """Reason and remedy, in a clause, for a round with the numbers of all devices in memory; None for blocks of them.

    The same rule as in `fl.algorithms.fedavg.Federation`.
    """
    aggregation = config.aggregation
    if not aggregation.in_blocks:
        return f"aggregation {aggregation.name} needs the updates of all devices at once; cpa, probit and sign do not"
    if config.personal is not None:
        return "every device keeps a personal model; leave personal out"
    if config.downlink != "ideal":
        return "every device keeps the model that it received last; write downlink: ideal"
    if config.attack is not None and config.attack.uses_honest_updates:
        return f"attackers of kind {config.attack.kind} look at all updates; choose another kind"
    if config.local.optimizer == "adam" or config.local.momentum > 0.0:
        return "every device keeps its momentum; write optimizer: gd, or momentum: 0"
    return None


def devices_at_once(config: FedAvgConfig, *, count: int, num_values: int) -> int:
    """Devices, of `count` that train in a round, whose updates of `num_values` numbers are in memory at once."""
    if held_at_once(config) is not None:
        return count
    return min(count, devices_in_a_block(num_values))


def bits_in_parts(config: FedAvgConfig, link: LinkConfig) -> bool:
    """Return True if bits also go over the link in blocks of devices: uncoded ones on flat channels, but no packets."""
    if not config.aggregation.in_blocks:
        return False
    named = link.model_copy(update={"access": "orthogonal" if link.access == "auto" else link.access})
    return named.error_model == "error_free" or (named.plain and named.error_model == "measured")
