"""Codes of any width to packed bits and back, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from phy.numerics.packing import code_dtype, pack, unpack


def written_out(codes: np.ndarray, *, bits: int) -> np.ndarray:
    """Digit after digit, most significant first."""
    digits = (codes[..., None].astype(np.uint64) >> np.arange(bits - 1, -1, -1, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(digits.astype(np.uint8).reshape(*codes.shape[:-1], codes.shape[-1] * bits), axis=-1)


@pytest.mark.parametrize("bits", range(1, 57))
def test_codes_of_any_width_come_back_from_the_bits_written_out(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for shape in ((1, 3, 67), (2, 1), (1, 0, 5)):
        codes = rng.integers(0, 2**bits - 1, shape, dtype=np.uint64, endpoint=True).astype(code_dtype(bits))
        packed = pack(codes, bits=bits)
        np.testing.assert_array_equal(packed, written_out(codes, bits=bits))
        found = unpack(packed, bits=bits, num_values=shape[-1])
        assert found.dtype == code_dtype(bits)
        np.testing.assert_array_equal(found, codes)
