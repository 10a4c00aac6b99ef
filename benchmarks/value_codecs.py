"""Values to packed bits and back, and bits flipped, beside the plain NumPy way over unpacked bits.

    python benchmarks/value_codecs.py

Rivals see the same values. The plain way shifts each value by each of its bits, packs what comes out
(`np.packbits`), and goes back through `np.unpackbits`; it flips by one uniform number per bit, drawn in sequence, so
that a bit's fate depends on what was drawn before, and to 2^-24. It runs device by device, since unpacked bits of all
at once (556 MB, and 2.2 GB of uniform numbers) are beyond the point. Exit 1 if it is the faster one for any of the 20
uploads of 1,206,590 values, or if encoding or decoding these takes more than a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from timing import interleaved_medians, print_table

from fl.schemes.codecs.codec import Codec
from fl.schemes.codecs.partwise import FixedPoint, Uniform
from phy.numerics.bit_flips import flip_bits
from phy.numerics.packing import code_dtype
from phy.numerics.random import Purpose, round_keys

KEYS = round_keys(1, (0,), Purpose.ROUNDING, 0)
RATE = 0.1
MOST_SECONDS = 1.0
CASES: tuple[tuple[str, int, int, Codec], ...] = (
    ("20 x 1,206,590 x 23 bits", 20, 1_206_590, FixedPoint(fraction_bits=23, bound=0.5)),
    ("20 x 1,206,590 x 8 bits", 20, 1_206_590, Uniform(bits=8, bound=1.0)),
    ("1000 x 7,850 x 1 bit", 1000, 7_850, Uniform(bits=1, bound=1.0)),
)


def plain_pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Packed bits of one device's codes `[num_values]`, one shift per bit."""
    places = np.arange(bits - 1, -1, -1, dtype=codes.dtype)
    return np.packbits((codes[:, None] >> places) & codes.dtype.type(1))


def plain_unpack(payload: np.ndarray, bits: int, num_values: int) -> np.ndarray:
    """Codes `[num_values]` of one device's packed bits."""
    digits = np.unpackbits(payload, count=num_values * bits).reshape(num_values, bits)
    return digits @ (1 << np.arange(bits - 1, -1, -1, dtype=np.int64))


def plain_encode(codec: Codec, values: np.ndarray) -> list[np.ndarray]:
    """Payloads of values `[num_devices, num_values]`, device by device."""
    rng = np.random.default_rng(1)
    bits, payloads = codec.bits_per_value, []
    for row in values:
        if isinstance(codec, FixedPoint):
            codes = (row + np.float32(3.0 * codec.value_range)).view(np.uint32)
        else:
            scaled = (row + 1.0) / 2.0 * (2**bits - 1)
            codes = np.floor(scaled + rng.random(len(row), np.float32)).astype(code_dtype(bits))
        payloads.append(plain_pack(codes, bits))
    return payloads


def plain_decode(codec: Codec, payload: np.ndarray, num_values: int) -> list[np.ndarray]:
    """Values of packed bits `[num_devices, num_bytes]`, device by device."""
    bits, values = codec.bits_per_value, []
    for row in payload:
        codes = plain_unpack(row, bits, num_values)
        scale = 2.0 / (2**bits if isinstance(codec, FixedPoint) else 2**bits - 1)
        values.append((codes * scale - 1.0).astype(np.float32))
    return values


def plain_flip(payload: np.ndarray, num_bits: int) -> list[np.ndarray]:
    """Flipped payloads, one uniform number per bit."""
    rng = np.random.default_rng(2)
    return [row ^ np.packbits(rng.random(num_bits, np.float32) < RATE) for row in payload]


def rivals(codec: Codec, num_devices: int, num_values: int) -> dict[str, dict[str, Callable[[], Any]]]:
    """For each verb, ours and the plain way."""
    values = np.random.default_rng(0).uniform(-1.0, 0.999, (1, num_devices, num_values)).astype(np.float32)
    payload = codec.encode(values, keys=KEYS).payload
    bits = codec.bits_per_value
    if isinstance(codec, FixedPoint):
        same = np.stack(plain_encode(codec, values[0, :1]))
        if not np.array_equal(same, payload[0, :1]):
            raise SystemExit("the plain way and ours give different bits")
    decoded = codec.decode(payload[:, :1], num_values=num_values)
    if not np.allclose(plain_decode(codec, payload[0, :1], num_values), decoded[0], atol=1e-6):
        raise SystemExit("the plain way and ours give different values")
    rate = np.full((1, num_devices), RATE)
    return {
        "encode": {
            "ours": lambda: codec.encode(values, keys=KEYS),
            "plain": lambda: plain_encode(codec, values[0]),
        },
        "decode": {
            "ours": lambda: codec.decode(payload, num_values=num_values),
            "plain": lambda: plain_decode(codec, payload[0], num_values),
        },
        "flip": {
            "ours": lambda: flip_bits(payload, probability=rate, num_bits=num_values * bits, keys=KEYS),
            "plain": lambda: plain_flip(payload[0], num_values * bits),
        },
    }


def main() -> int:
    """Print the table and the verdict."""
    rows, slower, longest = [], False, 0.0
    for name, num_devices, num_values, codec in CASES:
        for verb, calls in rivals(codec, num_devices, num_values).items():
            seconds = interleaved_medians(calls, repeats=3, warm_up=1)
            ours, plain = seconds["ours"], seconds["plain"]
            slower |= num_values > 1_000_000 and ours > plain
            if verb != "flip":
                longest = max(longest, ours)
            rows.append((f"{name}, {verb}", f"{ours:.3f}", f"{plain:.3f}", f"{plain / ours:.1f}"))
    print_table(("median of 3 turns", "ours [s]", "plain NumPy [s]", "plain over ours"), rows)
    print(f"the longest encoding or decoding takes {longest:.2f} s; allowed are {MOST_SECONDS} s")
    return 1 if slower or longest > MOST_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
