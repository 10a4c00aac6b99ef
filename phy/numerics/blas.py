"""Products of float32 matrices inside kernels: the BLAS of SciPy, called without the interpreter.

A kernel gets the address of the routine as an argument: written into the machine code, it would be wrong in the next
process, which finds that code on disk. Matrices lie row by row, one behind the other in flat arrays.

A product has the same bits whatever else is computed, as long as BLAS uses one thread, see
`scenarios.engine.start`. They depend on the shape: choose shapes that depend on nothing but the task at hand.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

from phy.numerics.compiled import spliced


@lru_cache(maxsize=1)
def sgemm_address() -> int:
    """Address of BLAS's product of float32 matrices, for the kernels that call it."""
    return int(get_cython_function_address("scipy.linalg.cython_blas", "sgemm"))


_BYTE, _INT, _FLOAT = ir.IntType(8), ir.IntType(32), ir.FloatType()
_POINTER = _BYTE.as_pointer()
_TRANSPOSED, _AS_IT_IS = ord("T"), ord("N")


@intrinsic
def _sgemm(
    _typing: Any, _address: Any, first: Any, _first_at: Any, second: Any, _second_at: Any, out: Any, _out_at: Any,
    _sizes: Any, _transposed: Any, _keep: Any,
) -> Any:  # fmt: skip
    """`out` = op(first) op(second) + keep out, as Fortran has it: column by column.

    Each matrix is an array and the place where it starts in it. `_sizes` are m, n and k and the lengths of columns of
    the three matrices, `_transposed` is a flag for each of the first two.
    """
    signature = types.void(
        types.intp, first, types.intp, second, types.intp, out, types.intp, types.UniTuple(types.intp, 6),
        types.UniTuple(types.boolean, 2), types.float32,
    )  # fmt: skip

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def stored(value: Any, kind: Any) -> Any:
            place = cgutils.alloca_once(builder, kind)
            builder.store(value, place)
            return builder.bitcast(place, _POINTER)

        def start(number: int) -> Any:
            array = context.make_array(signature.args[number])(context, builder, arguments[number])
            return builder.bitcast(builder.gep(array.data, [arguments[number + 1]]), _POINTER)

        sizes = cgutils.unpack_tuple(builder, arguments[7], 6)
        m, n, k, *leading = (stored(builder.trunc(size, _INT), _INT) for size in sizes)
        letters = [
            stored(builder.select(flag, ir.Constant(_BYTE, _TRANSPOSED), ir.Constant(_BYTE, _AS_IT_IS)), _BYTE)
            for flag in cgutils.unpack_tuple(builder, arguments[8], 2)
        ]
        one, kept = stored(ir.Constant(_FLOAT, 1.0), _FLOAT), stored(arguments[9], _FLOAT)
        routine = builder.inttoptr(arguments[0], ir.FunctionType(ir.VoidType(), [_POINTER] * 13).as_pointer())
        builder.call(
            routine,
            [*letters, m, n, k, one, start(1), leading[0], start(3), leading[1], kept, start(5), leading[2]],
        )
        return context.get_dummy_value()

    return signature, write


@spliced
def product(address: Any, a: Any, a_at: Any, b: Any, b_at: Any, out: Any, out_at: Any, sizes: Any, keep: Any) -> None:
    """`out` = A B + keep out: A `[m, k]`, B `[k, n]`, out `[m, n]`, from these places of flat arrays on; sizes m, k, n.

    `address` is that of `sgemm_address`.
    """
    m, k, n = sizes
    _sgemm(address, b, b_at, a, a_at, out, out_at, (n, m, k, n, k, n), (False, False), keep)


@spliced
def product_with_transposed(
    address: Any, a: Any, a_at: Any, b: Any, b_at: Any, out: Any, out_at: Any, sizes: Any
) -> None:
    """`out` = A B^T: A `[m, k]`, B `[n, k]`, out `[m, n]`; sizes m, k, n."""
    m, k, n = sizes
    _sgemm(address, b, b_at, a, a_at, out, out_at, (n, m, k, k, k, n), (True, False), np.float32(0.0))


@spliced
def product_of_transposed(
    address: Any, a: Any, a_at: Any, b: Any, b_at: Any, out: Any, out_at: Any, sizes: Any, keep: Any
) -> None:
    """`out` = A^T B + keep out: A `[k, m]`, B `[k, n]`, out `[m, n]`; sizes m, k, n."""
    m, k, n = sizes
    _sgemm(address, b, b_at, a, a_at, out, out_at, (n, m, k, n, m, n), (False, True), keep)
