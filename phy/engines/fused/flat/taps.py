"""Flat fading inside kernels: taps, estimates and precoding as `block_taps` has them, and what they do to a symbol.

With h the tap, h^ its estimate, w the weight of `power` and A its level, the receiver divides by A w h^, which is
real: w turns by -arg h^. What stands before the decision is therefore

    y / (A w h^) = (h / h^) x + q z,    q = sigma / (A |w h^|),    z ~ CN(0, 1),

one complex and one real coefficient per tap. A device that cuts a symbol off (w = 0) leaves noise alone.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.engines.fused.fading.quantiles import NO_TABLE, amplitude_of, find_piece
from phy.engines.fused.flat.lanes import (
    COEFFICIENTS,
    FADED_POWER,
    KNOWN_IMAG,
    KNOWN_REAL,
    LANE,
    NOISE_SCALE,
    OF_SYMBOLS,
    OF_TAPS,
    SENT_POWER,
    TAP_IMAG,
    TAP_REAL,
    TURN_IMAG,
    TURN_REAL,
)
from phy.fading.block_taps import Fading, FlatChannel, Numbers
from phy.fading.quantile_table import quantile_table
from phy.numerics.compiled import inlined, spliced
from phy.numerics.random_kernels import cosine_and_sine, draw_normals, normals_of_words
from phy.numerics.threefry import draw_lanes

_CONSTANT, _NORMAL, _TABLE = range(3)
"""Ways to draw taps: none, a fixed path and scattered ones, or a table of quantiles."""

_PART, _PIECE = KNOWN_REAL, KNOWN_IMAG
"""Places in a table, before channel knowledge is drawn."""
SMALLEST_POWER = np.float32(1e-30)
_ENDLESS = 1 << 31
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class TapLaw(NamedTuple):
    """Law of the taps in numbers for a kernel; another value needs no new compilation."""

    kind: int
    perfect_csi: bool
    inverts: bool
    """True if |w| is 1 / |h^|, False if it is 1."""
    fixed_part: np.float32
    """sqrt(K / (K + 1))."""
    scattered_part: np.float32
    csi_std: np.float32
    cutoff: np.float32
    """Smallest |h^|^2 over gain^2 at which a device sends; 0 without a cutoff."""
    noise_std: np.float32
    block_symbols: int
    table: NDArray[np.float32]


def tap_law(channel: FlatChannel) -> TapLaw:
    """The law of a compiled channel."""
    return _law(channel.spec, channel.numbers, channel.varies)


@lru_cache(maxsize=64)
def _law(spec: Fading, numbers: Numbers, varies: bool) -> TapLaw:
    k = (numbers.law.rician_k or 0.0) if numbers.law.fades else 0.0
    return TapLaw(
        kind={"constant": _CONSTANT, "table": _TABLE}.get(spec.kind, _NORMAL),
        perfect_csi=spec.perfect_csi,
        inverts=spec.policy.kernel == "inverse",
        fixed_part=np.float32((k / (k + 1.0)) ** 0.5),
        scattered_part=np.float32((1.0 / (k + 1.0)) ** 0.5),
        csi_std=np.float32(numbers.csi_std),
        cutoff=np.float32(numbers.cutoff if spec.policy.silences else 0.0),
        noise_std=np.float32(numbers.noise_std),
        block_symbols=numbers.block_symbols if varies else _ENDLESS,
        table=quantile_table(numbers.law) if spec.kind == "table" else NO_TABLE,
    )


def parts_of(law: TapLaw) -> tuple[NDArray[np.float32] | None, bool | None]:
    """The table of a law, and a mark of errors in channel knowledge; None without: numba leaves out what is behind."""
    return law.table if law.kind == _TABLE else None, None if law.perfect_csi else True


# In three loops: LLVM makes no vectors of a loop that reads a table where it does not know.


@inlined
def _find_pieces(lanes: Any, count: Any) -> None:
    """Piece of the table and place in it of every first word."""
    for i in range(count):
        part, row = find_piece(np.float32(lanes[TAP_REAL + i]).view(np.uint32))
        lanes[_PART + i] = part
        lanes[_PIECE + i] = np.uint32(row).view(np.float32)


@inlined
def _look_up(table: Any, lanes: Any, count: Any) -> None:
    """Amplitudes in the place of first words."""
    for i in range(count):
        row = np.uint64(np.float32(lanes[_PIECE + i]).view(np.uint32))
        lanes[TAP_REAL + i] = amplitude_of(table, row, lanes[_PART + i])


@inlined
def _turn(lanes: Any, count: Any) -> None:
    """Amplitudes turned by second words."""
    for i in range(count):
        cosine, sine = cosine_and_sine(np.float32(lanes[TAP_IMAG + i]).view(np.uint32))
        amplitude = lanes[TAP_REAL + i]
        lanes[TAP_REAL + i] = amplitude * cosine
        lanes[TAP_IMAG + i] = amplitude * sine


@inlined
def _scatter(fixed_part: Any, scattered_part: Any, lanes: Any, count: Any) -> None:
    for i in range(count):
        lanes[TAP_REAL + i] = fixed_part + scattered_part * lanes[TAP_REAL + i]
        lanes[TAP_IMAG + i] *= scattered_part


@inlined
def _fill(real: Any, lanes: Any, real_at: Any, imag_at: Any, count: Any) -> None:
    one, two = np.uint64(real_at), np.uint64(imag_at)
    for i in range(count):
        lanes[one + np.uint64(i)] = real
        lanes[two + np.uint64(i)] = _ZERO


@inlined
def has_radius(law: Any) -> Any:
    """True for Rayleigh fading with perfect channel knowledge and |w| = 1: one word of a tap says |h|."""
    fixed = law.fixed_part == _ZERO and law.perfect_csi
    return law.kind == _NORMAL and fixed and not law.inverts and law.cutoff == _ZERO


@spliced
def draw_taps(law: Any, keys: Any, counters: Any, words: Any, count: Any) -> None:
    """Random words of taps, of the counters that `draw_known` takes."""
    if law.kind != _CONSTANT:
        draw_lanes((keys[0], keys[1]), counters, words, TAP_REAL, TAP_IMAG, count)


@spliced
def taps_of_words(law: Any, table: Any, lanes: Any, count: Any) -> None:
    """Taps of unit mean power in the place of their words."""
    if table is not None:
        _find_pieces(lanes, count)
        _look_up(table, lanes, count)
        _turn(lanes, count)
    elif law.kind == _CONSTANT:
        _fill(_ONE, lanes, TAP_REAL, TAP_IMAG, count)
    else:
        normals_of_words(lanes, TAP_REAL, TAP_IMAG, count)
        _scatter(law.fixed_part, law.scattered_part, lanes, count)


@spliced
def draw_errors(errors: Any, keys: Any, counters: Any, words: Any, lanes: Any, count: Any) -> None:
    """Errors of unit power in what is known of the taps; zero where `errors` is None."""
    if errors is not None:
        draw_normals((keys[2], keys[3]), counters, words, lanes, KNOWN_REAL, KNOWN_IMAG, count)
    else:
        _fill(_ZERO, lanes, KNOWN_REAL, KNOWN_IMAG, count)


@spliced
def draw_known(law: Any, table: Any, errors: Any, keys: Any, counters: Any, words: Any, lanes: Any, count: Any) -> None:
    """Taps of unit mean power of `count` counters, and the errors of unit power in what is known of them.

    Counters are those that `phy.numerics.threefry.draw_lanes` takes, `keys` `[>= 4]` uint32 those of taps and of
    channel knowledge; `words` is `lanes` seen as uint32, `table` and `errors` are `parts_of` the law.
    """
    draw_taps(law, keys, counters, words, count)
    taps_of_words(law, table, lanes, count)
    draw_errors(errors, keys, counters, words, lanes, count)


@spliced
def coefficient(law: Any, gain: Any, level: Any, taps: Any) -> Any:
    """(q, both parts of h / h^, |A w|, |h|^2) of one tap and its error in h^, `taps` (h, error), both parts."""
    tap_real, tap_imag, error_real, error_imag = taps
    real, imag = gain * tap_real, gain * tap_imag
    known_real = real + gain * law.csi_std * error_real
    known_imag = imag + gain * law.csi_std * error_imag
    power = known_real * known_real + known_imag * known_imag
    bounded = max(power, SMALLEST_POWER)
    root = _ONE / math.sqrt(bounded)
    # |A w| / |h^|, with |w| = 1 or 1 / |h^|.
    factor = level * root * (root if law.inverts else _ONE)
    factor = _ZERO if bounded < law.cutoff * gain * gain else factor
    reached = factor * power
    # Where nothing was sent the receiver decides on noise, as on a reference of one.
    inverse = _ONE / (reached if reached > _ZERO else _ONE)
    turn = factor * inverse
    amplitude = reached * root  # the square of `factor` alone may overflow in a deep fade
    return (
        law.noise_std * inverse,
        turn * (real * known_real + imag * known_imag),
        turn * (imag * known_real - real * known_imag),
        amplitude,
        real * real + imag * imag,
    )


@inlined
def coefficients(law: Any, gain: Any, level: Any, lanes: Any, at: Any, count: Any) -> None:
    """Coefficients of the taps that `draw_known` has drawn, `count` of them, from `lanes[at]` on."""
    out = np.uint64(at)
    for i in range(count):
        taps = lanes[TAP_REAL + i], lanes[TAP_IMAG + i], lanes[KNOWN_REAL + i], lanes[KNOWN_IMAG + i]
        scale, turn_real, turn_imag, amplitude, tap_power = coefficient(law, gain, level, taps)
        lanes[out + np.uint64(NOISE_SCALE + i)] = scale
        lanes[out + np.uint64(TURN_REAL + i)] = turn_real
        lanes[out + np.uint64(TURN_IMAG + i)] = turn_imag
        lanes[out + np.uint64(SENT_POWER + i)] = amplitude * amplitude
        lanes[out + np.uint64(FADED_POWER + i)] = amplitude * amplitude * tap_power


@inlined
def expand(first_tap: Any, block: Any, base: Any, stride: Any, lanes: Any, count: Any) -> None:
    """Coefficients of taps to the symbols base, base + stride, ... of their coherence blocks.

    `OF_TAPS` holds those of the blocks from `first_tap` on.
    """
    i = 0
    while i < count:
        tap = (base + i * stride) // block - first_tap
        stop = min(((first_tap + tap + 1) * block - base + stride - 1) // stride, count)
        for lane in range(0, COEFFICIENTS, LANE):
            value = lanes[OF_TAPS + lane + tap]
            for k in range(i, stop):
                lanes[np.uint64(OF_SYMBOLS + lane + k)] = value
        i = stop
