"""Attackers among the devices: their choice, and what they send in one trial.

Attackers know all honest updates of the round and send over the same link as everybody. `fl.attacks.kinds` has the
attacks themselves. Trials side by side, and jammers, are in `fl.algorithms.flmc.attackers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.attacks.attack import Attack, HonestRound, attacks
from fl.base.arrays import F32, I64, U8, Bools
from fl.base.errors import LearningError, of_shape
from fl.base.words import plural
from phy.config.conflict import Conflict, LeaveOut, Say, Write
from phy.fading.block_taps import UplinkContext
from phy.numerics.draws import LANES, device_words, normals
from phy.numerics.random import Purpose, generator


def choose_attackers(config: Attack, *, num_devices: int, seed: int, trial: int) -> Bools:
    """Who attacks, bool `[num_devices]`, for the whole trial.

    Of a `share` round(share K) devices, drawn without replacement, or with, so that fewer attack. Raises LearningError
    for devices that are not there, or where none is left that an attack on the honest ones needs.
    """
    attackers = np.zeros(num_devices, bool)
    if config.devices is not None:
        beyond = max(config.devices, default=-1)
        if beyond >= num_devices or len(config.devices) > num_devices:
            beyond_all = (
                f"attack.devices names {plural(len(config.devices), 'device')} up to number {beyond}, but "
                f"there are only {num_devices}, from 0 to {num_devices - 1}"
            )
            there = [one for one in config.devices if one < num_devices][:num_devices] or [0]
            raise LearningError(
                Conflict("learning.attack.devices learning.attack", beyond_all, Write({"devices": there}))
            )
        attackers[list(config.devices)] = True
    else:
        count = number_of(config, num_devices)
        drawn = generator(seed, trial, Purpose.ATTACK)
        attackers[drawn.choice(num_devices, count, replace=config.drawn == "with-replacement")] = True
    if (conflict := config.problem()) is not None:
        raise LearningError(conflict)
    if config.uses_honest_updates and attackers.all():
        problem = f"all {num_devices} devices attack, but {config.kind} needs honest ones"
        fewer = {"share": 0.2} if config.devices is None else {"devices": list(range(num_devices - 1))}
        keys = "learning.attack.devices learning.attack.kind learning.attack"
        raise LearningError(Conflict(keys, problem, Write(fewer)))
    return attackers


def number_of(config: Attack, num_devices: int) -> int:
    """How many devices attack, at most where they are drawn with replacement."""
    if config.devices is not None:
        return len(set(config.devices))
    return math.floor((config.share or 0.0) * num_devices + 0.5)


def nobody_honest(attack: Attack | None, *, num_devices: int) -> str | None:
    """Return why there is nobody to audit where all devices surely attack; else None."""
    if attack is None or number_of(attack, num_devices) < num_devices:
        return None
    surely = attack.drawn == "without-replacement" or num_devices == 1
    return f"all {num_devices} devices attack, and an audit plays against an honest one" if surely else None


def attack_in_words(attack: Attack | None, num_devices: int, label: Callable[[str, Any], str]) -> list[str]:
    """Return a line on who attacks and how; nothing without an attack."""
    if attack is None:
        return []
    text = f"{number_of(attack, num_devices)} of {plural(num_devices, 'device')} attack: "
    text += label("learning.attack.kind", attack.kind)
    return [text + attack.details(label)]


def every_bit(num_bits: int) -> U8:
    """`num_bits` ones, packed `[ceil(num_bits / 8)]`, padding zero."""
    meant = np.full(-(-num_bits // 8), 0xFF, np.uint8)
    if num_bits % 8:
        meant[-1] = (0xFF << (8 - num_bits % 8)) & 0xFF
    return meant


def attack_conflicts(attack: Attack, check: Callable[[], object]) -> Iterator[Conflict]:
    """Yield the LearningError that `check` raises, or every number that this kind of attack does not read."""
    try:
        check()
    except LearningError as error:
        yield error.conflict.completed("learning.attack.kind learning.attack", Say("change one of them"))
        return
    if attack.devices is not None and attack.drawn != "without-replacement":
        yield Conflict(
            "learning.attack.drawn learning.attack",
            "drawn sets how a share of the devices is drawn, but attack.devices names the devices",
            LeaveOut("drawn"),
        )
    for key, field in type(attack).model_fields.items():
        kinds = [word for word in attacks.words() if key in attacks[word].reads]
        if kinds and attack.kind not in kinds and getattr(attack, key) != field.default:
            yield Conflict(
                f"learning.attack.{key} learning.attack",
                f"{key} belongs to attack.kind {' or '.join(kinds)}, the kind is {attack.kind}",
                LeaveOut(key),
            )


@dataclass(frozen=True, kw_only=True)
class Attackers:
    """The devices of one trial that attack, where `who` bool `[num_devices]` says so; nobody if `config` is None.

    Each acts where its kind acts: on labels, on updates, on bits, or on symbols that add up in the air.
    """

    config: Attack | None
    who: Bools

    @classmethod
    def drawn(cls, config: Attack | None, *, num_devices: int, seed: int, trial: int) -> Attackers:
        """The attackers that `config` names, the same for the whole trial."""
        if config is None:
            return cls(config=None, who=np.zeros(num_devices, bool))
        return cls(config=config, who=choose_attackers(config, num_devices=num_devices, seed=seed, trial=trial))

    @property
    def meet(self) -> bool:
        """True if what an attacker sends depends on what others would send."""
        return self.config is not None and self.config.uses_honest_updates

    def labels(self, labels: I64, *, samples: Sequence[I64], num_classes: int) -> I64:
        """Return `labels` `[N]` with those of the attackers' `samples` (indices, per device) changed.

        A data set has one label per sample: one that an honest device holds as well is wrong there too.
        """
        if self.config is None or self.config.acts_on != "labels":
            return labels
        poisoned = labels.copy()
        for device in np.flatnonzero(self.who):
            own = samples[int(device)]
            poisoned[own] = self.config.of_labels(labels[own], num_classes=num_classes)
        return poisoned

    def updates(self, updates: F32, *, devices: I64, context: UplinkContext) -> F32:
        """Return what is encoded in place of `updates` `[K, M]` of `devices` `[K]`."""
        lying = np.flatnonzero(self.who[devices])
        if self.config is None or self.config.acts_on != "updates" or not len(lying):
            return updates
        out = updates.copy()
        honest = HonestRound(updates=updates, attackers=lying, devices=devices, context=context)
        whose = f"attack {self.config.kind}"
        out[lying] = of_shape(self.config.of_updates(honest), (len(lying), updates.shape[1]), whose=whose)
        return out

    def bits(self, payload: U8, *, devices: I64, context: UplinkContext) -> U8:
        """Return what is sent in place of packed bits `[1, K, num_bytes]` of `devices`; coins by device number."""
        lying = np.flatnonzero(self.who[devices])
        if self.config is None or self.config.acts_on != "bits" or not len(lying):
            return payload
        out, num_bytes = payload.copy(), payload.shape[-1]
        out[0, lying] = self.config.of_bits(
            payload[0, lying], meant=every_bit(8 * num_bytes), coins=lambda: _coins(devices[lying], num_bytes, context)
        )
        return out

    @property
    def jam(self) -> bool:
        """True if attackers send symbols of their own at the full power of their radio."""
        return self.config is not None and self.config.acts_on == "air"

    def symbols(self, symbols: NDArray[Any], *, jammers: Bools, context: UplinkContext) -> NDArray[Any]:
        """Return `symbols` `[1, K, S]`, real or complex, with those of `jammers` `[1, K]` replaced by their kind."""
        assert self.config is not None
        lying = np.flatnonzero(jammers[0])
        out, width = symbols.copy(), -(-symbols.shape[2] // LANES) * LANES
        words = device_words(context.keys(Purpose.ATTACK)[0], devices=lying, count=width)[None]
        out[:, lying] = self.config.of_air(
            symbols[:, lying],
            words=lambda: words[..., : symbols.shape[2]],
            normals=lambda: normals(words)[..., : symbols.shape[2]].astype(np.float64),
        )
        return out

    def told(self, senders: I64) -> dict[str, float]:
        """How many of those who sent attack; nothing where nobody was asked to."""
        return {} if self.config is None else {"num_attackers": float(self.who[senders].sum())}


def _coins(devices: I64, num_bytes: int, context: UplinkContext) -> U8:
    """Fair coins `[K, num_bytes]`, eight in a byte."""
    count = -(-num_bytes // (4 * LANES)) * LANES
    words = device_words(context.keys(Purpose.ATTACK)[0], devices=devices, count=count)
    return np.ascontiguousarray(words).astype("<u4", copy=False).view(np.uint8)[:, :num_bytes]
