"""Gray labels to amplitudes and back by arithmetic, one axis at a time, for every constellation of `modulation`.

Square QAM of TS 38.211 5.1 is one Gray-labelled PAM per axis: bits 0, 2, .. of the label on the real, 1, 3, .. on the
imaginary axis. Counted from the largest amplitude down, the k bits of level i are i ^ (i >> 1) ^ (2^(k-1) - 1), so that

    x = (2^k - 1 - 2 i) d,    i^ = round((2^k - 1 - x^ / d) / 2), clipped,

is the constellation and its nearest point. BPSK is the real axis alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phy.config import BITS_PER_SYMBOL
from phy.numerics.compiled import inlined, shifted_left, shifted_right

_HALF, _ZERO = np.float32(0.5), np.float32(0.0)


class Mapping(NamedTuple):
    """A constellation of unit mean energy in numbers that a kernel takes.

    Symbols are taken in groups that fill whole bytes: `symbols_per_group` in `bytes_per_group`.
    """

    bits_per_symbol: int
    symbols_per_group: int
    bytes_per_group: int
    label_mask: np.uint32
    real_shift: np.uint32
    """Places by which a label is shifted to have the bits of the real axis at even places."""
    imag_mask: np.uint32
    flip: np.uint32
    top: np.float32
    """(2^k - 1) / 2: half the largest amplitude, in units of d."""
    spacing: np.float32
    """2 d."""
    per_spacing: np.float32
    """1 / (2 d)."""


def mapping(modulation: str) -> Mapping:
    """The constellation of a name in `phy.config.BITS_PER_SYMBOL`."""
    bits = BITS_PER_SYMBOL[modulation]
    per_axis = max(bits // 2, 1)
    levels = 1 << per_axis
    # Mean energy of a PAM of spacing 2 d is d^2 (L^2 - 1) / 3, once or once per axis.
    distance = (3.0 / ((levels**2 - 1) * (1 if bits == 1 else 2))) ** 0.5
    group_bits = int(np.lcm(bits, 8))
    return Mapping(
        bits_per_symbol=bits,
        symbols_per_group=group_bits // bits,
        bytes_per_group=group_bits // 8,
        label_mask=np.uint32((1 << bits) - 1),
        real_shift=np.uint32(bits > 1),
        imag_mask=np.uint32(0 if bits == 1 else 0xFF),
        flip=np.uint32(levels // 2 - 1),
        top=np.float32((levels - 1) / 2.0),
        spacing=np.float32(2.0 * distance),
        per_spacing=np.float32(0.5 / distance),
    )


@inlined
def _even_bits(label: Any) -> Any:
    """Bits 0, 2, 4, 6 of the label, side by side."""
    x = np.uint32(label & np.uint32(0x55))
    x = np.uint32(np.uint32(x | np.uint32(x >> np.uint32(1))) & np.uint32(0x33))
    return np.uint32(np.uint32(x | np.uint32(x >> np.uint32(2))) & np.uint32(0x0F))


@inlined
def _spread_bits(bits: Any) -> Any:
    """Inverse of `_even_bits`."""
    x = np.uint32(np.uint32(bits | np.uint32(bits << np.uint32(2))) & np.uint32(0x33))
    return np.uint32(np.uint32(x | np.uint32(x << np.uint32(1))) & np.uint32(0x55))


@inlined
def _level_of(gray: Any, flip: Any) -> Any:
    x = np.uint32(gray ^ flip)
    x = np.uint32(x ^ np.uint32(x >> np.uint32(1)))
    return np.uint32(x ^ np.uint32(x >> np.uint32(2)))


@inlined
def modulate(label: Any, points: Any) -> Any:
    """(real, imaginary) part of the symbol of a label, float32."""
    real = _level_of(_even_bits(shifted_right(label, points.real_shift)), points.flip)
    x = (points.top - np.float32(np.int32(real))) * points.spacing
    if points.imag_mask == np.uint32(0):
        return x, _ZERO
    imag = _level_of(_even_bits(label), points.flip)
    return x, (points.top - np.float32(np.int32(imag))) * points.spacing


@inlined
def modulate_signs(label: Any, points: Any) -> Any:
    """`modulate` where an axis has one bit: BPSK and QPSK."""
    real = np.uint32(shifted_right(label, points.real_shift) & np.uint32(1))
    imag = np.uint32(label & np.uint32(1))
    y = (_HALF - np.float32(np.int32(imag))) * points.spacing
    return (_HALF - np.float32(np.int32(real))) * points.spacing, _ZERO if points.imag_mask == np.uint32(0) else y


@inlined
def _nearest(value: Any, points: Any) -> Any:
    place = points.top - value * points.per_spacing
    level = np.uint32(np.int32(min(max(place, _ZERO), points.top + points.top) + _HALF))
    return np.uint32(np.uint32(level ^ np.uint32(level >> np.uint32(1))) ^ points.flip)


@inlined
def decide(real: Any, imag: Any, points: Any) -> Any:
    """Label of the constellation point nearest to an equalised symbol."""
    label = shifted_left(_spread_bits(_nearest(real, points)), points.real_shift)
    return np.uint32(label | np.uint32(_spread_bits(_nearest(imag, points)) & points.imag_mask))


@inlined
def decide_signs(real: Any, imag: Any, points: Any) -> Any:
    """`decide` where an axis has one bit: the quadrant, or the half plane."""
    label = shifted_left(np.uint32(real < _ZERO), points.real_shift)
    return np.uint32(label | np.uint32(np.uint32(imag < _ZERO) & points.imag_mask))
