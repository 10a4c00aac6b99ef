"""Transport block sizes of TS 38.214 5.1.3.2, in exact arithmetic."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction

_SMALL_SIZES: tuple[int, ...] = (
    *range(24, 193, 8),
    *range(208, 385, 16),
    *range(408, 577, 24),
    *range(608, 769, 32),
    *range(808, 929, 40),
    *(984, 1032, 1064, 1128, 1160, 1192, 1224, 1256, 1288, 1320, 1352, 1416, 1480, 1544, 1608, 1672, 1736, 1800),
    *(1864, 1928, 2024, 2088, 2152, 2216, 2280, 2408, 2472, 2536, 2600, 2664, 2728, 2792, 2856, 2976, 3104, 3240),
    *(3368, 3496, 3624, 3752, 3824),
)
"""TS 38.214 Table 5.1.3.2-1 [bits]."""
_LARGEST_SMALL = 3824


def transport_block_size(
    num_resource_elements: int, *, rate: Fraction, bits_per_symbol: int, num_layers: int = 1
) -> int:
    """Return the bits of a transport block on `num_resource_elements` (N_RE), TS 38.214 5.1.3.2 steps 2 to 4.

    N_info = N_RE R Q_m v is rounded to a size of Table 5.1.3.2-1 up to 3824 bits, and above to one that TS 38.212 5.2.2
    cuts into equal blocks of whole bytes. Raises ValueError for no resource elements.
    """
    if num_resource_elements < 1:
        raise ValueError(f"{num_resource_elements} resource elements carry no transport block; use one or more")
    wanted = num_resource_elements * rate * bits_per_symbol * num_layers
    if wanted <= _LARGEST_SMALL:
        step = 1 << max(3, int(wanted).bit_length() - 1 - 6)
        rounded: int = max(24, step * int(wanted / step))
        return _SMALL_SIZES[bisect_left(_SMALL_SIZES, rounded)]
    step = 1 << (int(wanted - 24).bit_length() - 1 - 5)
    # Halves are rounded up.
    rounded = max(3840, step * int((wanted - 24) / step + Fraction(1, 2)))
    if rate <= Fraction(1, 4):
        blocks = -(-(rounded + 24) // 3816)
    else:
        blocks = -(-(rounded + 24) // 8424) if rounded > 8424 else 1
    return int(8 * blocks * -(-(rounded + 24) // (8 * blocks)) - 24)


def smallest_allocation(payload_bits: int, *, rate: Fraction, bits_per_symbol: int) -> tuple[int, int]:
    """Return (resource elements, transport block size) of the fewest elements of one layer that hold the payload."""

    def size(elements: int) -> int:
        return transport_block_size(elements, rate=rate, bits_per_symbol=bits_per_symbol)

    low, high = 0, 1
    while size(high) < payload_bits:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) < payload_bits else (low, middle)
    return high, size(high)
