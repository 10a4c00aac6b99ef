"""Expected bit-level distance of two neighbouring models, Li et al. 2025, (15), (26).

A number in [-r, r] becomes the integer of its b fraction bits, u = round((w + r) / (2 r) 2^b), at most 2^b - 1, ties
to even: what IEEE 754 does when 3 r is added, (7). Its j-th bit, j = 0 the last, weighs 2^(j - b), so that the first
weighs 1/2. (15) prints (k mod 23) - 23 for k = 1 .. 23 M, which is this for j = k mod 23. The distance of two numbers
is then their exclusive or, read as an integer, over 2^b.

Over weights spread evenly, and shifts below 2 r / 2^b, kappa is (b - 1) sum_m |x_m| / (2 r) on average, which is
sqrt(2 M / pi) Dw (b - 1) / (2 r) for x uniform on its sphere: about 1 for the paper's CNN and 15 for its ResNet-18,
where the paper reports 0.02 and 0.025. Weights near 0 have a larger distance, because their first bit changes. A weight
of exactly 0, such as an untrained bias, counts up to 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privacy.errors import PrivacyError, require_count, require_positive

Array = NDArray[np.floating]
WeightSampler = Callable[[np.random.Generator, int], Array]
"""`sampler(generator, size)` draws `size` weights, independent from call to call."""

_CHUNK = 1 << 16  # a few of these in double precision fit into a cache
_MOST_BITS = 52


@dataclass(frozen=True, kw_only=True)
class KappaEstimate:
    """Mean bit-level distance over `num_pairs` pairs.

    `standard_error` is that of the mean, NaN for a single pair; `l1_mean` is the mean l1 distance of the same pairs in
    the same unit, 2 r, which no bit-level distance is below (Li et al. 2025, Remark 2).
    """

    mean: float
    standard_error: float
    l1_mean: float
    num_pairs: int


def measure_kappa(
    weights: Array | WeightSampler,
    *,
    sensitivity: float,
    num_pairs: int,
    fraction_bits: int = 23,
    value_range: float,
    generator: np.random.Generator,
    num_parameters: int | None = None,
) -> KappaEstimate:
    """kappa of (26): the mean distance between w and w + x, x uniform on the sphere ||x||_2 = `sensitivity`.

    `weights`: models `[n, M]` or `[M]`, taken in turn, each pair with an x of its own; or a sampler of independent
    weights, `num_parameters` of them for each pair. Memory is a few MB beside the weights, whatever M. Raises
    PrivacyError for NaN or infinity, or values out of range.
    """
    require_positive(sensitivity=sensitivity)
    require_count(num_pairs=num_pairs)
    scale = _scale(fraction_bits, value_range)
    piece, size = _pieces(weights, generator, num_parameters)
    kappa, l1 = np.zeros(num_pairs), np.zeros(num_pairs)
    for pair in range(num_pairs):
        for part, shift in _on_sphere(size, sensitivity, generator):
            model = piece(pair, part)
            shift += model
            one, other = _integers(model, value_range, scale), _integers(shift, value_range, scale)
            kappa[pair] += np.sum(one ^ other, dtype=np.float64)
            other -= one
            l1[pair] += np.sum(np.abs(other, out=other), dtype=np.float64)
    kappa /= scale
    error = float(np.std(kappa, ddof=1)) / math.sqrt(num_pairs) if num_pairs > 1 else math.nan
    return KappaEstimate(
        mean=float(kappa.mean()), standard_error=error, l1_mean=float(l1.mean()) / scale, num_pairs=num_pairs
    )


def _scale(fraction_bits: int, value_range: float) -> float:
    require_positive(value_range=value_range)
    if fraction_bits != int(fraction_bits) or not 1 <= fraction_bits <= _MOST_BITS:
        raise PrivacyError(f"fraction_bits is {fraction_bits}, but must be 1..{_MOST_BITS}", "23 is that of binary32")
    return 2.0**fraction_bits


def _pieces(
    weights: Array | WeightSampler, generator: np.random.Generator, num_parameters: int | None
) -> tuple[Callable[[int, slice], NDArray[np.float64]], int]:
    """A function that returns a part of the weights of a pair as a new array, and M."""
    if callable(weights):
        if num_parameters is None:
            raise PrivacyError("a sampler of weights does not say how many there are", "give num_parameters")
        require_count(num_parameters=num_parameters)
        sampler = weights
        return lambda _, part: np.array(sampler(generator, part.stop - part.start), dtype=np.float64), num_parameters
    models = np.atleast_2d(weights)
    if models.ndim != 2 or models.size == 0:
        raise PrivacyError(f"weights have shape {weights.shape}, but must be models [n, M] or one [M]", "reshape them")
    return lambda pair, part: np.array(models[pair % len(models), part], dtype=np.float64), models.shape[1]


def _chunks(size: int) -> Iterator[slice]:
    for start in range(0, size, _CHUNK):
        yield slice(start, min(start + _CHUNK, size))


def _on_sphere(size: int, radius: float, generator: np.random.Generator) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Uniform on the sphere in `size` dimensions, piece by piece.

    The squared lengths of the pieces share radius^2 like Gamma(m_i / 2) variables divided by their sum, and each
    direction is that of Gaussians. The law is exact without the whole vector in memory.
    """
    parts = list(_chunks(size))
    share = generator.standard_gamma([0.5 * (part.stop - part.start) for part in parts])
    lengths = radius * np.sqrt(share / share.sum())
    for part, length in zip(parts, lengths, strict=True):
        x = generator.standard_normal(part.stop - part.start, dtype=np.float32).astype(np.float64)
        # Not x @ x: the order of BLAS's sum depends on its threads.
        x *= length / math.sqrt(float(np.sum(np.square(x))))
        yield part, x


def _integers(values: NDArray[np.float64], value_range: float, scale: float) -> NDArray[np.int64]:
    """u of each value; works in place on `values` once copied."""
    if not np.isfinite(values).all():
        raise PrivacyError(
            "a weight is NaN or infinite, and its bits mean nothing", "look for a training that diverged"
        )
    u = np.clip(values, -value_range, value_range)
    # Adding 3 r first rounds 52 bits as IEEE 754 does; taking 2 r off again is exact.
    u += 3.0 * value_range
    u -= 2.0 * value_range
    u *= scale / (2.0 * value_range)
    np.rint(u, out=u)
    np.minimum(u, scale - 1.0, out=u)
    return u.astype(np.int64)
