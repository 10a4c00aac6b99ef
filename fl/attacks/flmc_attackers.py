"""Attackers of many trials side by side, on the gradients, bits or symbols of federated Langevin Monte Carlo.

All arrays are `[num_trials, num_devices, ...]`, and each function leaves alone what its kind does not concern:

    gradients   before they are encoded; clipped to l again      `gaussian`, `sign-flip`, `scale`, `zero-gradient`,
                                                                 `duplicate`
    bits        after the quantiser, digital schemes             `ones`, `invert`, `random`
    symbols     on the air, at full power (`phy.links.jamming`)        `jam`

The server knows of none of them: K, K_a, amplitude and caps are those of devices that are all honest. What attackers
send is no noise that honest devices may count on: their privacy is that without attackers, in receiver noise alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fl.attacks.attacks import NUMBER_KINDS, choose_attackers, every_bit, number_of
from fl.config import AttackConfig, FlmcConfig
from fl.draws import normals
from fl.tasks.base import LearningError
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose, random_bits, uniform_words

_ACTS_ON = {
    **dict.fromkeys(NUMBER_KINDS, ("digital", "digital-orthogonal", "analog", "noiseless")),
    **dict.fromkeys(("ones", "invert", "random"), ("digital", "digital-orthogonal")),
    "jam": ("digital", "analog"),
}
"""Schemes that have what a kind acts on."""


def check_attack(config: FlmcConfig, *, error_model: str) -> None:
    """Raise LearningError for an attack that has nothing to act on, or that asks for devices that are not there."""
    attack, scheme = config.attack, config.scheme
    if attack is None:
        return
    if scheme == "exact":
        raise LearningError("scheme exact draws from the posterior and hears no device; leave attack out")
    if attack.kind == "labels":
        raise LearningError(
            "attack.kind labels poisons the images of federated averaging, and flmc has none; write kind: sign-flip"
        )
    if scheme not in _ACTS_ON[attack.kind]:
        if attack.kind == "jam":
            raise LearningError(
                f"a jammer acts on symbols that add up in the air, and with scheme {scheme} none do; write scheme: "
                "digital or analog, or another attack.kind"
            )
        raise LearningError(
            f"attack.kind {attack.kind} acts on bits, and scheme {scheme} sends none; write kind: sign-flip or jam, or "
            "scheme: digital"
        )
    if attack.kind == "jam" and error_model == "error_free":
        raise LearningError(
            "a jammer sends at the full power of a radio, and error_model error_free has none; write error_model: "
            "measured"
        )
    choose_attackers(attack, num_devices=config.num_devices, seed=0, trial=0)


class AttackersOfTrials:
    """Nobody, or the devices that `config` names in every trial, the same in all rounds of it."""

    def __init__(self, config: AttackConfig | None, *, num_devices: int, gradient_bound: float) -> None:
        self._config, self._num_devices, self._bound = config, num_devices, gradient_bound
        self._chosen: tuple[tuple[object, ...], NDArray[np.bool_]] | None = None
        self._kind = None if config is None or number_of(config, num_devices) == 0 else config.kind

    @property
    def jam(self) -> bool:
        """Whether `symbols` are to be sent at full power by those who attack."""
        return self._kind == "jam"

    def who(self, context: UplinkContext) -> NDArray[np.bool_]:
        """Who attacks, `[num_trials, num_devices]`."""
        which = (context.seed, context.trials)
        if self._config is None:
            return np.zeros((len(context.trials), self._num_devices), bool)
        if self._chosen is None or self._chosen[0] != which:
            rows = [
                choose_attackers(self._config, num_devices=self._num_devices, seed=context.seed, trial=trial)
                for trial in context.trials
            ]
            self._chosen = (which, np.array(rows))
        return self._chosen[1]

    def gradients(self, gradients: NDArray[np.float64], *, context: UplinkContext) -> NDArray[np.float64]:
        """What is encoded in place of clipped `gradients` `[num_trials, num_devices, m]`, see `attack_updates`.

        Clipped to |g| <= l as all are: beyond it a device would break its power constraint.
        """
        if self._config is None or self._kind not in NUMBER_KINDS:
            return gradients
        who = self.who(context)[..., None]
        told: NDArray[np.float64]
        if self._kind == "zero-gradient":
            total = np.where(who, 0.0, gradients).sum(axis=1, keepdims=True)
            told = -total / np.maximum(who.sum(axis=1, keepdims=True), 1)
        elif self._kind == "duplicate":
            told = np.take_along_axis(gradients, np.argmin(who, axis=1)[:, None], axis=1)
        elif self._kind == "gaussian":
            told = self._normals(gradients.shape[2], context) * self._config.std
        else:
            told = gradients * self._config.factor
        return np.where(who, np.clip(told, -self._bound, self._bound), gradients)

    def bits(self, payload: NDArray[np.uint8], *, num_bits: int, context: UplinkContext) -> NDArray[np.uint8]:
        """What is sent in place of packed bits `[num_trials, num_devices, ceil(num_bits / 8)]`, see `attack_bits`."""
        if self._kind not in ("ones", "invert", "random"):
            return payload
        meant = every_bit(num_bits)
        if self._kind == "invert":
            told = payload ^ meant
        elif self._kind == "ones":
            told = payload | meant
        else:
            keys = context.keys(Purpose.ATTACK)
            told = (payload & ~meant) | random_bits(keys, num_devices=self._num_devices, num_bits=num_bits)
        return np.where(self.who(context)[..., None], told, payload)

    def symbols(self, amplitudes: NDArray[np.float64], *, context: UplinkContext) -> NDArray[np.float64]:
        """What is sent in place of `amplitudes` `[num_trials, num_devices, m]`, of mean power 1 over every jammer's m.

        Signs at random, constant ones, or noise, brought to that power round by round.
        """
        if self._config is None or self._kind != "jam":
            return amplitudes
        num_symbols = amplitudes.shape[2]
        told: NDArray[np.float64] = np.ones_like(amplitudes)
        if self._config.signal == "random":
            words = uniform_words(context.keys(Purpose.ATTACK), num_devices=self._num_devices, num_words=num_symbols)
            told = np.where(words >> np.uint32(31), -1.0, 1.0)
        elif self._config.signal == "noise":
            noise = self._normals(num_symbols, context)
            told = noise / np.sqrt((noise**2).mean(axis=2, keepdims=True))
        return np.where(self.who(context)[..., None], told, amplitudes)

    def told(self, context: UplinkContext) -> dict[str, NDArray[np.float64]]:
        """How many attack, `[num_trials]`; nothing where nobody was asked to."""
        return {} if self._config is None else {"num_attackers": self.who(context).sum(axis=1).astype(float)}

    def _normals(self, num_values: int, context: UplinkContext) -> NDArray[np.float64]:
        words = uniform_words(
            context.keys(Purpose.ATTACK), num_devices=self._num_devices, num_words=-(-num_values // 2) * 2
        )
        return normals(words)[..., :num_values].astype(np.float64)
