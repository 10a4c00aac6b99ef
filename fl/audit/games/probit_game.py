"""PRoBit under attack at the smallest b that any of its rounds may take, where its promise is weakest.

The adaptive rule follows what the server has made public, which data and attackers can bring down to its floor: what
epsilon asks for, or a fixed share of the first b.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fl.config.scheme import ProbitScheme
from fl.schemes.probit.probit import Probit, first_bound, needed_bound
from fl.schemes.probit.probit_bound import SMALLEST_SHARE
from fl.schemes.rounds import EveryRound
from phy.fading.block_taps import UplinkContext


def smallest_bound(scheme: ProbitScheme, *, size: int | None) -> float:
    """The smallest b of any round, for models of `size` numbers (None: any)."""
    first = first_bound(scheme, num_values=size)
    if scheme.bound != "adaptive":
        return first
    needed = 0.0
    if scheme.epsilon is not None:
        needed = needed_bound(scheme.epsilon, scheme.l1_clip, scheme.clip, form=scheme.form, num_values=size)
    return max(SMALLEST_SHARE * first, needed)


def told_bound(scheme: ProbitScheme, *, size: int | None) -> str:
    """b of the games in words."""
    least = smallest_bound(scheme, size=size)
    if scheme.bound != "adaptive":
        return f"b {least:.4g}"
    first = first_bound(scheme, num_values=size)
    return f"b at {least:.4g}, the smallest that the adaptive rule may take (it starts at {first:.4g})"


def steady_probit(scheme: ProbitScheme, *, num_values: int, size: int | None) -> SteadyProbit:
    """The scheme at its smallest b for models of `size` numbers, `num_values` of which are played."""
    probit = Probit(
        num_values=num_values,
        b=smallest_bound(scheme, size=size),
        clip=scheme.clip,
        epsilon=scheme.epsilon,
        l1_clip=scheme.l1_clip,
        form=scheme.form,
    )
    return SteadyProbit(probit, native=scheme.channel == "native" and scheme.epsilon is not None)


class SteadyProbit(EveryRound):
    """One b in every round, less for devices whose channel surely flips where that is credited (`native`)."""

    def __init__(self, probit: Probit, *, native: bool) -> None:
        super().__init__(probit)
        self._probit, self._native = probit, native

    def begin(self, context: UplinkContext, *, credited: NDArray[np.float64]) -> None:
        """See `SchemeRounds.begin`."""
        del context
        if self._native:
            self._scheme = self._probit.over_channel(credited)
