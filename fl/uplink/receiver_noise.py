"""The receiver's noise as the Gaussian mechanism on a sum of updates, and the receive amplitude that it allows.

Device k arrives as A_k x_k, S symbols of norm ||x_k|| <= sqrt(S). If all data of a device are replaced, the sum moves
by d A sqrt(S) at most, d = 2 in general, with A the largest amplitude at which a device arrives. In noise of variance
N0 per real dimension this is the Gaussian mechanism with noise multiplier

    z = sqrt(N0) / (d A sqrt(S)),

and what the server makes of the sum releases nothing more. A must not depend on data.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fl.base.arrays import F64
from fl.uplink.budgets import multipliers
from fl.uplink.channel_credit import sure_noise_power
from fl.uplink.plan import UploadPlan
from phy.config import LinkConfig
from phy.links.power import AmplitudeDecision
from privacy.config import ReceiverNoise


class NoiseOfSum:
    """What the receiver's noise does for sums of uploads of S symbols that are at most `distance` sqrt(S) apart.

    `caps` `[num_rounds]` on A over `link`. Raises PrivacyError for a budget that holds nothing.
    """

    def __init__(
        self, plan: UploadPlan, num_symbols: int, *, link: LinkConfig, privacy: ReceiverNoise, distance: float
    ) -> None:
        self._noise_power, self._distance = sure_noise_power(link, privacy=privacy), distance * math.sqrt(num_symbols)
        self.caps = self._other(multipliers(plan, link=link, privacy=privacy))

    def multiplier(self, decision: AmplitudeDecision) -> F64:
        """Return z of every device `[num_devices]`; infinite for one that was not on the air."""
        return np.where(decision.active[0], self._other(decision.peak_amplitude[0]), np.inf)

    def _other(self, one: ArrayLike) -> F64:
        """Return z = sqrt(N0) / (d A sqrt(S)) of amplitudes A, infinite at 0; or A of z."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.sqrt(self._noise_power) / (self._distance * np.asarray(one, np.float64)))
