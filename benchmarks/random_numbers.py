"""Complex normals: our counters under XLA against TensorFlow's own drawing and NumPy's.

    python benchmarks/random_numbers.py

Every call draws 2^20 CN(0, 1) values from a key or seed that is a tensor and changes with every call, so
that nothing can be folded into a constant. The drawing alone, and, as in a link, the drawing fused with
one multiplication and one addition. Under XLA the named algorithms of `stateless_normal` are the fair
peers: its default ("auto_select") takes tens of times longer than either on a CPU when the seed is a tensor.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from timing import interleaved_medians, print_table

from phy.numerics.random import complex_normal, threefry

NUM_VALUES = 1 << 20
HALF = np.float32(0.5**0.5)


def ours(key: Any) -> Any:
    """CN(0, 1) `[NUM_VALUES]` by Threefry-2x32-20 and Box-Muller."""
    position = tf.range(NUM_VALUES, dtype=tf.int32)
    device = tf.zeros([], tf.uint32)
    return complex_normal(threefry((key[0], key[1]), (tf.cast(position, tf.uint32), device), tf.bitwise))


def tensorflows(algorithm: str) -> Callable[[Any], Any]:
    """The same by `tf.random.stateless_normal`, by default ("auto_select") or by a named algorithm."""

    def draw(key: Any) -> Any:
        seed = tf.bitcast(key, tf.int32)
        parts = tf.random.stateless_normal([2, NUM_VALUES], seed, alg=algorithm) * HALF
        return tf.complex(parts[0], parts[1])

    return draw


def added_to_a_signal(draw: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """y = x + s z with z drawn on the way."""
    signal = tf.ones([NUM_VALUES], tf.complex64)
    return lambda key: signal + tf.constant(0.1, tf.complex64) * draw(key)


def compiled(draw: Callable[[Any], Any], *, xla: bool) -> Callable[[], Any]:
    """A call with a new key each time, waiting for the values."""
    function = tf.function(draw, jit_compile=xla, autograph=False, input_signature=[tf.TensorSpec([2], tf.uint32)])
    counter = itertools.count()
    return lambda: function(tf.constant([7, next(counter)], tf.uint32)).numpy()


def numpys() -> Any:
    """The same by `numpy.random.Generator` (PCG64, ziggurat), one thread."""
    rng = np.random.default_rng(7)
    return lambda: (rng.standard_normal(2 * NUM_VALUES, dtype=np.float32) * HALF).view(np.complex64)


def main() -> int:
    """Print the tables; exit 1 if ours is slower than the fastest rival of TensorFlow's."""
    rivals = {
        "ours (Threefry, XLA)": compiled(ours, xla=True),
        "numpy.random.Generator": numpys(),
        "stateless_normal, graph": compiled(tensorflows("auto_select"), xla=False),
        **{
            f"stateless_normal {name}, XLA": compiled(tensorflows(name), xla=True)
            for name in ("philox", "threefry", "auto_select")
        },
        "ours added to a signal, XLA": compiled(added_to_a_signal(ours), xla=True),
        "stateless_normal philox added, XLA": compiled(added_to_a_signal(tensorflows("philox")), xla=True),
    }
    seconds = interleaved_medians(rivals)
    base = seconds["ours (Threefry, XLA)"]
    print(f"{NUM_VALUES} complex normals a call, median of 11 interleaved calls")
    print_table(
        ("drawn by", "ns per value", "time over ours"),
        [(name, f"{1e9 * s / NUM_VALUES:.2f}", f"{s / base:.2f}") for name, s in seconds.items()],
    )
    fastest = min(s for name, s in seconds.items() if name.startswith("stateless_normal"))
    print(f"the fastest way of TensorFlow's takes {fastest / base:.2f} times as long as ours")
    return 0 if base <= fastest else 1


if __name__ == "__main__":
    sys.exit(main())
