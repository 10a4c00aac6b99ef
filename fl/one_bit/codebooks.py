"""Random codewords that device and server both draw from the shared seed, Lang et al. 2023 Section 3.1.2.

A codeword v of {-1, +1}^n stands for one block of one device, round and stage. It is a function of the round's key of
`Purpose.CODEBOOK`, the device's number, the block and the stage, and of nothing else: the server draws again what the
device drew. It is kept as a mask, the bit l of which says whether v_l = +1, and never written out entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

_CELLS_AT_ONCE = 1 << 20
"""Words of 32 bits that one call of compiled code draws."""

_LANES = 64
_MASK_BITS = 32
_LARGEST_TABLE = 1 << 16
_MOST_POINTS = 512
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
        if not 2 <= self.num_points <= _MOST_POINTS:
            raise LearningError(
                f"a codebook of {self.num_points} points is not within 2 to {_MOST_POINTS}, one bit of which says "
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
    numbers = _padded(devices)
    for part, groups in _parts(codebook, levels.shape[1], height=len(numbers)):
        fitted = _fitted(levels[:, part].astype(np.uint16, copy=False), (len(numbers), 2 * _LANES * groups))
        first = np.uint32(part.start // 2)
        found = _entry_kernel(codebook, len(numbers), groups)(key, numbers, first, np.uint32(stage), fitted).numpy()
        out[:, part] = found[: len(out), : part.stop - part.start]
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

    `received` `[K, num_blocks]` is 1 for b = +1, 0 for b = -1, `UNHEARD` for b = 0; `worth` `[K]` is a. Sums run in
    single precision over the devices of one call: hand in some hundred at once.
    """
    heard = received != UNHEARD
    # b v is +1 where the two are equal, so that sum a b v = 2 sum over equal ones a - sum over heard ones a.
    total = (heard * worth[:, None]).sum(axis=0) if not heard.all() else np.full(received.shape[1], worth.sum())
    out = np.empty((codebook.num_points, received.shape[1]), np.float64)
    for part, masks in _drawn(codebook, received.shape[1], key=key, devices=devices, stage=stage):
        bits = received[:, part]
        words = masks.numpy()[:, : bits.shape[0], : bits.shape[1]]
        for point in range(codebook.num_points):
            amounts = (_entry(words, point) == bits).astype(np.float32)
            amounts *= worth[:, None]
            # Row after row, and not by BLAS, the threads of which would decide on the rounding.
            out[point, part] = 2.0 * amounts.sum(axis=0, dtype=np.float32) - total[part]
    return out


def codewords(
    codebook: Codebook, *, key: Key, devices: NDArray[np.int64], num_blocks: int, stage: int
) -> NDArray[np.int8]:
    """The codewords themselves, +-1 `[K, num_blocks, n]`: to look at, not to compute with."""
    out = np.empty((len(devices), num_blocks, codebook.num_points), np.int8)
    for part, masks in _drawn(codebook, num_blocks, key=key, devices=devices, stage=stage):
        words = masks.numpy()[:, : out.shape[0], : part.stop - part.start]
        for point in range(codebook.num_points):
            out[:, part, point] = 2 * _entry(words, point).astype(np.int8) - 1
    return out


def shared_uniforms(*, key: Key, devices: NDArray[np.int64], num_blocks: int, dimension: int) -> NDArray[np.float32]:
    """Multiples of 2^-24 uniform on [0, 1), `[K, num_blocks, dimension]`, from the same seed: the stuff of dither."""
    out = np.empty((len(devices), num_blocks, dimension), np.float32)
    for axis in range(dimension):
        coins = Codebook(num_points=_MASK_BITS, balanced=False)
        for part, masks in _drawn(coins, num_blocks, key=key, devices=devices, stage=int(_DITHER) + axis):
            words = masks[0].numpy()[: out.shape[0], : part.stop - part.start]
            out[:, part, axis] = (words >> np.uint32(8)) * np.float32(2.0**-24)
    return out


