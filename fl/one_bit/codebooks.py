"""Random codewords that device and server both draw from the shared seed, Lang et al. 2023 Section 3.1.2.

A codeword v of {-1, +1}^n stands for one block of one device, round and stage. It is a function of the round's key of
`Purpose.CODEBOOK`, the device's number, the block and the stage, and of nothing else: the server draws again what the
device drew. It is kept as a mask, the bit l of which says whether v_l = +1, and never written out entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.tasks.base import LearningError
from phy.random import threefry

UNHEARD = 2
"""Stands for a bit that did not arrive."""

MOST_POINTS = 512
"""Entries of the longest codeword."""

_CELLS_AT_ONCE = 1 << 20
"""Words of 32 bits that one call of compiled code draws."""

_LANES = 64
_MASK_BITS = 32
_LARGEST_TABLE = 1 << 16
_DITHER = np.uint32(1 << 31)

Key = NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True)
class Codebook:
    """How codewords of `num_points` = n entries are drawn.

    `balanced`: uniform over all words with floor(n/2) entries -1 and ceil(n/2) entries +1: n/2 of each for the printed
    form, (n-1)/2 and (n+1)/2 for the coded one. Otherwise every entry is a fair coin.
    """

    num_points: int
    balanced: bool = True

    def __post_init__(self) -> None:
        if not 2 <= self.num_points <= MOST_POINTS:
            raise LearningError(
                f"a codebook of {self.num_points} points is not within 2 to {MOST_POINTS}, one bit of which says "
                "something; raise or lower rate_bits"
            )

    @property
    def num_plus(self) -> int:
        """Entries +1 of a balanced word."""
        return (self.num_points + 1) // 2

    @property
    def correlation(self) -> float:
        """E[v_l v_l'] for l != l': -1/(n-1) for even n, -1/n for odd n, 0 for independent entries."""
        if not self.balanced:
            return 0.0
        n = self.num_points
        return -1.0 / (n - 1) if n % 2 == 0 else -1.0 / n


def codeword_bits(
    codebook: Codebook, levels: NDArray[np.unsignedinteger[Any]], *, key: Key, devices: NDArray[np.int64], stage: int
) -> NDArray[np.uint8]:
    """Which entries of the codewords are +1 at `levels` `[K, num_blocks]`: 0 or 1, uint8 `[K, num_blocks]`.

    `key` `[2]` is the round's key, `devices` `[K]` the devices' numbers. This is Lang et al. 2023 (10).
    """
    out = np.empty(levels.shape, np.uint8)
    for part, halves in _drawn(codebook, levels.shape[1], key=key, devices=devices, stage=stage):
        wanted = _split(_fitted(levels[:, part], (len(levels), 2 * _LANES * halves[0].shape[2])))
        found = [_entries(masks, level) for masks, level in zip(halves, wanted, strict=True)]
        out[:, part] = _joined(found)[:, : part.stop - part.start]
    return out


def signed_histogram(
    codebook: Codebook,
    received: NDArray[np.uint8],
    *,
    worth: NDArray[np.float32],
    key: Key,
    devices: NDArray[np.int64],
    stage: int,
) -> NDArray[np.float64]:
    """sum_k a_k b_ki v_ki over devices, `[n, num_blocks]` float64: the histogram of Lang et al. 2023 (13).

    `received` `[K, num_blocks]` is 1 for b = +1, 0 for b = -1, `UNHEARD` for b = 0; `worth` `[K]` is a. Equal worths
    are counted in whole numbers; others are added in single precision over the devices of one call: hand in some
    hundred at once.
    """
    num_points, heard = codebook.num_points, received != UNHEARD
    out = np.empty((num_points, received.shape[1]), np.float64)
    for part, halves in _drawn(codebook, received.shape[1], key=key, devices=devices, stage=stage):
        bits = _split(_fitted(received[:, part], (len(received), 2 * _LANES * halves[0].shape[2])))
        same = [_agreeing(*pair, num_points=num_points, worth=worth) for pair in zip(halves, bits, strict=True)]
        out[:, part] = _joined(same)[:, : part.stop - part.start]
    # b v is +1 where the two are equal, so that sum a b v = 2 sum over equal ones a - sum over heard ones a.
    out *= 2.0
    out -= _weighed(heard, worth) if not heard.all() else worth.sum(dtype=np.float64)
    return out


def _entries(masks: NDArray[Any], levels: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.uint8]:
    """Bit `levels` `[K, groups, 64]` of `masks` `[num_words, K, groups, 64]`: 0 or 1."""
    own = masks[0]
    for word in range(1, len(masks)):
        own = np.where(levels // _MASK_BITS == word, masks[word], own)
    place = (levels % _MASK_BITS if len(masks) > 1 else levels).astype(masks.dtype, copy=False)
    return np.asarray((own >> place) & masks.dtype.type(1), np.uint8)


def _agreeing(
    masks: NDArray[Any], bits: NDArray[np.uint8], *, num_points: int, worth: NDArray[np.float32]
) -> NDArray[np.float64]:
    """sum_k a_k over the devices whose bit arrived and equals entry l, `[n, groups, 64]`.

    `masks` `[num_words, K, groups, 64]` hold the entries, `bits` `[K, groups, 64]` is as `received`.
    """
    # A bit -1 turns its mask over: then an entry that equals the bit is a 1. Unheard ones become zeros.
    turned = masks ^ (bits.view(np.int8) - np.int8(1)).astype(masks.dtype)
    if (bits == UNHEARD).any():
        turned *= bits != UNHEARD
    out = np.empty((num_points, *bits.shape[1:]), np.float64)
    entry = np.empty(bits.shape, masks.dtype)
    for point in range(num_points):
        word, place = divmod(point, _MASK_BITS)
        np.right_shift(turned[word], masks.dtype.type(place), out=entry)
        entry &= masks.dtype.type(1)
        out[point] = _weighed(entry, worth)
    return out


def _weighed(chosen: NDArray[Any], worth: NDArray[np.float32]) -> NDArray[np.float64]:
    """sum_k a_k of the rows chosen, `chosen` `[K, ...]` of zeros and ones."""
    if (worth == worth[0]).all():
        counts = chosen.sum(axis=0, dtype=np.min_scalar_type(len(worth)))
        return np.asarray(counts * np.float64(worth[0]))
    # Row after row, and not by BLAS, the threads of which would decide on the rounding.
    amounts = chosen * worth.reshape(-1, *(1,) * (chosen.ndim - 1))
    return np.asarray(amounts.sum(axis=0, dtype=np.float32), np.float64)


def codewords(
    codebook: Codebook, *, key: Key, devices: NDArray[np.int64], num_blocks: int, stage: int
) -> NDArray[np.int8]:
    """The codewords themselves, +-1 `[K, num_blocks, n]`: to look at, not to compute with."""
    out = np.empty((len(devices), num_blocks, codebook.num_points), np.int8)
    for part, halves in _drawn(codebook, num_blocks, key=key, devices=devices, stage=stage):
        words = _joined(halves)[..., : part.stop - part.start]
        for point in range(codebook.num_points):
            word, place = divmod(point, _MASK_BITS)
            out[:, part, point] = 2 * ((words[word] >> place) & 1).astype(np.int8) - 1
    return out


def shared_uniforms(*, key: Key, devices: NDArray[np.int64], num_blocks: int, dimension: int) -> NDArray[np.float32]:
    """Multiples of 2^-24 uniform on [0, 1), `[K, num_blocks, dimension]`, from the same seed: the stuff of dither."""
    out = np.empty((len(devices), num_blocks, dimension), np.float32)
    for axis in range(dimension):
        coins = Codebook(num_points=_MASK_BITS, balanced=False)
        for part, halves in _drawn(coins, num_blocks, key=key, devices=devices, stage=int(_DITHER) + axis):
            words = _joined(halves)[0, :, : part.stop - part.start]
            out[:, part, axis] = (words >> np.uint32(8)) * np.float32(2.0**-24)
    return out


def _drawn(
    codebook: Codebook, num_blocks: int, *, key: Key, devices: NDArray[np.int64], stage: int
) -> Iterator[tuple[slice, list[NDArray[Any]]]]:
    """Blocks and the two halves of their masks `[num_words, K, groups, 64]`, part by part; lanes beyond are padding."""
    numbers = _padded(devices)
    for part, groups in _parts(codebook, num_blocks, height=len(numbers)):
        kernel = _mask_kernel(codebook, len(numbers), groups)
        halves = kernel(key, numbers, np.uint32(part.start // 2), np.uint32(stage))
        yield part, [half.numpy()[:, : len(devices)] for half in halves]


def _joined(halves: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Both halves of groups of 128 blocks, `[..., groups, 64]`, in one line `[..., 128 groups]`."""
    whole = np.stack(halves, axis=-2)
    return whole.reshape(*whole.shape[:-3], -1)


def _split(line: NDArray[Any]) -> list[NDArray[Any]]:
    """`_joined` undone."""
    groups = line.reshape(*line.shape[:-1], -1, 2, _LANES)
    return [np.ascontiguousarray(groups[..., half, :]) for half in (0, 1)]


def _padded(devices: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Device numbers, up to a power of two of them: few different shapes, for each is compiled."""
    numbers = np.zeros(1 << max(len(devices) - 1, 0).bit_length(), np.uint32)
    numbers[: len(devices)] = devices
    return numbers


def _parts(codebook: Codebook, num_blocks: int, *, height: int) -> Iterator[tuple[slice, int]]:
    """Blocks that are worked on together, and how many groups of 128 they take: split evenly, all of one shape."""
    num_groups, words = -(-num_blocks // (2 * _LANES)), -(-codebook.num_points // _MASK_BITS)
    most = max(_CELLS_AT_ONCE // (2 * _LANES * height * words), 1)
    groups = -(-num_groups // max(-(-num_groups // most), 1))
    for start in range(0, num_blocks, 2 * _LANES * max(groups, 1)):
        yield slice(start, min(start + 2 * _LANES * groups, num_blocks)), groups


def _fitted(values: NDArray[Any], shape: tuple[int, int]) -> NDArray[Any]:
    """`values` with zeros behind its rows and columns."""
    if values.shape == shape:
        return values
    out = np.zeros(shape, values.dtype)
    out[: values.shape[0], : values.shape[1]] = values
    return out


@lru_cache(maxsize=8)
def _table(codebook: Codebook) -> NDArray[np.uint32] | None:
    """Masks of all balanced words, or None if they are too many to list."""
    n, plus = codebook.num_points, codebook.num_plus
    if n > _MASK_BITS or comb(n, plus) >= _LARGEST_TABLE:
        return None
    return np.array([sum(1 << point for point in word) for word in combinations(range(n), plus)], np.uint32)


def _signature(height: int) -> list[Any]:
    """Key, devices, first counter, stage."""
    import tensorflow as tf

    return [tf.TensorSpec(shape, tf.uint32) for shape in ([2], [height], [], [])]


def _mask_graph(codebook: Codebook, height: int, groups: int) -> Callable[[Any, Any, Any, Any], tuple[Any, Any]]:
    """Masks of the first and the second half of groups of 128 blocks, each `[num_words, height, groups, 64]`.

    Drawn by Threefry with counter (pair of blocks, device), the key folded with (stage, draw). The two words of one
    counter belong to blocks 64 apart, and stay apart: joined by the compiler, both would be drawn twice.
    - Balanced words that can be listed: draw 0 picks one of C by floor(word C / 2^32), uniform to within C 2^-32.
    - Other balanced words: draw j decides entry j, +1 with probability (+1 left) / (entries left).
    - Independent entries: draw i is the mask's word i.
    """
    import tensorflow as tf

    bits = tf.bitwise
    n, num_words = codebook.num_points, -(-codebook.num_points // _MASK_BITS)
    table = _table(codebook) if codebook.balanced else None

    def scaled(word: Any, count: Any) -> Any:
        """floor(word count / 2^32) for counts up to 2^16, in 32 bits."""
        low = bits.right_shift(bits.bitwise_and(word, np.uint32(0xFFFF)) * count, np.uint32(16))
        return bits.right_shift(bits.right_shift(word, np.uint32(16)) * count + low, np.uint32(16))

    def masks(key: Any, devices: Any, first: Any, stage: Any) -> tuple[Any, Any]:
        pair = (tf.cast(tf.range(groups * _LANES), tf.uint32) + first)[None, :]

        def words(draw: Any) -> list[Any]:
            halves = threefry(threefry((key[0], key[1]), (stage, draw), bits), (pair, devices[:, None]), bits)
            return [tf.reshape(half, [height, groups, _LANES]) for half in halves]

        def sequential(first_entry: int, left: list[Any]) -> tuple[list[Any], list[Any]]:
            def step(place: Any, left: list[Any], mask: list[Any]) -> tuple[Any, list[Any], list[Any]]:
                entry = place + np.uint32(first_entry)
                drawn = [scaled(word, np.uint32(n) - entry) for word in words(entry)]
                plus = [tf.cast(one < rest, tf.uint32) for one, rest in zip(drawn, left, strict=True)]
                left = [rest - one for rest, one in zip(left, plus, strict=True)]
                mask = [bits.bitwise_or(old, bits.left_shift(one, place)) for old, one in zip(mask, plus, strict=True)]
                return place + np.uint32(1), left, mask

            size = np.uint32(min(_MASK_BITS, n - first_entry))
            start = (tf.zeros([], tf.uint32), left, [tf.zeros_like(rest) for rest in left])
            _, left, mask = tf.while_loop(lambda place, *_: place < size, step, start)
            return left, mask

        if not codebook.balanced:
            found = [words(np.uint32(word)) for word in range(num_words)]
        elif table is not None:
            picked = [tf.cast(scaled(word, np.uint32(len(table))), tf.int32) for word in words(np.uint32(0))]
            found = [[tf.gather(tf.constant(table), index) for index in picked]]
        else:
            left, found = [tf.fill([height, groups, _LANES], np.uint32(codebook.num_plus))] * 2, []
            for word in range(num_words):
                left, mask = sequential(word * _MASK_BITS, left)
                found.append(mask)
        first_half, second_half = (tf.stack(half) for half in zip(*found, strict=True))
        return first_half, second_half

    return masks


@lru_cache(maxsize=32)
def _mask_kernel(codebook: Codebook, height: int, groups: int) -> Any:
    """`_mask_graph`, compiled, in the narrowest words that hold a mask."""
    import tensorflow as tf

    graph = _mask_graph(codebook, height, groups)
    n = codebook.num_points
    narrow = tf.uint8 if n <= 8 else tf.uint16 if n <= 16 else tf.uint32

    def kernel(*given: Any) -> tuple[Any, ...]:
        return tuple(tf.cast(half, narrow) for half in graph(*given))

    return tf.function(kernel, jit_compile=True, autograph=False, input_signature=_signature(height))
