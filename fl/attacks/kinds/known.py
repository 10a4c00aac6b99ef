"""Attacks of the literature: on labels, on the update before it is encoded, on bits after privacy, and on the air."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.attacks.attack import Attack, HonestRound, Place, attacks
from fl.base.arrays import F32, F64, I64, U8, Bools
from fl.base.fields import PositiveFloat
from phy.config.conflict import Conflict, Write, rounded
from phy.fading.block_taps import UplinkContext
from phy.numerics.draws import LANES, device_words, normals, round_normals
from phy.numerics.random import Purpose
from phy.numerics.workers import spans

_NUMBERS_AT_ONCE = 1 << 18


class Known(Attack):
    """An attack of the literature, on updates if not said otherwise; `reads`: the numbers below that it uses."""

    acts_on: ClassVar[Place] = "updates"

    factor: Annotated[float, Field(allow_inf_nan=False, ge=-1e6, le=1e6)] = Field(
        default=-4.0,
        description="of sign-flip, scale and boost: times the honest one; -4 as in public code of robust aggregation",
    )
    std: PositiveFloat = Field(
        default=1e4,
        description="of gaussian: standard deviation of every number; 1e4 as in public code of robust aggregation",
    )
    signal: Literal["random", "ones", "noise"] = Field(
        default="random", description="of jam: signal of the jammers; random signs, which no receiver can predict"
    )


@attacks.register
class Gaussian(Known):
    """Attackers send N(0, `std`^2)."""

    kind: Literal["gaussian"]
    reads: ClassVar[tuple[str, ...]] = ("std",)

    def of_updates(self, honest: HonestRound) -> F32:
        """Noise is drawn by device number."""
        who, width = honest.devices[honest.attackers], honest.updates.shape[1]
        key, out = honest.context.keys(Purpose.ATTACK)[0], np.empty((len(who), width), np.float32)
        for part in _chunks(len(who), width):
            words = device_words(key, devices=who[part], count=-(-width // LANES) * LANES)
            out[part] = normals(words)[:, :width] * np.float32(self.std)
        return out

    def of_gradients(self, gradients: F64, *, attackers: Bools, context: UplinkContext) -> F64:
        return round_normals(context.keys(Purpose.ATTACK), shape=gradients.shape) * self.std


class _Scaled(Known):
    reads: ClassVar[tuple[str, ...]] = ("factor",)

    def details(self, label: Callable[[str, Any], str]) -> str:
        return f", {self.factor:g} times the update"

    def of_updates(self, honest: HonestRound) -> F32:
        return np.asarray(honest.updates[honest.attackers] * np.float32(self.factor))

    def of_gradients(self, gradients: F64, *, attackers: Bools, context: UplinkContext) -> F64:
        return gradients * self.factor


@attacks.register
class SignFlip(_Scaled):
    """Attackers send a negative `factor` times their honest update."""

    kind: Literal["sign-flip"]

    def problem(self) -> Conflict | None:
        if self.factor < 0.0:
            return None
        negative = -self.factor or -1.0
        problem = f"attack.factor {self.factor:g} leaves signs as they are"
        return Conflict(
            "learning.attack.factor learning.attack",
            problem,
            Write({"factor": rounded(negative, 6)}),
            Write({"kind": "scale"}),
        )


@attacks.register
class Scale(_Scaled):
    """Attackers send `factor` times their honest update."""

    kind: Literal["scale"]


@attacks.register
class ZeroGradient(Known):
    """Attackers send minus the sum of the honest updates over their number: all updates add up to 0."""

    kind: Literal["zero-gradient"]
    uses_honest_updates: ClassVar[bool] = True

    def of_updates(self, honest: HonestRound) -> F32:
        """Zeros in a round without honest devices."""
        updates, count = honest.updates, len(honest.attackers)
        others, total = np.delete(np.arange(len(updates)), honest.attackers), np.zeros(updates.shape[1])
        for part in _chunks(len(others), len(total)):
            total += updates[others[part]].sum(axis=0, dtype=np.float64)
        return np.broadcast_to((-total / count).astype(np.float32), (count, len(total)))

    def of_gradients(self, gradients: F64, *, attackers: Bools, context: UplinkContext) -> F64:
        who = attackers[..., None]
        total = np.where(who, 0.0, gradients).sum(axis=1, keepdims=True)
        return np.asarray(-total / np.maximum(who.sum(axis=1, keepdims=True), 1))


@attacks.register
class Duplicate(Known):
    """Attackers send a copy of the first honest update."""

    kind: Literal["duplicate"]
    uses_honest_updates: ClassVar[bool] = True

    def of_updates(self, honest: HonestRound) -> F32:
        """Their own updates in a round without honest devices."""
        updates, attackers = honest.updates, honest.attackers
        others = np.delete(np.arange(len(updates)), attackers)
        first = updates[others[0]] if len(others) else updates[attackers]
        return np.broadcast_to(first, (len(attackers), updates.shape[1]))

    def of_gradients(self, gradients: F64, *, attackers: Bools, context: UplinkContext) -> F64:
        first = np.argmin(attackers[..., None], axis=1)[:, None]
        return np.asarray(np.take_along_axis(gradients, first, axis=1))


@attacks.register
class Labels(Known):
    """Attackers train with the label num_classes - 1 - y in place of every label y."""

    kind: Literal["labels"]
    acts_on: ClassVar[Place] = "labels"

    def of_labels(self, labels: I64, *, num_classes: int) -> I64:
        return num_classes - 1 - labels


class _OnBits(Known):
    acts_on: ClassVar[Place] = "bits"


@attacks.register
class Ones(_OnBits):
    """Attackers send ones."""

    kind: Literal["ones"]

    def of_bits(self, payload: U8, *, meant: U8, coins: Callable[[], U8]) -> U8:
        return payload | meant


@attacks.register
class Invert(_OnBits):
    """Attackers invert every bit."""

    kind: Literal["invert"]

    def of_bits(self, payload: U8, *, meant: U8, coins: Callable[[], U8]) -> U8:
        return payload ^ meant


@attacks.register
class Random(_OnBits):
    """Attackers send fair random bits."""

    kind: Literal["random"]

    def of_bits(self, payload: U8, *, meant: U8, coins: Callable[[], U8]) -> U8:
        return (payload & ~meant) | (coins() & meant)


@attacks.register
class Jam(Known):
    """Attackers send at full power on the air, in superposition alone: signs at random, constant ones, or noise."""

    kind: Literal["jam"]
    acts_on: ClassVar[Place] = "air"
    reads: ClassVar[tuple[str, ...]] = ("signal",)

    def details(self, label: Callable[[str, Any], str]) -> str:
        signal = label("learning.attack.signal", self.signal)
        return f" ({signal}), each at the full power of its radio whatever caps the others keep to"

    def of_air(self, amplitudes: F64, *, words: Callable[[], Any], normals: Callable[[], F64]) -> F64:
        if self.signal == "random":
            return np.where(words() >> np.uint32(31), -1.0, 1.0)
        if self.signal == "noise":
            noise = normals()
            return np.asarray(noise / np.sqrt((noise**2).mean(axis=2, keepdims=True)))
        return np.ones_like(amplitudes)


@attacks.register
class Boost(Known):
    """Attackers send `factor` times their own symbols on the air, at sqrt(P0) and a mean power of P0 at most."""

    kind: Literal["boost"]
    acts_on: ClassVar[Place] = "air"
    reads: ClassVar[tuple[str, ...]] = ("factor",)

    def details(self, label: Callable[[str, Any], str]) -> str:
        return (
            f", {self.factor:g} times their symbols at the full power of their radio whatever caps the others keep to"
        )

    def of_air(self, amplitudes: F64, *, words: Callable[[], Any], normals: Callable[[], F64]) -> F64:
        power = (np.abs(amplitudes) ** 2).mean(axis=2, keepdims=True, dtype=np.float64)
        return np.asarray(amplitudes * (self.factor / np.maximum(abs(self.factor) * np.sqrt(power), 1.0)))


def _chunks(num_rows: int, num_columns: int) -> Iterator[slice]:
    return spans(num_rows, step=max(_NUMBERS_AT_ONCE // max(num_columns, 1), 1))
