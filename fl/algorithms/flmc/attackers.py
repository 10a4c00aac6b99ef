"""Attackers of many trials side by side, on the gradients, bits or symbols of federated Langevin Monte Carlo.

All arrays are `[num_trials, num_devices, ...]`. Attackers change gradients before they are encoded, bits after the
quantiser, or symbols on the air at full power (`phy.links.jamming`); each method returns its argument where their kind
acts elsewhere. The server does not know them: K, K_a, amplitude and caps are those of honest devices. The privacy of
honest devices is that without attackers, in the noise of the receiver alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fl.attacks.attack import Attack, Place, attacks
from fl.attacks.attacks import choose_attackers, every_bit, number_of
from fl.base.arrays import F64, U8, Bools
from fl.base.errors import LearningError
from phy.config.conflict import Conflict, LeaveOut, Say, Write
from phy.fading.block_taps import UplinkContext
from phy.numerics.draws import round_normals
from phy.numerics.random import Purpose, random_bits, uniform_words

if TYPE_CHECKING:
    from fl.algorithms.flmc.config import FlmcConfig


_PLACES: dict[Place, str] = {
    "labels": "the labels of images",
    "updates": "gradients",
    "bits": "bits",
    "air": "symbols that add up in the air",
}


def check_attack(config: FlmcConfig, *, error_model: str) -> None:
    """Raise LearningError for an attack that has nothing to act on, or that asks for devices that are not there."""
    attack, open_to = config.attack, config.sends.open_to
    if attack is None:
        return
    if attack.acts_on not in open_to:
        able = sorted(word for word in attacks.words() if attacks[word].acts_on in open_to)
        problem = f"attack.kind {attack.kind} acts on {_PLACES[attack.acts_on]}, and scheme {config.scheme} has none"
        others = (Write({"kind": able[0]}), Say(f"another of {', '.join(able)}")) if able else (LeaveOut("attack"),)
        raise LearningError(Conflict("learning.attack.kind learning.scheme learning.attack", problem, *others))
    if attack.acts_on == "air" and error_model == "error_free":
        problem = "an attack on the air sends at the full power of a radio, and error_model error_free has none"
        keys = "link.error_model learning.attack.kind learning.attack"
        raise LearningError(Conflict(keys, problem, Write({"link.error_model": "measured"})))
    choose_attackers(attack, num_devices=config.num_devices, seed=0, trial=0)


class AttackersOfTrials:
    """Nobody, or the devices that `config` names in every trial, the same in all rounds of it."""

    def __init__(self, config: Attack | None, *, num_devices: int, gradient_bound: float) -> None:
        self._config, self._num_devices, self._bound = config, num_devices, gradient_bound
        self._acts_on = None if config is None or number_of(config, num_devices) == 0 else config.acts_on

    @property
    def jam(self) -> bool:
        """Tell if `symbols` are to be sent at full power by those who attack."""
        return self._acts_on == "air"

    @property
    def change_bits(self) -> bool:
        """Tell if `bits` may be other ones than were given."""
        return self._acts_on == "bits"

    def who(self, context: UplinkContext) -> Bools:
        """Who attacks, `[num_trials, num_devices]`."""
        if self._config is None:
            return np.zeros((len(context.trials), self._num_devices), bool)
        return _chosen(self._config, self._num_devices, context.seed, context.trials)

    def gradients(self, gradients: F64, *, context: UplinkContext) -> F64:
        """What is encoded in place of clipped `gradients` `[num_trials, num_devices, m]`, see `Attackers.updates`.

        Clipped to |g| <= l as all are: beyond it a device would break its power constraint.
        """
        if self._config is None or self._acts_on != "updates":
            return gradients
        who = self.who(context)
        sent = self._config.of_gradients(gradients, attackers=who, context=context)
        return np.where(who[..., None], np.clip(sent, -self._bound, self._bound), gradients)

    def bits(self, payload: U8, *, num_bits: int, context: UplinkContext) -> U8:
        """What is sent in place of packed bits `[num_trials, num_devices, ceil(num_bits / 8)]`."""
        if self._config is None or self._acts_on != "bits":
            return payload
        sent = self._config.of_bits(
            payload,
            meant=every_bit(num_bits),
            coins=lambda: random_bits(context.keys(Purpose.ATTACK), num_devices=self._num_devices, num_bits=num_bits),
        )
        return np.where(self.who(context)[..., None], sent, payload)

    def symbols(self, amplitudes: F64, *, context: UplinkContext) -> F64:
        """What is sent in place of `amplitudes` `[num_trials, num_devices, m]`, of mean power 1 at most."""
        if self._config is None or self._acts_on != "air":
            return amplitudes
        sent = self._config.of_air(
            amplitudes,
            words=lambda: uniform_words(
                context.keys(Purpose.ATTACK), num_devices=self._num_devices, num_words=amplitudes.shape[2]
            ),
            normals=lambda: round_normals(context.keys(Purpose.ATTACK), shape=amplitudes.shape),
        )
        return np.where(self.who(context)[..., None], sent, amplitudes)

    def told(self, context: UplinkContext) -> dict[str, F64]:
        """How many attack, `[num_trials]`; nothing where nobody was asked to."""
        return {} if self._config is None else {"num_attackers": self.who(context).sum(axis=1).astype(float)}


@lru_cache(maxsize=4)
def _chosen(config: Attack, num_devices: int, seed: int, trials: tuple[int, ...]) -> Bools:
    rows = [choose_attackers(config, num_devices=num_devices, seed=seed, trial=trial) for trial in trials]
    chosen = np.array(rows)
    chosen.setflags(write=False)
    return chosen
