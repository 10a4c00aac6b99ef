"""One-bit stochastic quantisation, Zhang et al. 2022 (8): words held against the logistic function, in one pass.

Pairs of values of all devices of a trial stand side by side, however few a device has. In single precision almost all
words lie far from their threshold; for the few that do not it is computed as NumPy would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fl.base.arrays import F64, U8, U32, Reals
from fl.schemes.codecs.codec import Encoded
from fl.schemes.codecs.partwise import refuse_infinite_values
from phy.numerics.compiled import inlined, kernel, read_only, shifted_left
from phy.numerics.threefry import draw_listed
from phy.numerics.workers import run_tasks

_WORDS = 2.0**32
_LANES = 256
_MARGIN = np.float32(8192.0)
"""Of 2^32 words. Thresholds err by 5e-7 at most in single precision, words and thresholds are rounded to 2^8: 2600."""
_PER_LN_2 = math.log2(math.e)
_LARGEST_POWER = 126.0
_ONE = np.float32(1.0)
# e^x = 1 + x + x^2 P(x) for |x| <= ln 2 / 2: Cephes `expf` (Moshier), highest power first.
_P5, _P4, _P3 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_P2, _P1, _P0 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
_LN_2 = np.float32(np.log(2.0))


@dataclass(frozen=True, kw_only=True)
class StochasticOneBit:
    """g~ = +1 with probability Phi(g) = 1 / (1 + exp(-a g)), else -1, with a = `slope`.

    The bit 0 stands for +1, as in BPSK. E[g~] = tanh(a g / 2), so decoding keeps the sign and about a/2
    of the size. Every finite value has its probability: nothing is clipped.
    """

    bits_per_value: ClassVar[int] = 1

    slope: float

    def encode(self, values: Reals, *, keys: U32) -> Encoded:
        doubles = values.astype(np.float64, copy=False)
        if not np.isfinite(doubles).all():
            refuse_infinite_values(values)
        payload = stochastic_signs(doubles, slope=self.slope, keys=keys)
        return Encoded(payload=payload, clipped=np.zeros(values.shape[:2], np.int64))

    def decode(self, payload: U8, *, num_values: int) -> F64:
        """See `Codec.decode`; signs in {-1, +1}, float64."""
        signs = np.unpackbits(payload, axis=-1, count=num_values).astype(np.float64)
        signs *= -2.0
        signs += 1.0
        return signs


@inlined
def _split(power: Any) -> Any:
    """The whole number next to a power of two that float32 can hold, and what is left of it."""
    power = min(max(power, -_LARGEST_POWER), _LARGEST_POWER)
    whole = np.rint(power)
    return np.float32(whole), np.float32(power - whole)


@inlined
def _compare(words: Any, whole: Any, rest: Any, bits: Any, count: Any) -> Any:
    """Which words are not below 2^32 / (1 + 2^(whole + rest)); how many are too close to it to tell."""
    close = np.int32(0)
    for i in range(count):
        x = rest[i] * _LN_2
        series = ((((_P5 * x + _P4) * x + _P3) * x + _P2) * x + _P1) * x + _P0
        power = np.int32(np.int32(np.int32(whole[i]) + np.int32(127)) << np.int32(23)).view(np.float32)
        threshold = np.float32(_WORDS) / (_ONE + power * (series * x * x + x + _ONE))
        distance = np.float32(words[i]) - threshold
        bits[i] = np.uint8(distance >= np.float32(0.0))
        close += np.int32(abs(distance) < _MARGIN)
    return close


@inlined
def _bit(word: Any, slope: Any, value: Any) -> Any:
    return np.uint8(np.float64(word) >= 1.0 / (1.0 + np.exp(-slope * value)) * _WORDS)


@inlined
def _next(device: Any, pair: Any, pairs: Any) -> Any:
    pair += np.uint64(1)
    return (device + np.uint64(1), np.uint64(0)) if pair == pairs else (device, pair)


@inlined
def _spread(
    values: Any, factor: Any, sizes: Any, device: Any, pair: Any, lists: Any, whole: Any, rest: Any, count: Any
) -> None:
    """Powers of two of `count` pairs of values from a pair of a device on, and their counters into `lists`.

    The first ones of the pairs stand in front, the second ones `_LANES` behind.
    """
    num_values, pairs = sizes
    places, rows = lists
    for k in range(count):
        i, at = np.uint64(k), device * num_values + pair + pair
        places[i], rows[i] = np.uint32(pair), np.uint32(device)
        whole[i], rest[i] = _split(factor * values[at])
        if pair + pair + np.uint64(1) < num_values:
            there = i + np.uint64(_LANES)
            whole[there], rest[there] = _split(factor * values[at + np.uint64(1)])
        device, pair = _next(device, pair, pairs)


@inlined
def _settle(values: Any, slope: Any, sizes: Any, device: Any, pair: Any, words: Any, bits: Any, count: Any) -> None:
    """The bits once more, in double precision."""
    num_values, pairs = sizes
    for k in range(count):
        i, at = np.uint64(k), device * num_values + pair + pair
        bits[i] = _bit(words[i], slope, values[at])
        if pair + pair + np.uint64(1) < num_values:
            there = i + np.uint64(_LANES)
            bits[there] = _bit(words[there], slope, values[at + np.uint64(1)])
        device, pair = _next(device, pair, pairs)


@inlined
def _place(bits: Any, sizes: Any, device: Any, pair: Any, out: Any, count: Any) -> None:
    """The bits into packed ones, which are zero."""
    num_values, pairs = sizes
    num_bytes = (num_values + np.uint64(7)) // np.uint64(8)
    for k in range(count):
        i = np.uint64(k)
        both = np.uint32(bits[i]) << np.uint32(1)
        if pair + pair + np.uint64(1) < num_values:
            both |= np.uint32(bits[i + np.uint64(_LANES)])
        shift = np.uint32(np.uint32(6) - np.uint32(2) * np.uint32(pair & np.uint64(3)))
        out[device * num_bytes + pair // np.uint64(4)] |= np.uint8(shifted_left(np.uint32(both), shift))
        device, pair = _next(device, pair, pairs)


@kernel
def _draw(values: Any, slope: Any, keys: Any, payload: Any, first: Any, last: Any) -> None:
    """Devices `first` to `last` of all trials, one after the other, into `payload` of zeros."""
    num_devices, num_values = values.shape[1], values.shape[2]
    pairs = (num_values + 1) // 2
    sizes = np.uint64(num_values), np.uint64(pairs)
    lists = np.zeros(_LANES, np.uint32), np.zeros(_LANES, np.uint32)
    words, bits = np.empty(2 * _LANES, np.uint32), np.empty(2 * _LANES, np.uint8)
    whole, rest = np.zeros(2 * _LANES, np.float32), np.zeros(2 * _LANES, np.float32)
    factor = -slope * _PER_LN_2
    row = first
    while row < last:
        trial = row // num_devices
        stop = min((trial + 1) * num_devices, last)
        own, out = values[trial].reshape(-1), payload[trial].reshape(-1)
        begin, end = (row - trial * num_devices) * pairs, (stop - trial * num_devices) * pairs
        for start in range(begin, end, _LANES):
            count, device, pair = min(_LANES, end - start), np.uint64(start // pairs), np.uint64(start % pairs)
            _spread(own, factor, sizes, device, pair, lists, whole, rest, count)
            draw_listed(keys[trial], lists[0], lists[1], words, 0, _LANES, count)
            # Whole vectors: what stands behind the last pair is from before, and does no harm.
            padded = (count + 7) // 8 * 8
            close = _compare(words, whole, rest, bits, padded)
            close += _compare(words[_LANES:], whole[_LANES:], rest[_LANES:], bits[_LANES:], padded)
            if close:
                _settle(own, slope, sizes, device, pair, words, bits, count)
            _place(bits, sizes, device, pair, out, count)
        row = stop


def stochastic_signs(values: F64, *, slope: float, keys: U32) -> U8:
    """Packed bits `[num_trials, num_devices, ceil(n / 8)]` of finite `values` `[num_trials, num_devices, n]`.

    A bit is 0 with probability 1 / (1 + exp(-`slope` g)), by the words that `random.uniform_words` gives for `keys`
    `[num_trials, 2]`.
    """
    num_trials, num_devices, num_values = values.shape
    payload = np.zeros((num_trials, num_devices, -(-num_values // 8)), np.uint8)
    numbers, streams = read_only(values), read_only(keys)
    run_tasks(
        lambda start, stop: _draw(numbers, slope, streams, payload, start, stop),
        num_tasks=num_trials * num_devices,
        cost_us=0.012 * values.size,
    )
    return payload
