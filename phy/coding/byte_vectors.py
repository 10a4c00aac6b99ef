"""Vectors of `WIDTH` 8-bit integers as values inside kernels, for loops that LLVM does not turn into vectors itself.

A loop over such vectors keeps its running values in registers, where a loop over single numbers has to keep a line of
them in memory. LLVM splits a vector into as many registers as the processor needs for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

WIDTH = 64
"""Numbers in a vector: one register of 512 bits, or two of 256."""

_BYTE = ir.IntType(8)
_VECTOR = ir.VectorType(_BYTE, WIDTH)


class _Bytes(types.Type):
    pass


_BYTES = _Bytes("Bytes")


@register_model(_Bytes)
class _BytesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _operation(emit: Callable[..., Any], count: int) -> Any:
    """A function of `count` vectors that returns one."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return emit(builder, *arguments)

    of_vectors = _BYTES(*[_BYTES] * count)
    if count == 1:
        return intrinsic(lambda _typing, _one: (of_vectors, lower))
    if count == 2:
        return intrinsic(lambda _typing, _one, _two: (of_vectors, lower))
    return intrinsic(lambda _typing, _one, _two, _three, _four: (of_vectors, lower))


def _named(name: str) -> Any:
    """One of LLVM's functions of two vectors."""

    def emit(builder: Any, one: Any, two: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR])
        return builder.call(builder.module.declare_intrinsic(f"llvm.{name}.v{WIDTH}i8", fnty=kind), [one, two])

    return _operation(emit, 2)


def _all_of(number: int) -> Any:
    return ir.Constant(_VECTOR, [number] * WIDTH)


add = _operation(lambda builder, one, two: builder.add(one, two), 2)
subtract = _operation(lambda builder, one, two: builder.sub(one, two), 2)
exclusive_or = _operation(lambda builder, one, two: builder.xor(one, two), 2)
quarter = _operation(lambda builder, one: builder.lshr(one, _all_of(2)), 1)
"""Of unsigned numbers."""
minimum, maximum = _named("umin"), _named("umax")
"""Of unsigned numbers, as which -128 is 128."""
add_saturated, subtract_saturated = _named("sadd.sat"), _named("ssub.sat")
subtract_to_zero = _named("usub.sat")
"""Of unsigned numbers: zero where the difference is negative."""
magnitude = _operation(
    lambda builder, one: builder.select(builder.icmp_signed("<", one, _all_of(0)), builder.sub(_all_of(0), one), one),
    1,
)
"""Absolute values; 128, unsigned, of -128."""
negative_where = _operation(
    lambda builder, sign, one: builder.select(
        builder.icmp_signed("<", sign, _all_of(0)), builder.sub(_all_of(0), one), one
    ),
    2,
)
"""(sign, numbers): the negative of the numbers where `sign` is negative."""
where_equal = _operation(
    lambda builder, one, two, yes, no: builder.select(builder.icmp_signed("==", one, two), yes, no), 4
)


@intrinsic
def filled(typing: Any, number: Any) -> Any:
    """A vector of one integer."""
    del typing, number

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), arguments[0], ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH))

    return _BYTES(types.int8), lower


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """The vector at `index` of a flat array of 8-bit integers, at any alignment."""
    del typing, index

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place(context, builder, signature.args[0], *arguments), align=1)

    return _BYTES(array, types.intp), lower


@intrinsic
def store(typing: Any, array: Any, index: Any, vector: Any) -> Any:
    """The inverse of `load`."""
    del typing, index, vector

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _place(context, builder, signature.args[0], *arguments[:2]), align=1)
        return context.get_dummy_value()

    return types.void(array, types.intp, _BYTES), lower
