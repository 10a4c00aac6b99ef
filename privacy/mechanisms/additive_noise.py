"""Pure epsilon from noise added to bounded numbers: Laplace for one number, multivariate t for a vector.

Both densities have bounded ratios, so that eps holds with delta 0.
"""

from __future__ import annotations

import math

from privacy.errors import PrivacyError, require_count, require_positive

T_FREEDOM = 6
"""Degrees of freedom nu of the noise on vectors: 6 gives the least variance for two numbers at small eps."""


def laplace_scale(epsilon: float, *, width: float) -> float:
    """b = width / eps of Laplace noise, density e^(-|x|/b) / 2b, variance 2 b^2, on a number from a range of `width`.

    Raises PrivacyError for values that are not positive and finite.
    """
    require_positive(epsilon=epsilon, width=width)
    return width / epsilon


def laplace_epsilon(scale: float, *, width: float) -> float:
    """eps = width / b, the inverse of `laplace_scale`."""
    require_positive(scale=scale, width=width)
    return width / scale


def t_scale(epsilon: float, *, dimension: int, diameter: float, freedom: int = T_FREEDOM) -> float:
    """s of multivariate t noise, density ~ (1 + ||x||^2 / s^2)^(-(nu + L) / 2), on vectors at most `diameter` apart.

    The ratio of densities D apart is at most ((D + sqrt(D^2 + 4 s^2)) / 2s)^(nu + L) = e^((nu + L) asinh(D / 2s)), so
    that eps = (nu + L) asinh(D / 2s), and s = D / (2 sinh(eps / (nu + L))). The variance of every entry is
    s^2 / (nu - 2). Raises PrivacyError for values out of range.
    """
    require_positive(epsilon=epsilon, diameter=diameter)
    _check(dimension, freedom)
    half = epsilon / (freedom + dimension)
    return diameter / (2.0 * math.sinh(half)) if half < 700.0 else diameter * math.exp(-half)


def t_epsilon(scale: float, *, dimension: int, diameter: float, freedom: int = T_FREEDOM) -> float:
    """eps = (nu + L) asinh(D / 2s), the inverse of `t_scale`."""
    require_positive(scale=scale, diameter=diameter)
    _check(dimension, freedom)
    return (freedom + dimension) * math.asinh(diameter / (2.0 * scale))


def _check(dimension: int, freedom: int) -> None:
    require_count(dimension=dimension)
    if freedom <= 2:
        raise PrivacyError(f"freedom is {freedom}, but t noise has a variance from 3 on only", "give 6, say")
