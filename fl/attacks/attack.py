"""What every attack of devices on learning is: who attacks, where, and what is sent instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from fl.base.arrays import F32, F64, I64, U8, Bools
from fl.base.fields import Frozen, Probability
from phy.config.conflict import Conflict, ConflictError, LeaveOut, Write
from phy.config.registry import Registry, defines

if TYPE_CHECKING:
    from phy.fading.block_taps import UplinkContext

Place = Literal["labels", "updates", "bits", "air"]


@dataclass(frozen=True, kw_only=True)
class HonestRound:
    """What the devices of a round would send: `updates` `[K, M]` of `devices` `[K]`, by their numbers.

    `attackers` `[A]`: rows of those who send something else; `context` has the keys of the round.
    """

    updates: F32
    attackers: I64
    devices: I64
    context: UplinkContext


class Attack(Frozen):
    """Attackers are a `share` of the devices, or `devices` by number. An attack is a class in the registry `attacks`.

    `acts_on` is where attackers differ from honest devices: the labels that they train on, the update before it is
    encoded, the bits after privacy, or the symbols on the air. Its method, such as `of_updates`, says how.
    """

    kind: str
    share: Probability | None = Field(default=None, description="share of the devices", examples=[0.2])
    devices: tuple[Annotated[int, Field(ge=0, strict=True)], ...] | None = Field(
        default=None, description="numbers of the devices"
    )
    drawn: Literal["without-replacement", "with-replacement"] = Field(
        default="without-replacement",
        description="how a share is drawn; with replacement fewer attack; without, the share is exact",
    )

    acts_on: ClassVar[Place]
    uses_honest_updates: ClassVar[bool] = False
    reads: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _attackers_are_named_one_way(self) -> Attack:
        if (self.share is None) == (self.devices is None):
            raise ConflictError(
                "share devices",
                "attackers are named by share or by devices, one of both",
                Write({"": {"kind": self.kind, "share": 0.2}}) if self.share is None else LeaveOut("devices"),
            )
        return self

    @classmethod
    def undefined(cls) -> tuple[str, ...]:
        """Return what an attack must define and this one does not, for its registry."""
        place = getattr(cls, "acts_on", None)
        return ("acts_on",) if place is None else () if defines(cls, Attack, f"of_{place}") else (f"of_{place}",)

    def problem(self) -> Conflict | None:
        """Return why this attack changes nothing; None where it does."""
        return None

    def details(self, label: Callable[[str, Any], str]) -> str:
        """Return what follows the kind in a line for `phyloop check`; `label` names a setting in words."""
        return ""

    if TYPE_CHECKING:  # absent but for the place that an attack acts on

        def of_labels(self, labels: I64, *, num_classes: int) -> I64:
            """Return the labels that an attacker trains on, `[samples]`."""

        def of_updates(self, honest: HonestRound) -> F32:
            """Return what is encoded for the attackers, `[A, M]`."""

        def of_bits(self, payload: U8, *, meant: U8, coins: Callable[[], U8]) -> U8:
            """Return what attackers send in place of packed bits `[..., num_bytes]`.

            `meant` `[num_bytes]` has a one for every bit that is not padding; `coins()` returns fair bits like
            `payload`.
            """

        def of_air(self, amplitudes: F64, *, words: Callable[[], Any], normals: Callable[[], F64]) -> F64:
            """Return what attackers send on the air in place of `amplitudes` `[num_trials, num_devices, m]`.

            Their mean power is 1 at most; `amplitudes`, real or complex, are those of honest devices. `words()`
            returns uniform 32-bit words and `normals()` standard normal numbers of that shape.
            """

    def of_gradients(self, gradients: F64, *, attackers: Bools, context: UplinkContext) -> F64:
        """Return `of_updates` for trials side by side: gradients `[num_trials, num_devices, m]` of all devices.

        `attackers` `[num_trials, num_devices]`; rows of honest devices are not read.
        """
        out = gradients.copy()
        for row, (trial, attacks) in enumerate(zip(context.trials, attackers, strict=True)):
            who, alone = np.flatnonzero(attacks), replace(context, trials=(trial,))
            if len(who):
                updates = gradients[row].astype(np.float32)
                out[row, who] = self.of_updates(
                    HonestRound(updates=updates, attackers=who, devices=np.arange(len(attacks)), context=alone)
                )
        return out


attacks: Registry[Attack] = Registry("attack", Attack, package="fl.attacks.kinds", tag="kind")
"""All attacks of devices, by the word in `learning.attack.kind`."""

AttackConfig = Annotated[Attack, attacks]
