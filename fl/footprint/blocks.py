"""Rounds that stream their devices in blocks, and the reason why other rounds cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phy.config import LinkConfig

if TYPE_CHECKING:
    from fl.learning.fedavg import FedAvgConfig


_BLOCK_BYTES, _FEWEST_IN_A_BLOCK = 1 << 24, 64
"""Updates of a block [B]; more are held than caches and allocator like where that would be fewer devices than are
trained together."""


def devices_in_a_block(num_values: int) -> int:
    """Devices of a block, each with an update of `num_values` float32: a power of two that follows from the size alone.

    Groups of devices whose sums are rounded together are powers of two as well, so that neither cuts the other.
    """
    fit = max(_BLOCK_BYTES // (4 * num_values), _FEWEST_IN_A_BLOCK)
    return 1 << fit.bit_length() - 1


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
