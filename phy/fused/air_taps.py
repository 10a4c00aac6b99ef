"""What a device adds to the sum per unit of its symbol: A w h, with the weight w of `phy.power` for its estimate h^.

    A w h = A conj(h^) h / |h^|  or, where channels are inverted,  A conj(h^) h / |h^|^2;   0 where it cuts off;
    a jammer of `phy.jamming` adds sqrt(P0) conj(h^) h / |h^| whatever the others do.

Lanes are those of `phy.fused.taps`, coefficients others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.fused.compiled import inlined, stage
from phy.fused.random import complex_normal, draw_normals, threefry
from phy.fused.taps import (
    CONSTANT,
    KNOWN_IMAG,
    KNOWN_REAL,
    NAKAGAMI,
    OF_TAPS,
    SMALLEST_POWER,
    TAP_IMAG,
    TAP_REAL,
    TILE,
    draw_taps,
    nakagami_tap,
)

_WIDTH = TILE + 16
ADDED_REAL, ADDED_IMAG, SENT_POWER, ACTIVE = (i * _WIDTH for i in range(4))
"""Coefficients behind `OF_TAPS` or `OF_SYMBOLS`: both parts of A w h, |A w|^2, and 1 where w is not 0."""
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)


@inlined
def _added(law: Any, gain: Any, level: Any, jamming: Any, lanes: Any, i: Any) -> Any:
    """Coefficients of the tap of unit mean power and the error of unit power in lane i."""
    real, imag = gain * lanes[TAP_REAL + i], gain * lanes[TAP_IMAG + i]
    known_real = real + gain * law.csi_std * lanes[KNOWN_REAL + i]
    known_imag = imag + gain * law.csi_std * lanes[KNOWN_IMAG + i]
    power = known_real * known_real + known_imag * known_imag
    bounded = max(power, SMALLEST_POWER)
    root = _ONE / np.sqrt(bounded)
    sends = _ZERO if bounded < law.cutoff * gain * gain else _ONE
    honest = sends * level * root * (root if law.inverts else _ONE)
    factor = jamming * root if jamming > _ZERO else honest
    amplitude = factor * power * root  # the square of `factor` alone may overflow in a deep fade
    added_real = factor * (real * known_real + imag * known_imag)
    return added_real, factor * (imag * known_real - real * known_imag), amplitude * amplitude, sends


@stage
def added_at_positions(
    law: Any, keys: Any, device: Any, gain: Any, level: Any, jamming: Any, first: Any, lanes: Any, count: Any
) -> None:
    """Coefficients of taps number `first` on of one device, `count` of them, behind `OF_TAPS`.

    `keys` `[>= 4]` uint32 are those of taps and of channel knowledge.
    """
    draw_taps(law, keys[0:2], device, first, 1, lanes, count)
    if law.perfect_csi:
        lanes[KNOWN_REAL : KNOWN_REAL + count] = _ZERO
        lanes[KNOWN_IMAG : KNOWN_IMAG + count] = _ZERO
    else:
        draw_normals(keys[2:4], device, first, 1, lanes, KNOWN_REAL, KNOWN_IMAG, count)
    for i in range(count):
        real, imag, power, sends = _added(law, gain, level, jamming, lanes, i)
        lanes[OF_TAPS + ADDED_REAL + i] = real
        lanes[OF_TAPS + ADDED_IMAG + i] = imag
        lanes[OF_TAPS + SENT_POWER + i] = power
        lanes[OF_TAPS + ACTIVE + i] = sends


@stage
def _draw_normals(key: Any, first: Any, lanes: Any, real_at: Any, imag_at: Any, count: Any) -> None:
    """CN(0, 1) of devices `first` to `first + count`, each at its position 0."""
    key0, key1 = np.uint32(key[0]), np.uint32(key[1])
    for i in range(count):
        word0, word1 = threefry(key0, key1, np.uint32(0), np.uint32(np.uint32(first) + np.uint32(i)))
        real, imag = complex_normal(word0, word1)
        lanes[real_at + i] = real
        lanes[imag_at + i] = imag


@stage
def _draw_taps(law: Any, key: Any, first: Any, lanes: Any, count: Any) -> None:
    """The first tap, of unit mean power, of devices `first` to `first + count`."""
    if law.fading == CONSTANT:
        lanes[TAP_REAL : TAP_REAL + count] = _ONE
        lanes[TAP_IMAG : TAP_IMAG + count] = _ZERO
    elif law.fading == NAKAGAMI:
        key0, key1 = np.uint32(key[0]), np.uint32(key[1])
        for i in range(count):
            word0, word1 = threefry(key0, key1, np.uint32(0), np.uint32(np.uint32(first) + np.uint32(i)))
            real, imag = nakagami_tap(word0, word1, law.pieces)
            lanes[TAP_REAL + i] = real
            lanes[TAP_IMAG + i] = imag
    else:
        _draw_normals(key, first, lanes, TAP_REAL, TAP_IMAG, count)
        for i in range(count):
            lanes[TAP_REAL + i] = law.fixed_part + law.scattered_part * lanes[TAP_REAL + i]
            lanes[TAP_IMAG + i] *= law.scattered_part


@stage
def added_by_devices(
    law: Any, keys: Any, gains: Any, level: Any, jamming: Any, lanes: Any, out: Any, first: Any, count: Any
) -> None:
    """Coefficients of the first taps of devices `first` to `first + count` into `out` `[4, devices]`.

    `gains` and `jamming` are of all devices; `count` is at most `TILE`.
    """
    _draw_taps(law, keys[0:2], first, lanes, count)
    if law.perfect_csi:
        lanes[KNOWN_REAL : KNOWN_REAL + count] = _ZERO
        lanes[KNOWN_IMAG : KNOWN_IMAG + count] = _ZERO
    else:
        _draw_normals(keys[2:4], first, lanes, KNOWN_REAL, KNOWN_IMAG, count)
    for i in range(count):
        device = first + i
        real, imag, power, sends = _added(law, gains[device], level, jamming[device], lanes, i)
        out[0, device] = real
        out[1, device] = imag
        out[2, device] = power
        out[3, device] = sends
