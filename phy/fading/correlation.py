"""Correlation of channels over time, R(d) = E[h(t) conj(h(t + d))], which estimators assume."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

LOS_ANGLE_TURNS = 1.0 / 8.0
"""Angle between the direct path and the direction of motion, pi / 4 as Sionna's TDL has it."""


def clarke_correlation(lag_s: ArrayLike, *, doppler_hz: float, los_power: float) -> NDArray[np.complex128]:
    """Isotropic scattering of power 1 - `los_power` around a direct path, elementwise.

    R(lag) = (1 - P) J0(2 pi f_D lag) + P exp(-2 pi i f_D cos(theta) lag), theta the angle of the direct path (Clarke,
    "A statistical theory of mobile-radio reception", Bell Syst. Tech. J. 1968).
    """
    from scipy import special

    turns = doppler_hz * np.asarray(lag_s, float)
    direct = np.exp(-2j * np.pi * turns * np.cos(2.0 * np.pi * LOS_ANGLE_TURNS))
    return np.asarray((1.0 - los_power) * special.j0(2.0 * np.pi * turns) + los_power * direct, np.complex128)
