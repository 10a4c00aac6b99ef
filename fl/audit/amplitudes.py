"""What amplitude FLMC may send with in the rounds of a game, where a budget for the run sets or watches it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fl.accounting.amplitudes import AmplitudeAllowance, power_peak
from fl.accounting.ledger_flmc import amplitude_caps
from fl.audit.rounds import weakest_rounds
from fl.uplink.channel_credit import sure_noise_power
from phy.config import LinkConfig
from privacy.config import AmplitudeMechanism

if TYPE_CHECKING:
    from fl.learning.flmc import FlmcConfig

Floats = NDArray[np.float64]


class RoundAmplitudes:
    """Caps `[num_trials]` of every round played, and the largest amplitudes that were met in them.

    A budget that was calibrated gives every round its cap, and the games last for the rounds with the largest; one that
    only watches lets the first rounds send until it is spent up. `caps`: those in force anyway. Raises PrivacyError as
    the run does, and LearningError for more `rounds` than it has.
    """

    def __init__(
        self,
        config: FlmcConfig,
        *,
        link: LinkConfig,
        privacy: AmplitudeMechanism | None,
        caps: Mapping[str, float],
        rounds: int,
        num_trials: int,
    ) -> None:
        self._always, self._num_trials = caps, num_trials
        self._found: Floats | None = None
        self._fresh: AmplitudeAllowance | None = None
        budget = None if privacy is None else privacy.budget
        if budget is not None and budget.calibrate:
            noise_power = sure_noise_power(link, privacy=privacy)
            self._found = amplitude_caps(config, budget=budget, noise_power=noise_power)
        elif privacy is not None and budget is not None:
            strongest = power_peak(config, link=link)
            ceiling = min(*caps.values(), np.inf if strongest is None else strongest)
            self._fresh = AmplitudeAllowance(
                config,
                link=link,
                privacy=privacy,
                ceilings=np.full(num_trials, ceiling),
                known=strongest is not None,
            )
        self._left = self._fresh
        self.played = weakest_rounds(np.zeros(config.rounds) if self._found is None else self._found, count=rounds)
        self._peaks: dict[int, float] = {}

    def begin(self) -> None:
        """New games, of which nothing is spent yet."""
        self._left = copy.deepcopy(self._fresh)

    def caps(self, round_index: int) -> Mapping[str, ArrayLike]:
        """All caps of a round; 0 where nothing is left to send with."""
        if self._found is not None:
            return {**self._always, "budget": np.full(self._num_trials, self._found[round_index])}
        if self._left is not None:
            return {**self._always, "budget": self._left.caps(round_index)}
        return self._always

    def note(self, round_index: int, peak_amplitude: Floats) -> None:
        """What a round was really sent with, `[num_trials]`."""
        if self._left is not None:
            self._left.note(peak_amplitude)
        # Rounds with the same cap are alike: what fades in one may in another.
        kind = round_index if self._found is not None or self._left is not None else self.played.indices[0]
        self._peaks[kind] = max(self._peaks.get(kind, 0.0), float(peak_amplitude.max(initial=0.0)))

    def met(self) -> tuple[float, ...]:
        """The largest amplitude of every round played, 0 where nothing was sent, or of none played yet."""
        if not self._peaks:
            return ()
        return tuple(self._peaks.get(index, self._peaks[self.played.indices[0]]) for index in self.played.indices)
