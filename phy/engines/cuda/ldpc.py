"""5G LDPC codes on a GPU, by the equations of `phy.coding.ldpc`: a block of threads is a code word, a thread a lane.

A layer has one edge per column, so that a thread alone reads and writes its lane's posteriors of a layer. Threads wait
for each other between layers only. Posteriors are in shared memory. A thread keeps its messages of a layer in two
words: the sign of each message, whether its magnitude is that to the nearest edges, and the two magnitudes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, int8

from phy.coding.ldpc.decoder import INPUT_MAX, MAGNITUDE_MAX, MESSAGE_MAX, STEPS
from phy.coding.ldpc.plan import CORE_LAYERS, LdpcPlan
from phy.engines.cuda.compiled import gpu_kernel
from phy.engines.cuda.memory import on_gpu

_MOST_EDGES, _MOST_LAYERS, _MOST_BITS = 316, 46, 68 * 384
"""Of base graph 1. Its layers have 19 edges at most."""
_MAGNITUDE = np.uint32(24)
"""Place of a magnitude in a word, above a bit for each edge."""
_NONE, _ONE = np.uint32(0), np.uint32(1)
_KNOWN = np.int8(127)
_TO_INTEGER = np.float32(12582912.0)
"""1.5 * 2^23: a small float32 added to it is rounded to an integer, halves to even ones, as by `rint`."""


class Code(NamedTuple):
    """A code on the GPU: `plan`'s numbers and arrays.

    `edge`: place of the bit of lane 0 times 512, plus the first lane whose bit is at the column's beginning again.
    `unpaired`: shift that is left in the sum of the core layers; see `phy.coding.ldpc.encoder`.
    """

    size: int
    information: int
    unpaired: int
    block_bits: int
    num_bits: int
    """Of a code word, punctured and filler bits included: bytes of its posteriors."""
    layer_start: Any
    edge: Any
    column: Any
    shift: Any
    sent: Any

    @classmethod
    def of(cls, plan: LdpcPlan) -> Code:
        """The code of a plan."""
        core = slice(0, plan.layer_start[CORE_LAYERS])
        own = plan.shift[core][plan.column[core] == plan.information_columns]
        return cls(
            size=plan.lifting_size,
            information=plan.information_columns,
            unpaired=int(np.bitwise_xor.reduce(own)),
            block_bits=plan.block_bits,
            num_bits=plan.num_columns * plan.lifting_size,
            edge=on_gpu(
                ((plan.column * plan.lifting_size + plan.shift) * 512 + plan.lifting_size - plan.shift).astype(
                    np.uint32
                )
            ),
            layer_start=on_gpu(plan.layer_start),
            column=on_gpu(plan.column),
            shift=on_gpu(plan.shift),
            sent=on_gpu(plan.selected.reshape(plan.bits_per_symbol, -1).T.ravel()),
        )

    @property
    def threads(self) -> int:
        """Threads of a block: whole warps."""
        return -(-self.size // 32) * 32


def _turned(lane: Any, shift: Any, size: Any) -> Any:
    place = lane + shift
    return place - size if place >= size else place


def _added(word: Any, code: Any, layer: Any, lane: Any, first: Any, last: Any) -> Any:
    """Sum of a lane's bits over a layer's edges to columns `first` to `last` - 1."""
    total = np.uint8(0)
    for edge in range(code.layer_start[layer], code.layer_start[layer + 1]):
        column = code.column[edge]
        if first <= column < last:
            total = np.uint8(total ^ word[column * code.size + _turned(lane, code.shift[edge], code.size)])
    return total


@gpu_kernel
def encode(code: Any, packed: Any, num_bits: Any, num_blocks: Any, coded: Any) -> None:
    """The first `num_bits` bits of rows `packed`, cut into blocks with zeros behind, to `coded` `[frames, bits]`."""
    word = cuda.shared.array(_MOST_BITS, np.uint8)
    frame, lane, size, first = cuda.blockIdx.x, cuda.threadIdx.x, code.size, code.information * code.size
    row, start = frame // num_blocks, frame % num_blocks * code.block_bits
    layers = code.layer_start.shape[0] - 1
    for place in range(lane, first, cuda.blockDim.x):
        bit = start + place
        given = place < code.block_bits and bit < num_bits
        word[place] = np.uint8((packed[row, bit // 8] >> (7 - bit % 8)) & 1) if given else np.uint8(0)
    cuda.syncthreads()
    one, two, three, four = np.uint8(0), np.uint8(0), np.uint8(0), np.uint8(0)
    if lane < size:
        one = _added(word, code, 0, lane, 0, code.information)
        two = _added(word, code, 1, lane, 0, code.information)
        three = _added(word, code, 2, lane, 0, code.information)
        four = _added(word, code, 3, lane, 0, code.information)
        word[first + _turned(lane, code.unpaired, size)] = np.uint8(one ^ two ^ three ^ four)
    cuda.syncthreads()
    if lane < size:
        one = np.uint8(one ^ _added(word, code, 0, lane, code.information, code.information + 1))
        two = np.uint8(two ^ _added(word, code, 1, lane, code.information, code.information + 1))
        four = np.uint8(four ^ _added(word, code, 3, lane, code.information, code.information + 1))
        word[first + size + lane] = one
        word[first + 2 * size + lane] = np.uint8(one ^ two)
        word[first + 3 * size + lane] = four
    cuda.syncthreads()
    if lane < size:
        for layer in range(CORE_LAYERS, layers):
            word[first + layer * size + lane] = _added(word, code, layer, lane, 0, code.information + CORE_LAYERS)
    cuda.syncthreads()
    for i in range(lane, coded.shape[1], cuda.blockDim.x):
        coded[frame, i] = word[code.sent[i % code.sent.shape[0]]]


# numba takes the difference of two int32 as an int64, which a GPU computes in several steps: each is cut to 32 bits.


def _correction(distance: Any) -> Any:
    return np.int32(max(np.int32(np.int32(12) - distance), np.int32(0)) >> np.int32(2))


def _join(one: Any, other: Any) -> Any:
    low, high = min(one, other), max(one, other)
    nearer = np.int32(low + _correction(np.int32(high + low)))
    return np.int32(nearer - _correction(np.int32(high - low)))


def _saturated(value: Any) -> Any:
    return min(max(np.int32(value), np.int32(-128)), np.int32(127))


def _magnitude(value: Any) -> Any:
    return min(max(value, np.int32(-value)), np.int32(MAGNITUDE_MAX))


def _place(edge: Any, lane: Any, size: Any) -> Any:
    """Place of a lane's bit of an edge among the posteriors."""
    place = np.uint32(np.uint32(edge >> np.uint32(9)) + lane)
    return np.uint32(place - size) if lane >= np.uint32(edge & np.uint32(511)) else place


