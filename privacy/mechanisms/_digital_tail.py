"""Numerical law of the digital loss L*(z) of `privacy.mechanisms.flmc_digital`.

Lengths are in units of the noise: w = z / sqrt(N0) ~ N(0, 1), r = A / sqrt(N0), c = r (K-1), and the entry
loss f has the bound b = a l. With S+ = sum f(w_i + c) and S- = sum f(w_i - c), S- <= S+ since f increases, so

    L* > eps  <=>  S+ > eps or S- < -eps,        delta = 2 Pr(S+ > eps) - Pr(S+ > eps and S- < -eps).

f is odd, and concave above 0, so f(w+c) - f(w-c) <= 2 f(c): if m f(c) <= eps the two sides cannot both exceed
and delta = 2 Pr(S+ > eps), a tail in one dimension. Otherwise, with U = (S+ + S-)/2 and V = (S+ - S-)/2,
delta = Pr(|U| + V > eps), a convolution in two.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

DELTA_RESOLUTION = 1e-12

Array = NDArray[np.float64]

_REACH = 8.5  # Pr(|w| > 8.5) is 2e-17
_BLOCK = 128
_MAX_BLOCKS = 16
_SERIES_NODES = 512
_CELLS = 1 << 16
_NEGLIGIBLE = 1e-14


def entry_loss(t: Array, *, relative: float, entry_bound: float) -> Array:
    """f(t) = ln[(e^x + e^-b) / (e^(x-b) + 1)], x = 2 r t; odd, increasing, |f| <= b; any shape."""
    # Beyond b + 50 the loss is b to the last digit, and a finite x avoids inf - inf.
    x = 2.0 * relative * np.minimum(np.abs(t), (entry_bound + 50.0) / (2.0 * relative))
    small = np.minimum(x, 1.0)
    # Near 0 the difference of logarithms cancels; log1p of the excess over 1 keeps the relative accuracy.
    near = np.log1p(np.expm1(small) * -math.expm1(-entry_bound) / (1.0 + np.exp(small - entry_bound)))
    far = np.logaddexp(x, -entry_bound) - np.logaddexp(x - entry_bound, 0.0)
    return np.copysign(np.minimum(np.where(x < 1.0, near, far), entry_bound), t)


def inverse_entry_loss(loss: Array, *, relative: float, entry_bound: float) -> Array:
    """t with f(t) = loss; -inf and inf at and beyond -b and b."""
    inside = np.minimum(np.abs(loss), entry_bound)
    with np.errstate(divide="ignore"):
        x = inside + np.log1p(-np.exp(-entry_bound - inside)) - np.log1p(-np.exp(inside - entry_bound))
    return np.copysign(x / (2.0 * relative), loss)


def exceedance(epsilon: float, *, relative: float, entry_bound: float, dimension: int, num_devices: int) -> float:
    """Pr(L*(z) > epsilon) in [0, 1], for 0 < epsilon < m b and relative = A / sqrt(N0) > 0."""
    shift = relative * (num_devices - 1)
    if dimension == 1:
        # |f(w + c)| <= eps and |f(w - c)| <= eps are |w| <= t - c, f(t) = eps: no sum, no approximation.
        edge = inverse_entry_loss(np.array(epsilon), relative=relative, entry_bound=entry_bound)
        return min(1.0, 2.0 * _gaussian_tail(float(edge) - shift)) if edge > shift else 1.0
    centre = float(entry_loss(np.array(shift), relative=relative, entry_bound=entry_bound))
    law = {"relative": relative, "entry_bound": entry_bound, "shift": shift}
    series = _tail_by_series(epsilon, dimension=dimension, **law)
    tail = _tail_by_cells(epsilon, dimension=dimension, **law) if series is None else series
    delta = 2.0 * tail
    if dimension * centre > epsilon:
        # The union bound limits the error of the coarse grid in two dimensions.
        delta = min(max(_both_sides(epsilon, dimension=dimension, **law), tail), delta)
    return min(1.0, max(0.0, delta))


def _gaussian_tail(edge: float) -> float:
    return 0.5 * math.erfc(edge / math.sqrt(2.0))


def _gaussian_nodes(count: int) -> tuple[Array, Array]:
    """Trapezoid nodes and weights for w ~ N(0, 1); spectrally accurate for analytic integrands."""
    w = np.linspace(-_REACH, _REACH, count)
    weight = np.exp(-0.5 * w**2)
    return w, weight / weight.sum()


def _tail_by_series(
    epsilon: float, *, relative: float, entry_bound: float, dimension: int, shift: float
) -> float | None:
    """Pr(S+ > eps) by Gil-Pelaez inversion of phi(u)^m as a Fourier series, or None if phi decays too slowly.

    S+ is bounded, so frequencies u_k = 2 pi k / P suffice once the period P covers its support.
    """
    w, weight = _gaussian_nodes(_SERIES_NODES)
    x = entry_loss(w + shift, relative=relative, entry_bound=entry_bound)
    low, high = dimension * float(x[0]), dimension * float(x[-1])
    if epsilon >= high:
        return 0.0
    if epsilon <= low:
        return 1.0
    period = 1.02 * (high - low)
    top = high + 0.01 * (high - low)
    base = 2.0 * math.pi / period
    # The trapezoid rule aliases where a step of w of any weight turns e^(iux) by some 3 radians.
    turn = np.diff(x)
    steepest = np.argsort(-turn)
    heavy = int(np.searchsorted(np.cumsum(weight[steepest]), _NEGLIGIBLE))
    widest = base * float(turn[steepest[min(heavy, turn.size - 1)]])
    if widest == 0.0:  # all but a negligible part saturates
        return None
    resolved = int(3.0 / widest)
    # Centring keeps the phases small, hence their rounding.
    middle = 0.5 * float(x[0] + x[-1])
    first_block = np.exp(1j * base * np.outer(np.arange(_BLOCK), x - middle))
    tail = (top - epsilon) / period
    for block in range(min(_MAX_BLOCKS, resolved // _BLOCK + 1)):
        k = np.arange(block * _BLOCK, (block + 1) * _BLOCK)
        turned = weight * np.exp(1j * base * block * _BLOCK * (x - middle))
        phi = (first_block @ turned) ** dimension
        if block == 0:
            k, phi = k[1:], phi[1:]
        u = base * k
        at_top = np.exp(1j * u * (dimension * middle - top))
        at_epsilon = np.exp(1j * u * (dimension * middle - epsilon))
        tail += 2.0 / period * float(np.sum(phi * (at_top - at_epsilon) / (-1j * u)).real)
        # |phi| oscillates for a clipped law, so the whole last quarter must have vanished.
        if np.max(np.abs(phi[-_BLOCK // 4 :])) < _NEGLIGIBLE:
            return tail
    return None


def _tail_by_cells(epsilon: float, *, relative: float, entry_bound: float, dimension: int, shift: float) -> float:
    """Pr(S+ > eps) by FFT convolution of exact cell masses, for saturated entries whose phi decays slowly.

    Taken as Pr(sum Y_i < m b - eps) of the shortfalls Y = b - f(w + c) >= 0, of which only those below
    m b - eps matter: the grid spans just these, however near to m b epsilon is. Cell centres are multiples
    of h, 0 and 2 b among them, so that the near-atoms of saturation stay put.
    """
    from scipy.special import ndtr

    room = dimension * entry_bound - epsilon
    size = _CELLS
    step = room / (size - 2)
    if room > 2.0 * entry_bound:
        step = 2.0 * entry_bound / math.floor(2.0 * entry_bound / step)
    edges = (np.arange(size) + 0.5) * step
    edges = edges[edges < 2.0 * entry_bound]
    # f^-1(b - y), written in y: near b the difference would lose the digits of y.
    x = entry_bound - edges + np.log(-np.expm1(edges - 2.0 * entry_bound)) - np.log(-np.expm1(-edges))
    below = ndtr(shift - x / (2.0 * relative))
    mass = np.diff(np.concatenate(([0.0], below, [1.0])))[:size]
    # Shrinking mass by e^(-damp j) keeps what wraps around the circle of 2 n cells below rounding.
    damp = 32.0 / (2 * size)
    law = np.fft.irfft(np.fft.rfft(mass * np.exp(-damp * np.arange(mass.size)), 2 * size) ** dimension, 2 * size)
    j = np.arange(size)
    return float(np.sum(law[:size] * np.exp(damp * j) * np.clip(room / step - j + 0.5, 0.0, 1.0)))


def _both_sides(epsilon: float, *, relative: float, entry_bound: float, dimension: int, shift: float) -> float:
    """Pr(|U| + V > eps) by FFT convolution on a grid scaled to U and to V: good to 1e-3.

    U and V rather than S+ and S-, which nearly coincide up to a constant where f is nearly linear. Where
    epsilon is too near to m b for the grid, the result is 1: delta is large there, and 1 is an upper bound.
    """
    w, weight = _gaussian_nodes(4096)
    above = entry_loss(w + shift, relative=relative, entry_bound=entry_bound)
    below = entry_loss(w - shift, relative=relative, entry_bound=entry_bound)
    if dimension * above[0] > epsilon:
        return 1.0
    num_u, num_v = 1024, 256
    u_cells, u_shares, u_step, _ = _split(0.5 * (above + below), weight, num_cells=num_u, dimension=dimension)
    v_cells, v_shares, v_step, v_mean = _split(0.5 * (above - below), weight, num_cells=num_v, dimension=dimension)
    if dimension * entry_bound - epsilon < 8.0 * max(u_step, v_step):
        return 1.0
    flat = u_cells[:, None] * num_v + v_cells[None, :]
    share = weight * u_shares[:, None] * v_shares[None, :]
    mass = np.bincount(flat.ravel(), weights=share.ravel(), minlength=num_u * num_v)
    spectrum = np.fft.rfft2(mass.reshape(num_u, num_v)) ** dimension
    law = np.fft.fftshift(np.fft.irfft2(spectrum, (num_u, num_v)))
    u = np.abs(np.arange(num_u) - num_u // 2) * u_step
    v = dimension * v_mean + (np.arange(num_v) - num_v // 2) * v_step
    # A cell counts by the part of its width in U that lies outside, which makes delta continuous in epsilon.
    outside = np.clip((u[:, None] + v[None, :] - epsilon) / u_step + 0.5, 0.0, 1.0)
    return float(np.sum(law * outside))


def _split(
    value: Array, weight: Array, *, num_cells: int, dimension: int
) -> tuple[NDArray[np.int64], Array, float, float]:
    """Cells [4, n] on a torus and shares [4, n] of every value, the step, and the mean, which is cell 0.

    The shares are Lagrange's: they keep three moments; a split over two cells would widen a sum of many.
    The torus spans what a sum of `dimension` values reaches: its support, or 12 standard deviations each way.
    """
    mean = float(np.sum(weight * value))
    deviation = math.sqrt(float(np.sum(weight * (value - mean) ** 2)))
    reach = min(dimension * float(np.max(np.abs(value - mean))), 12.0 * math.sqrt(dimension) * deviation)
    # A constant value has no reach; any step above 0 is valid.
    step = max(2.02 * reach / (num_cells - 8), 1e-12 * max(1.0, abs(mean)))
    position = (value - mean) / step
    index = np.floor(position).astype(np.int64)
    p = position - index
    shares = np.stack(
        [
            -p * (p - 1) * (p - 2) / 6,
            (p + 1) * (p - 1) * (p - 2) / 2,
            -(p + 1) * p * (p - 2) / 2,
            (p + 1) * p * (p - 1) / 6,
        ]
    )
    return (index + np.arange(-1, 3)[:, None]) % num_cells, shares, step, mean