def _drawn(
    codebook: Codebook, num_blocks: int, *, key: Key, devices: NDArray[np.int64], stage: int
) -> Iterator[tuple[slice, Any]]:
    """Blocks and masks `[num_words, height, width]` (tensor), part by part; rows and columns beyond are padding."""
    numbers = _padded(devices)
    for part, groups in _parts(codebook, num_blocks, height=len(numbers)):
        kernel = _mask_kernel(codebook, len(numbers), groups)
        yield part, kernel(key, numbers, np.uint32(part.start // 2), np.uint32(stage))


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


def _entry(words: NDArray[np.uint32], point: int) -> NDArray[np.uint8]:
    """Bit `point` of masks `[num_words, ...]`."""
    word, bit = divmod(point, _MASK_BITS)
    return np.asarray((words[word] >> np.uint32(bit)).astype(np.uint8) & np.uint8(1))


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


def _mask_graph(codebook: Codebook, height: int, groups: int) -> Callable[[Any, Any, Any, Any], Any]:
    """Masks `[num_words, height, 128 groups]`, drawn by Threefry with counter (pair of blocks, device).

    The key is folded with (stage, draw). The two words of one counter belong to blocks 64 apart.
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

    def masks(key: Any, devices: Any, first: Any, stage: Any) -> Any:
        pair = (tf.cast(tf.range(groups * _LANES), tf.uint32) + first)[None, :]

        def words(draw: Any) -> Any:
            halves = threefry(threefry((key[0], key[1]), (stage, draw), bits), (pair, devices[:, None]), bits)
            lanes = [tf.reshape(half, [height, groups, _LANES]) for half in halves]
            return tf.reshape(tf.stack(lanes, axis=2), [height, 2 * _LANES * groups])

        def sequential(first_entry: int, left: Any) -> tuple[Any, Any]:
            def step(place: Any, left: Any, mask: Any) -> tuple[Any, Any, Any]:
                entry = place + np.uint32(first_entry)
                plus = tf.cast(scaled(words(entry), np.uint32(n) - entry) < left, tf.uint32)
                return place + np.uint32(1), left - plus, bits.bitwise_or(mask, bits.left_shift(plus, place))

            size = np.uint32(min(_MASK_BITS, n - first_entry))
            start = (tf.zeros([], tf.uint32), left, tf.zeros_like(left))
            _, left, mask = tf.while_loop(lambda place, *_: place < size, step, start)
            return left, mask

        if not codebook.balanced:
            return tf.stack([words(np.uint32(word)) for word in range(num_words)])
        if table is not None:
            index = tf.cast(scaled(words(np.uint32(0)), np.uint32(len(table))), tf.int32)
            return tf.gather(tf.constant(table), index)[None]
        left = tf.fill([height, 2 * _LANES * groups], np.uint32(codebook.num_plus))
        out = []
        for word in range(num_words):
            left, mask = sequential(word * _MASK_BITS, left)
            out.append(mask)
        return tf.stack(out)

    return masks


@lru_cache(maxsize=32)
def _mask_kernel(codebook: Codebook, height: int, groups: int) -> Any:
    """`_mask_graph`, compiled."""
    import tensorflow as tf

    graph = _mask_graph(codebook, height, groups)
    return tf.function(graph, jit_compile=True, autograph=False, input_signature=_signature(height))


@lru_cache(maxsize=32)
def _entry_kernel(codebook: Codebook, height: int, groups: int) -> Any:
    """Bit `level` of the masks that are drawn, uint8 `[height, 128 groups]`."""
    import tensorflow as tf

    bits, graph = tf.bitwise, _mask_graph(codebook, height, groups)

    def kernel(key: Any, devices: Any, first: Any, stage: Any, levels: Any) -> Any:
        masks = graph(key, devices, first, stage)
        level = tf.cast(levels, tf.uint32)
        word = bits.right_shift(level, np.uint32(5))
        mask = masks[0]
        for other in range(1, masks.shape[0]):
            mask = tf.where(word == np.uint32(other), masks[other], mask)
        found = bits.right_shift(mask, bits.bitwise_and(level, np.uint32(_MASK_BITS - 1)))
        return tf.cast(bits.bitwise_and(found, np.uint32(1)), tf.uint8)

    signature = [*_signature(height), tf.TensorSpec([height, 2 * _LANES * groups], tf.uint16)]
    return tf.function(kernel, jit_compile=True, autograph=False, input_signature=signature)
