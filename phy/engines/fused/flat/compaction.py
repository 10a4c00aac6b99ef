"""Places of small words among many, sixteen words at a time: a loop that LLVM does not turn into vectors itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from phy.numerics.compiled import inlined

WIDTH = 16
"""Words of a step: so many places are written behind the last one that is valid."""
_VECTOR = ir.VectorType(ir.IntType(32), WIDTH)
_FLAGS = ir.VectorType(ir.IntType(1), WIDTH)


@intrinsic
def _append(typing: Any, words: Any, at: Any, first: Any, most: Any, places: Any, count: Any) -> Any:
    """Write those of the places `first`, `first` + 1, .. whose word is at most `most` to `places[count]` and behind.

    The word of place 0 is `words[at]`. Returns their number. The processor compresses a vector where it can, LLVM goes
    through its numbers elsewhere.
    """
    del typing, at, first, most, count

    def all_of(builder: Any, number: Any) -> Any:
        one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(one, one, ir.Constant(_VECTOR, [0] * WIDTH))

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words, at, first, most, places, count = arguments

        def vector_at(number: int, array: Any, index: Any) -> Any:
            data = context.make_array(signature.args[number])(context, builder, array).data
            return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())

        flags = builder.icmp_unsigned(
            "<=", builder.load(vector_at(0, words, builder.add(at, first)), align=4), all_of(builder, most)
        )
        number = all_of(builder, builder.trunc(first, ir.IntType(32)))
        number = builder.add(number, ir.Constant(_VECTOR, list(range(WIDTH))))
        kind = ir.FunctionType(_VECTOR, [_VECTOR, _FLAGS, _VECTOR])
        compress = builder.module.declare_intrinsic(f"llvm.experimental.vector.compress.v{WIDTH}i32", fnty=kind)
        found = builder.call(compress, [number, flags, ir.Constant(_VECTOR, ir.Undefined)])
        builder.store(found, vector_at(4, places, count), align=4)
        bits = builder.bitcast(flags, ir.IntType(WIDTH))
        return builder.zext(builder.ctpop(bits), ir.IntType(64))

    return types.int64(words, types.int64, types.int64, types.uint32, places, types.int64), lower


@inlined
def find_small(words: Any, at: Any, start: Any, stop: Any, most: Any, places: Any, count: Any) -> Any:
    """Append to `count` of `places` those from `start` to `stop` with uint32 `words[at + place]` of at most `most`."""
    steps = (stop - start) // WIDTH
    for step in range(steps):
        count += _append(words, at, start + step * WIDTH, most, places, count)
    for place in range(start + steps * WIDTH, stop):
        places[count] = np.uint32(place)
        count += np.int64(words[at + place] <= most)
    return count
