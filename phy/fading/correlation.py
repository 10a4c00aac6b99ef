"""Correlation of channels over time, R(d) = E[h(t) conj(h(t + d))], which estimators assume."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

LOS_DOPPLER = 0.7
"""Doppler shift of the direct path over the largest one: TR 38.901 7.7.2, where the spectrum peaks at 0.7 f_D."""


def clarke_correlation(lag_s: ArrayLike, *, doppler_hz: float, los_power: float) -> NDArray[np.complex128]:
    """Isotropic scattering of power 1 - `los_power` around a direct path, elementwise.

    R(lag) = (1 - P) J0(2 pi f_D lag) + P exp(-2 pi i 0.7 f_D lag) (Clarke, "A statistical theory of mobile-radio
    reception", Bell Syst. Tech. J. 1968).
    """
    from scipy import special

    turns = doppler_hz * np.asarray(lag_s, float)
    direct = np.exp(-2j * np.pi * turns * LOS_DOPPLER)
    return np.asarray((1.0 - los_power) * special.j0(2.0 * np.pi * turns) + los_power * direct, np.complex128)
