"""How many devices a round works on at once where it need not hold the updates of all."""

from __future__ import annotations

_BLOCK_BYTES, _FEWEST_IN_A_BLOCK = 1 << 24, 64
"""Updates of a block [B]; more are held than caches and allocator like where that would be fewer devices than are
trained together."""


def devices_in_a_block(num_values: int) -> int:
    """Devices of a block, each with an update of `num_values` float32: a power of two that follows from the size alone.

    Groups of devices whose sums are rounded together are powers of two as well, so that neither cuts the other.
    """
    fit = max(_BLOCK_BYTES // (4 * num_values), _FEWEST_IN_A_BLOCK)
    return 1 << fit.bit_length() - 1
