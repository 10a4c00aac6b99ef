"""Images from gradients: the closed form for a linear layer with bias, and how like the originals they are.

Of one image x the gradient of any loss of the logits W x + b is g_b = dL/db and g_W,c = g_b,c x for every class c: a
layer with bias gives its input away (Geiping et al. 2020, Proposition 3.1; without a closed form, by optimisation, Zhu,
Liu and Han 2019). What arrives is noisy; the x that minimises sum_c ||g_W,c - g_b,c x||^2 is

    x = sum_c g_b,c g_W,c / sum_c g_b,c^2,

whatever factor the update has. Of several images it is a mean of them, image i weighted by <g_b, g_b,i>.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROUNDING = 2.0**-24
"""Of single precision: squared errors below its square are not told apart."""


def invert_linear(kernel: NDArray[Any], bias: NDArray[Any]) -> NDArray[np.float64]:
    """Inputs x `[K, D]` float64 from gradients, or updates, `kernel` `[K, D, C]` and `bias` `[K, C]`.

    Zeros where the bias has no gradient at all.
    """
    along = np.einsum("kdc,kc->kd", kernel, bias, dtype=np.float64)
    power = np.einsum("kc,kc->k", bias, bias, dtype=np.float64)[:, None]
    return np.asarray(np.divide(along, power, out=np.zeros_like(along), where=power > 0.0))


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """How like its original each of K reconstructions is, `[K]`.

    - `best`: which of the device's n images it is most like, which the others refer to;
    - `correlation`: Pearson's, over pixels; 0 where an image has one grey alone;
    - `squared_error`: mean over pixels in [0, 1];
    - `recognised`: of all images of the set one of the device's is the most correlated one.
    """

    best: NDArray[np.int64]
    correlation: NDArray[np.float64]
    squared_error: NDArray[np.float64]
    recognised: NDArray[np.bool_]


def likeness(rebuilt: NDArray[Any], *, held: NDArray[np.int64], images: NDArray[Any]) -> Likeness:
    """Compare `rebuilt` `[K, D]` with the images `held` `[K, n]` of the whole set `images` `[N, D]`, all in [0, 1]."""
    matches = _standardised(rebuilt) @ _standardised(images).T
    own = np.take_along_axis(matches, held, axis=1)
    best = own.argmax(axis=1)
    correlation = own.max(axis=1)
    # Of equal images, and of nothing at all, none is recognised by its place in the set.
    recognised = (correlation >= matches.max(axis=1)) & (correlation > 0.0)
    original = images[np.take_along_axis(held, best[:, None], axis=1)[:, 0]]
    return Likeness(
        best=best,
        correlation=correlation,
        squared_error=((rebuilt - original) ** 2).mean(axis=1),
        recognised=recognised,
    )


def psnr_db(squared_error: NDArray[Any]) -> float:
    """-10 log10 of the mean squared error of pixels in [0, 1]; at most 144.5 dB, where single precision ends."""
    return float(-10.0 * np.log10(max(float(np.mean(squared_error)), _ROUNDING**2)))


def _standardised(images: NDArray[Any]) -> NDArray[np.float64]:
    """Mean 0 and length 1; an image of one grey becomes zeros."""
    centred = images - images.mean(axis=1, keepdims=True, dtype=np.float64)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(np.divide(centred, length, out=np.zeros_like(centred), where=length > 1e-12))
