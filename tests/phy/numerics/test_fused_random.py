"""Random numbers of the fused kernels: the words of `phy.numerics.random`, and Gaussians that hold far out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from phy.numerics import random as plain
from phy.numerics import random_kernels as fused
from phy.numerics.compiled import kernel, lean_kernel
from phy.numerics.random import Purpose, round_keys
from phy.numerics.threefry import AT_ONCE, devices, draw_lanes, draw_listed, positions
from phy.numerics.workers import THREADS_VARIABLE, run_tasks

KEYS = round_keys(2022, (0, 5), Purpose.NOISE, 3)
NUM_NORMALS = 1 << 24
"""Complex draws of one device: 3.4e7 reals hold 2100 beyond 4 and 19 beyond 5 standard deviations."""


@lean_kernel
def fill_normals(
    keys: Any, devices: Any, words: Any, out: Any, num_values: Any, start: Any, first: Any, last: Any
) -> None:
    """Rows `first` to `last` of the flat `out`, for each its real parts, then its imaginary ones."""
    for row in range(first, last):
        real_at, key = 2 * row * num_values, (keys[row, 0], keys[row, 1])
        counters = positions(devices[row], start, 1)
        fused.draw_normals(key, counters, words, out, real_at, real_at + num_values, num_values)


def complex_normals(
    keys: NDArray[np.uint32],
    devices: NDArray[np.uint32],
    *,
    num_values: int,
    first: int = 0,
    threads: int,
    fill: Any = fill_normals,
) -> NDArray[np.complex64]:
    """CN(0, 1) draws `[rows, num_values]` from position `first` on; row r is of `keys[r]` `[2]` and `devices[r]`."""
    parts = np.empty((len(keys), 2, num_values), np.float32)
    out = parts.reshape(-1)
    run_tasks(
        lambda start, stop: fill(keys, devices, out.view(np.uint32), out, num_values, first, start, stop),
        num_tasks=len(keys),
        threads=threads,
    )
    return np.asarray(parts[:, 0] + 1j * parts[:, 1], np.complex64)


@pytest.mark.parametrize("num_bits", [1, 63, 64, 100_003, 3_000_000])
@pytest.mark.parametrize("threads", [1, 2])
def test_bits_are_those_of_the_plain_generator(num_bits: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(THREADS_VARIABLE, str(threads))
    pair, device = np.arange(-(-num_bits // 64), dtype=np.uint32), np.arange(4, 7, dtype=np.uint32)
    words = np.stack(plain.threefry((KEYS[:, 0, None, None], KEYS[:, 1, None, None]), (pair, device[:, None])), axis=-1)
    expected = np.unpackbits(words.reshape(2, 3, -1).view(np.uint8), axis=-1)[..., :num_bits]
    drawn = plain.random_bits(KEYS, num_devices=3, num_bits=num_bits, first_device=4)
    assert np.array_equal(drawn, np.packbits(expected, axis=-1))


def test_normals_are_those_of_the_plain_generator_to_within_rounding() -> None:
    """Sine, cosine and logarithm err below 2e-7 each on both sides; |z| stays below 5 here."""
    device, first, count = np.array([0, 7], np.uint32), (1 << 32) - 100, 40_000  # over the end of the counter
    position = np.arange(first, first + count, dtype=np.uint64).astype(np.uint32)
    words = plain.threefry((KEYS[:, 0, None], KEYS[:, 1, None]), (position[None], device[:, None]))
    expected = np.asarray(plain.complex_normal(words))
    drawn = complex_normals(KEYS, device, num_values=count, first=first, threads=2)
    assert np.abs(drawn - expected).max() < 3e-6


@kernel
def _along(key: Any, out: Any, count: Any) -> None:
    draw_lanes((key[0], key[1]), positions(np.uint32(9), np.uint32(2**32 - 50), np.uint32(7)), out, 1, 1 + 1100, count)


@kernel
def _across(key: Any, out: Any, count: Any) -> None:
    draw_lanes((key[0], key[1]), devices(np.uint32(5)), out, 1, 1 + 1100, count)


@kernel
def _listed(key: Any, places: Any, rows: Any, out: Any, count: Any) -> None:
    draw_listed(key, places, rows, out, 0, 1100, count)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 72, 255, 1000])
def test_words_drawn_four_at_once_are_those_drawn_alone(count: int) -> None:
    """Along positions, across devices and from a list; nothing is written beside the words asked for."""
    key, numbers = KEYS[0], np.arange(count, dtype=np.uint32)
    steps = np.uint32(2**32 - 50) + numbers * np.uint32(7)
    for draw, counters in (
        (_along, (steps, np.full_like(numbers, 9))),
        (_across, (np.zeros_like(numbers), numbers + np.uint32(5))),
    ):
        out = np.zeros(2300, np.uint32)
        draw(key, out, count)
        first, second = plain.threefry((key[0], key[1]), counters)
        assert np.array_equal(out[1 : 1 + count], first)
        assert np.array_equal(out[1101 : 1101 + count], second)
        assert np.count_nonzero(out) <= 2 * count
    padded = -(-count // AT_ONCE) * AT_ONCE
    places, rows, out = np.zeros(padded, np.uint32), np.zeros(padded, np.uint32), np.zeros(2300, np.uint32)
    places[:count], rows[:count] = steps, numbers[::-1]
    _listed(key, places, rows, out, count)
    first, second = plain.threefry((key[0], key[1]), (steps, numbers[::-1]))
    assert np.array_equal(out[:count], first)
    assert np.array_equal(out[1100 : 1100 + count], second)


@pytest.fixture(scope="module")
def normals() -> NDArray[np.float32]:
    """N(0, 1), both parts side by side, `[2, NUM_NORMALS]`."""
    drawn = complex_normals(KEYS[:1], np.zeros(1, np.uint32), num_values=NUM_NORMALS, threads=2)
    return np.sqrt(np.float32(2.0)) * np.stack([drawn[0].real, drawn[0].imag])


def tail_is_off(normals: NDArray[np.float32]) -> list[float]:
    """Standard errors by which counts beyond 4 and 5 sigma are off; counts are binomial."""
    off = []
    for limit in (4.0, 5.0):
        expected = normals.size * special.erfc(limit / np.sqrt(2.0))
        off.append(float((np.count_nonzero(np.abs(normals) > limit) - expected) / np.sqrt(expected)))
    return off


def test_as_many_normals_as_there_should_be_lie_beyond_four_and_five_sigma(normals: NDArray[np.float32]) -> None:
    assert np.abs(tail_is_off(normals)).max() < 4.0


def test_a_tail_cut_off_at_five_sigma_or_made_of_16_bits_is_detected(normals: NDArray[np.float32]) -> None:
    """Negative control: the same count fails for a tail clipped at 5, or for radii of 16-bit uniforms (4.8 at most)."""
    assert tail_is_off(np.clip(normals, -5.0, 5.0))[1] < -4.0
    radius = np.hypot(*normals)
    coarse = np.sqrt(-2.0 * np.log((np.floor(np.exp(-0.5 * radius**2) * 2.0**16) + 0.5) * 2.0**-16))
    assert np.abs(tail_is_off(normals * (coarse / radius))).max() > 4.0


def test_the_farthest_word_reaches_six_point_seven_sigma() -> None:
    """Word 0 is u = 2^-33: sqrt(2 * 33 ln 2) = 6.76 standard deviations of a real part."""
    from numba import njit

    @njit
    def radius(word: int) -> tuple[float, float]:
        return fused.complex_normal(np.uint32(word), np.uint32(0))

    assert radius(0)[0] * np.sqrt(2.0) == pytest.approx(np.sqrt(66.0 * np.log(2.0)), rel=1e-6)
    assert radius(0xFFFFFFFF) == (0.0, 0.0)


def test_moments_and_bins_are_those_of_the_normal_law(normals: NDArray[np.float32]) -> None:
    some = normals[:, : 1 << 20].astype(np.float64)
    count = some.size
    for power, expected, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0), (6, 15.0, 10170.0)):
        mean = float((some**power).mean())
        assert abs(mean - expected) < 4.0 * np.sqrt(variance / count), power
    edges = special.ndtri(np.linspace(0.0, 1.0, 257))
    found = np.bincount(np.searchsorted(edges[1:-1], some.ravel()), minlength=256)
    assert stats.chisquare(found).pvalue > 1e-4
    # The two parts share a radius: their product has mean 0 and variance 1.
    assert abs(float((some[0] * some[1]).mean())) < 4.0 / np.sqrt(some.shape[1])


def test_threads_rows_and_chunks_change_no_number() -> None:
    keys, device = np.repeat(KEYS, 4, axis=0), np.tile(np.arange(4, dtype=np.uint32), 2)
    together = complex_normals(keys, device, num_values=1000, threads=2)
    assert np.array_equal(complex_normals(keys, device, num_values=1000, threads=1), together)
    assert np.array_equal(complex_normals(keys[5:6], device[5:6], num_values=1000, threads=1), together[5:6])
    later = complex_normals(keys, device, num_values=333, first=500, threads=2)
    # The ragged end of a loop may be rounded otherwise than its vectors: an ulp or two, never another word.
    np.testing.assert_allclose(later, together[:, 500:833], atol=2e-6)
    assert np.unique(together).size > 0.999 * together.size  # no row, and no thread, has the stream of another


def test_a_stream_that_two_threads_share_is_detected() -> None:
    """Negative control: every block of rows starts at row 0, as threads would with one state between them."""
    keys, device = np.repeat(KEYS, 4, axis=0), np.tile(np.arange(4, dtype=np.uint32), 2)
    alone = complex_normals(keys, device, num_values=100, threads=1)

    def shared(keys: NDArray[np.uint32], devices: NDArray[np.uint32], *rest: Any) -> None:
        fill_normals(keys[0:1].repeat(len(keys), 0), devices * 0, *rest)

    together = complex_normals(keys, device, num_values=100, threads=2, fill=shared)
    assert not np.array_equal(together, alone)
    assert np.unique(together).size < 0.999 * together.size
