"""Contribution of a device to the sum per unit of its symbol: A w h, with the weight w of `power` for h^.

    A w h = A conj(h^) h / |h^|  or, where channels are inverted,  A conj(h^) h / |h^|^2;   0 where it cuts off;
    a jammer of `phy.links.jamming` adds sqrt(P0) conj(h^) h / |h^| whatever the others do, a silent device nothing.

Lanes are those of `phy.engines.fused.flat.taps`, coefficients others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.engines.fused.flat.lanes import KNOWN_IMAG, KNOWN_REAL, TAP_IMAG, TAP_REAL, TILE
from phy.engines.fused.flat.taps import SMALLEST_POWER, draw_known
from phy.numerics.compiled import inlined, spliced
from phy.numerics.threefry import devices, positions

_WIDTH = TILE + 16
ADDED_REAL, ADDED_IMAG, SENT_POWER, ACTIVE = (i * _WIDTH for i in range(4))
"""Coefficients behind `OF_TAPS` or `OF_SYMBOLS`: both parts of A w h, |A w|^2, and 1 where w is not 0."""
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)


@inlined
def added(law: Any, gain: Any, level: Any, own: Any, tap: Any, error: Any) -> Any:
    """Coefficients of a tap of unit mean power, known with an error of unit power times `law.csi_std`."""
    real, imag = gain * tap[0], gain * tap[1]
    known_real, known_imag = real + gain * law.csi_std * error[0], imag + gain * law.csi_std * error[1]
    power = known_real * known_real + known_imag * known_imag
    bounded = max(power, SMALLEST_POWER)
    root = _ONE / np.sqrt(bounded)
    sends = _ZERO if bounded < law.cutoff * gain * gain or own < _ZERO else _ONE
    honest = sends * level * root * (root if law.inverts else _ONE)
    factor = own * root if own > _ZERO else honest
    amplitude = factor * power * root  # the square of `factor` alone may overflow in a deep fade
    added_real = factor * (real * known_real + imag * known_imag)
    return added_real, factor * (imag * known_real - real * known_imag), amplitude * amplitude, sends


@inlined
def _added(law: Any, gain: Any, level: Any, own: Any, lanes: Any, i: Any) -> Any:
    """`added` of the tap and the error in lane i."""
    tap, error = (lanes[TAP_REAL + i], lanes[TAP_IMAG + i]), (lanes[KNOWN_REAL + i], lanes[KNOWN_IMAG + i])
    return added(law, gain, level, own, tap, error)


@inlined
def _of_positions(law: Any, gain: Any, level: Any, own: Any, lanes: Any, at: Any, count: Any) -> None:
    out = np.uint64(at)
    for i in range(count):
        real, imag, power, sends = _added(law, gain, level, own, lanes, i)
        lanes[out + np.uint64(ADDED_REAL + i)] = real
        lanes[out + np.uint64(ADDED_IMAG + i)] = imag
        lanes[out + np.uint64(SENT_POWER + i)] = power
        lanes[out + np.uint64(ACTIVE + i)] = sends


@inlined
def _as_given(given: Any, first: Any, lanes: Any, at: Any, count: Any) -> None:
    """Coefficients `[4, taps]` of taps number `first` on of one device, `count` of them, from `lanes[at]` on."""
    out = np.uint64(at)
    for i in range(count):
        lanes[out + np.uint64(ADDED_REAL + i)] = given[0, first + i]
        lanes[out + np.uint64(ADDED_IMAG + i)] = given[1, first + i]
        lanes[out + np.uint64(SENT_POWER + i)] = given[2, first + i]
        lanes[out + np.uint64(ACTIVE + i)] = given[3, first + i]


@spliced
def added_at_positions(
    law: Any, table: Any, errors: Any, keys: Any, device: Any, gain: Any, level: Any, own: Any, first: Any, words: Any,
    lanes: Any, at: Any, count: Any,
) -> None:  # fmt: skip
    """Coefficients of taps number `first` on of one device, `count` of them, from `lanes[at]` on.

    Arguments up to `keys`, `words` and `lanes` are those of `draw_known`.
    """
    draw_known(law, table, errors, keys, positions(device, first, 1), words, lanes, count)
    _of_positions(law, gain, level, own, lanes, at, count)


@spliced
def added_taps(
    law: Any, table: Any, errors: Any, keys: Any, device: Any, gains: Any, level: Any, own: Any, given: Any, first: Any,
    words: Any, lanes: Any, at: Any, count: Any,
) -> None:  # fmt: skip
    """`added_at_positions`, or of several antennas the coefficients `given` `[4, devices, taps]`, if there are any.

    `gains` and `own` are those of all devices.
    """
    if given.shape[2] > 0:
        _as_given(given[:, device], first, lanes, at, count)
    else:
        added_at_positions(
            law, table, errors, keys, np.uint32(device), gains[device], level, own[device], first, words, lanes, at,
            count,
        )  # fmt: skip


@inlined
def _of_devices(law: Any, gains: Any, level: Any, own: Any, lanes: Any, out: Any, first: Any, count: Any) -> None:
    for i in range(count):
        device = first + i
        real, imag, power, sends = _added(law, gains[device], level, own[device], lanes, i)
        out[0, device] = real
        out[1, device] = imag
        out[2, device] = power
        out[3, device] = sends


@spliced
def added_by_devices(
    law: Any, table: Any, errors: Any, keys: Any, gains: Any, level: Any, own: Any, words: Any, lanes: Any, out: Any,
    first: Any, count: Any,
) -> None:  # fmt: skip
    """Coefficients of the first taps of devices `first` to `first + count` into `out` `[4, devices]`.

    `gains` and `own` are of all devices; `count` is at most `TILE`.
    """
    draw_known(law, table, errors, keys, devices(first), words, lanes, count)
    _of_devices(law, gains, level, own, lanes, out, first, count)