def _message(signs: Any, near: Any, bit: Any) -> Any:
    """Message of the edge of a layer that has this bit in both words."""
    word = signs if np.uint32(near & bit) != _NONE else near
    magnitude = np.int32(np.uint32(word >> _MAGNITUDE))
    return np.int32(-magnitude) if np.uint32(signs & bit) != _NONE else magnitude


def _update(edges: Any, begin: Any, end: Any, lane: Any, size: Any, posteriors: Any, signs: Any, near: Any) -> Any:
    """Posteriors of a lane of a layer, and its messages `signs` and `near`, anew; see `phy.coding.ldpc.decoder`."""
    nearest, others, product = np.int32(MAGNITUDE_MAX), np.int32(MAGNITUDE_MAX), np.int32(0)
    edge, bit = begin, _ONE
    while edge < end:
        place = _place(edges[edge], lane, size)
        t = _saturated(np.int32(posteriors[place]) - _message(signs, near, bit))
        posteriors[place] = np.int8(t)  # until the second pass
        magnitude = _magnitude(t)
        others = _join(others, max(magnitude, nearest))
        nearest = min(nearest, magnitude)
        product = np.int32(product ^ t)
        edge, bit = np.uint32(edge + _ONE), np.uint32(bit << _ONE)
    joined = min(_join(nearest, others), np.int32(MESSAGE_MAX))
    others = min(others, np.int32(MESSAGE_MAX))
    new_signs = np.uint32(np.uint32(others) << _MAGNITUDE)
    new_near = np.uint32(np.uint32(joined) << _MAGNITUDE)
    edge, bit = begin, _ONE
    while edge < end:
        place = _place(edges[edge], lane, size)
        t, message = np.int32(posteriors[place]), joined
        if _magnitude(t) == nearest:
            message = others
            new_near = np.uint32(new_near | bit)
        if np.int32(product ^ t) < np.int32(0):
            message = np.int32(-message)
            new_signs = np.uint32(new_signs | bit)
        posteriors[place] = np.int8(_saturated(t + message))
        edge, bit = np.uint32(edge + _ONE), np.uint32(bit << _ONE)
    return new_signs, new_near


