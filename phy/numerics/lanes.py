"""Tiles of small convolutions inside kernels: one sample per lane of a vector, sums in registers.

A vector holds the same entry of `LANES` samples, so that no product of a convolution needs a shuffle, whatever its
sizes: BLAS loses most of its speed at six filters. A tile of `PLACES` vectors and `TILE` weights is summed up without
a store. LLVM does not find such tiles in loops, so they are written in its own language.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from phy.numerics.compiled import host_has

LANES = 16 if host_has("avx512f") else 8
"""Samples in a vector."""
TILE = 6
"""Filters of a tile."""
PLACES = 4 if host_has("avx512f") else 2
"""Entries of a tile: with `TILE` of them, sums fill three quarters of the registers."""

_FLOAT, _INDEX = ir.FloatType(), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_FLAGS = ("contract", "nsz", "arcp", "afn", "reassoc")


def _start(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return context.make_array(kind)(context, builder, array).data


def _vector_at(builder: Any, data: Any, place: Any) -> Any:
    """Address of a vector that starts at entry `place`."""
    return builder.bitcast(builder.gep(data, [place]), _VECTOR.as_pointer())


def _load(builder: Any, address: Any) -> Any:
    return builder.load(address, align=4)


def _splat(builder: Any, scalar: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)


class _Sums:
    """A tile of sums, which LLVM keeps in registers."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self.kept = [[cgutils.alloca_once(builder, _VECTOR) for _ in range(TILE)] for _ in range(PLACES)]

    def add(self, place: int, column: int, first: Any, second: Any) -> None:
        builder, kept = self._builder, self.kept[place][column]
        product = builder.fmul(first, second, flags=_FLAGS)
        builder.store(builder.fadd(builder.load(kept), product, flags=_FLAGS), kept)


def _plus(builder: Any, *terms: Any) -> Any:
    total, *others = terms
    for term in others:
        total = builder.add(total, term)
    return total


def _number(value: int) -> Any:
    return ir.Constant(_INDEX, value)


@intrinsic
def convolved(
    _typing: Any, _values: Any, _at: Any, _weights: Any, _weights_at: Any, _bias: Any, _bias_at: Any, _out: Any,
    _out_at: Any, _sizes: Any,
) -> Any:  # fmt: skip
    """`PLACES` x `TILE` vectors of a convolution: out[t, f] = bias[f] + sum_(r, j) values[r, t, j] weights[r, j, f].

    Arrays are flat, with the entries at which each starts. `_sizes`: rows r, entries j of a row, and in entries of the
    arrays the steps of `values` from row to row and from t to t, and of `out` from t to t. `weights` `[rows, j, TILE]`.
    """
    signature = types.void(
        _values, types.intp, _weights, types.intp, _bias, types.intp, _out, types.intp, types.UniTuple(types.intp, 5)
    )

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, weights, bias, out = (_start(context, builder, signature.args[n], arguments[n]) for n in (0, 2, 4, 6))
        at, weights_at, bias_at, out_at = (arguments[n] for n in (1, 3, 5, 7))
        rows, entries, row_step, place_step, out_step = cgutils.unpack_tuple(builder, arguments[8], 5)
        sums = _Sums(builder)
        for column in range(TILE):
            start = _splat(builder, builder.load(builder.gep(bias, [_plus(builder, bias_at, _number(column))])))
            for place in range(PLACES):
                builder.store(start, sums.kept[place][column])
        with cgutils.for_range(builder, rows) as row:
            from_here = _plus(builder, at, builder.mul(row.index, row_step))
            weights_here = _plus(builder, weights_at, builder.mul(builder.mul(row.index, entries), _number(TILE)))
            with cgutils.for_range(builder, entries) as entry:
                here = _plus(builder, from_here, builder.mul(entry.index, _number(LANES)))
                there = _plus(builder, weights_here, builder.mul(entry.index, _number(TILE)))
                seen = [
                    _load(
                        builder, _vector_at(builder, values, _plus(builder, here, builder.mul(place_step, _number(t))))
                    )
                    for t in range(PLACES)
                ]
                for column in range(TILE):
                    weight = builder.load(builder.gep(weights, [_plus(builder, there, _number(column))]))
                    spread = _splat(builder, weight)
                    for place in range(PLACES):
                        sums.add(place, column, seen[place], spread)
        for place in range(PLACES):
            for column in range(TILE):
                end = _plus(builder, out_at, builder.mul(out_step, _number(place)), _number(column * LANES))
                builder.store(builder.load(sums.kept[place][column]), _vector_at(builder, out, end), align=4)
        return context.get_dummy_value()

    return signature, write


@intrinsic
def correlated(
    _typing: Any, _values: Any, _at: Any, _backs: Any, _backs_at: Any, _out: Any, _out_at: Any, _sizes: Any
) -> Any:
    """Add to `PLACES` x `TILE` vectors: out[t, f] += sum_p values[p, t] backs[p, f], lane by lane.

    `_sizes`: places p, and in entries of the arrays the steps from p to p of `values` and `backs`, and of `out` from t
    to t.
    """
    signature = types.void(_values, types.intp, _backs, types.intp, _out, types.intp, types.UniTuple(types.intp, 4))

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, backs, out = (_start(context, builder, signature.args[n], arguments[n]) for n in (0, 2, 4))
        at, backs_at, out_at = (arguments[n] for n in (1, 3, 5))
        many, step, back_step, out_step = cgutils.unpack_tuple(builder, arguments[6], 4)
        sums = _Sums(builder)
        ends = [
            [
                _vector_at(
                    builder, out,
                    _plus(builder, out_at, builder.mul(out_step, _number(place)), _number(column * LANES)),
                )
                for column in range(TILE)
            ]
            for place in range(PLACES)
        ]  # fmt: skip
        for place in range(PLACES):
            for column in range(TILE):
                builder.store(_load(builder, ends[place][column]), sums.kept[place][column])
        with cgutils.for_range(builder, many) as p:
            here = _plus(builder, at, builder.mul(p.index, step))
            there = _plus(builder, backs_at, builder.mul(p.index, back_step))
            seen = [
                _load(builder, _vector_at(builder, values, _plus(builder, here, _number(t * LANES))))
                for t in range(PLACES)
            ]
            for column in range(TILE):
                back = _load(builder, _vector_at(builder, backs, _plus(builder, there, _number(column * LANES))))
                for place in range(PLACES):
                    sums.add(place, column, seen[place], back)
        for place in range(PLACES):
            for column in range(TILE):
                builder.store(builder.load(sums.kept[place][column]), ends[place][column], align=4)
        return context.get_dummy_value()

    return signature, write
