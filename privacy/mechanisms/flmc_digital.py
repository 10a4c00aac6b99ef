"""Privacy loss of one round of digital (one-bit, superposed) FLMC: Zhang et al. 2022, (16).

A device sends each of its m gradient entries as +-1, +1 with probability Phi(g) = 1 / (1 + exp(-a g)),
|g| <= l; K devices superpose with received amplitude A in real Gaussian noise of power N0. The loss of one
entry, seen at the residual t, is

    f(t) = ln [ (Phi(l) e^x + Phi(-l)) / (Phi(-l) e^x + Phi(l)) ],   x = 2 A t / N0,

and the worst symbols of the other devices give t = z +- A (K-1):

    L*(z) = max( |sum_i f(z_i + A (K-1))|, |sum_i f(z_i - A (K-1))| ),   z_i ~ N(0, N0) i.i.d.

For a device on its own resource, its own symbol is the one unknown: this is num_devices = 2. Amplitude A and
noise_power N0 share a unit (A^2 and N0 are powers at the receiver); epsilon and losses are in nats.
"""

from __future__ import annotations

import math
from functools import lru_cache

from privacy.errors import PrivacyError, require_amplitude, require_count, require_positive, require_probability
from privacy.mechanisms._digital_tail import DELTA_RESOLUTION, exceedance

# Tolerance for an epsilon that equals the bound m a l up to rounding.
_BOUND_SLACK = 1e-12


def digital_loss_bound(*, dimension: int, gradient_bound: float, quantizer_slope: float) -> float:
    """m ln(Phi(l) / Phi(-l)) = m a l, the largest loss of one round at any amplitude and noise [nats].

    Zhang et al. 2022, text after (17). From this epsilon on the amplitude needs no cap. Raises PrivacyError.
    """
    require_count(dimension=dimension)
    require_positive(gradient_bound=gradient_bound, quantizer_slope=quantizer_slope)
    return dimension * quantizer_slope * gradient_bound


def digital_delta(
    epsilon: float,
    *,
    amplitude: float,
    dimension: int,
    gradient_bound: float,
    quantizer_slope: float,
    num_devices: int,
    noise_power: float,
) -> float:
    """Pr(L*(z) > epsilon) of Zhang et al. 2022 (16), without sampling.

    Exactly 0 for epsilon >= m a l. Where m f(A (K-1)) <= epsilon, which covers every delta of use for a cap,
    the absolute error is about 1e-13, or 1e-6 where entries saturate. Elsewhere delta is large, 0.5 to 1,
    and good to 1e-3, except that for an epsilon within a percent of m a l it may be overstated, never
    understated. Raises PrivacyError for arguments out of range.
    """
    require_positive(epsilon=epsilon)
    require_count(dimension=dimension)
    require_amplitude(amplitude)
    _check(gradient_bound, quantizer_slope, num_devices, noise_power)
    bound = digital_loss_bound(dimension=dimension, gradient_bound=gradient_bound, quantizer_slope=quantizer_slope)
    if amplitude == 0 or epsilon >= bound * (1 - _BOUND_SLACK):
        return 0.0
    return exceedance(
        epsilon,
        relative=_relative(amplitude, noise_power),
        entry_bound=quantizer_slope * gradient_bound,
        dimension=dimension,
        num_devices=num_devices,
    )


@lru_cache(maxsize=1024)
def digital_amplitude_cap(
    epsilon: float,
    delta: float,
    *,
    dimension: int,
    gradient_bound: float,
    quantizer_slope: float,
    num_devices: int,
    noise_power: float,
) -> float:
    """The largest A up to which Pr(L*(z) <= epsilon) >= 1 - delta holds, Zhang et al. 2022 (11) with (16).

    The first crossing as A grows, found to 1e-8 relative on the admissible side, in the unit of
    sqrt(noise_power); math.inf where no amplitude breaks the bound, as for epsilon >= m a l. Raises
    PrivacyError for arguments out of range, and for a delta below what `digital_delta` resolves.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtri

    require_probability(delta=delta)
    require_positive(epsilon=epsilon)
    _check(gradient_bound, quantizer_slope, num_devices, noise_power)
    if delta < DELTA_RESOLUTION:
        raise PrivacyError(
            f"delta is {delta}, below {DELTA_RESOLUTION}, the least a digital amplitude cap resolves",
            "ask for a larger delta, or for epsilon = m a l, which holds with delta 0",
        )
    bound = digital_loss_bound(dimension=dimension, gradient_bound=gradient_bound, quantizer_slope=quantizer_slope)
    if epsilon >= bound * (1 - _BOUND_SLACK):
        return math.inf
    entry_bound = quantizer_slope * gradient_bound

    def spent(log_relative: float) -> float:
        return exceedance(
            epsilon,
            relative=math.exp(log_relative),
            entry_bound=entry_bound,
            dimension=dimension,
            num_devices=num_devices,
        )

    def margin(log_relative: float) -> float:
        # The Gaussian quantile of delta is nearly a straight line in ln A, which root finding likes.
        return float(ndtri(min(max(spent(log_relative), 1e-16), 1 - 1e-16))) - goal

    goal = float(ndtri(delta))
    low = math.log(_linear_cap(epsilon, delta, entry_bound=entry_bound, dimension=dimension, num_devices=num_devices))
    while margin(low) > 0:
        low -= 0.7
    high = low + 0.2
    while margin(high) <= 0:
        # Only K = 1 stays here: saturated entries are then fair coins, and delta has a ceiling below 1.
        if high > math.log(1e3):
            return math.inf
        low, high = high, high + 0.2
    root = float(brentq(margin, low, high, xtol=1e-9))
    # The root may stand an ulp on the wrong side; step back until the promise holds as computed.
    step = 1e-8
    while spent(root) > delta:
        root, step = root - step, 2 * step
    return math.exp(root) * math.sqrt(noise_power)


def _linear_cap(epsilon: float, delta: float, *, entry_bound: float, dimension: int, num_devices: int) -> float:
    """The cap of the loss linearised at 0, halved, in units of sqrt(N0): a safe start to search upward."""
    from scipy.special import ndtri

    # 2 T (m (K-1) r^2 + q sqrt(m) r) = epsilon, T = tanh(a l / 2) the slope and q the upper delta/2 quantile.
    quadratic = dimension * (num_devices - 1)
    linear = float(-ndtri(delta / 2)) * math.sqrt(dimension)
    target = epsilon / (2 * math.tanh(entry_bound / 2))
    return target / (linear + math.sqrt(linear**2 + 4 * quadratic * target))


def _relative(amplitude: float, noise_power: float) -> float:
    # Within these limits 2 r and 1 / r are finite; below, the loss is no loss, and above, all is saturated.
    return min(max(amplitude / math.sqrt(noise_power), 1e-150), 1e150)


def _check(gradient_bound: float, quantizer_slope: float, num_devices: int, noise_power: float) -> None:
    require_positive(gradient_bound=gradient_bound, quantizer_slope=quantizer_slope, noise_power=noise_power)
    require_count(num_devices=num_devices)