def _fails(edges: Any, layer_start: Any, lane: Any, size: Any, posteriors: Any) -> Any:
    """1 if a parity check of this lane fails, else 0."""
    edge = np.uint32(0)
    for layer in range(1, layer_start.shape[0]):
        product, end = np.int32(0), np.uint32(layer_start[layer])
        while edge < end:
            product = np.int32(product ^ np.int32(posteriors[_place(edges[edge], lane, size)]))
            edge = np.uint32(edge + _ONE)
        if product < np.int32(0):
            return 1
    return 0


@gpu_kernel
def decode(code: Any, llrs: Any, num_blocks: Any, iterations: Any, decided: Any) -> None:
    """LLRs of rows, code word behind code word, to bits `decided` `[frames, block_bits]`; ends at a code word."""
    posteriors = cuda.shared.array(0, int8)
    edges = cuda.shared.array(_MOST_EDGES, np.uint32)
    signs, near = cuda.local.array(_MOST_LAYERS, np.uint32), cuda.local.array(_MOST_LAYERS, np.uint32)
    frame, lane, size = cuda.blockIdx.x, np.uint32(cuda.threadIdx.x), np.uint32(code.size)
    length, layers = code.sent.shape[0], code.layer_start.shape[0] - 1
    coded_bits = llrs.shape[1] // num_blocks
    row, start = frame // num_blocks, frame % num_blocks * coded_bits
    for place in range(lane, code.num_bits, cuda.blockDim.x):
        filler = code.block_bits <= place < code.information * code.size
        posteriors[place] = _KNOWN if filler else np.int8(0)
    for edge in range(lane, code.edge.shape[0], cuda.blockDim.x):
        edges[edge] = code.edge[edge]
    for layer in range(layers):
        signs[layer], near[layer] = np.uint32(0), np.uint32(0)
    cuda.syncthreads()
    for i in range(lane, length, cuda.blockDim.x):
        value = np.float32(0.0)
        for copy in range(i, coded_bits, length):
            value += llrs[row, start + copy]
        value = min(max(np.float32(-STEPS) * value, np.float32(-INPUT_MAX)), np.float32(INPUT_MAX))
        posteriors[code.sent[i]] = np.int8((value + _TO_INTEGER) - _TO_INTEGER)
    cuda.syncthreads()
    for iteration in range(iterations):
        for layer in range(layers):
            if lane < size:
                begin, end = np.uint32(code.layer_start[layer]), np.uint32(code.layer_start[layer + 1])
                signs[layer], near[layer] = _update(
                    edges, begin, end, lane, size, posteriors, signs[layer], near[layer]
                )
            cuda.syncthreads()
        if iteration + 1 < iterations:
            wrong = _fails(edges, code.layer_start, lane, size, posteriors) if lane < size else 0
            if cuda.syncthreads_or(wrong) == 0:
                break
    for place in range(lane, code.block_bits, cuda.blockDim.x):
        decided[frame, place] = np.uint8(posteriors[place] < 0)


@gpu_kernel
def pack(bits: Any, packed: Any) -> None:
    """Rows of bits to the bytes `[rows, num_bytes]` of their beginnings, first bit highest."""
    place = cuda.grid(1)
    num_bytes = packed.shape[1]
    if place < packed.shape[0] * num_bytes:
        row, byte = place // num_bytes, place % num_bytes
        word = np.int64(0)
        for bit in range(8 * byte, 8 * byte + 8):
            word = 2 * word + (np.int64(bits[row, bit]) if bit < bits.shape[1] else 0)
        packed[row, byte] = np.uint8(word)
