"""Selection: the interface of what chooses the devices of a round, and what the server knows when it chooses."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from fl.base.arrays import F64
from fl.base.fields import Frozen
from phy.config.registry import Registry

Asked = Literal["snr_db", "loss", "update_norm"]
"""Knowledge that a selection has to ask for, because it costs something to have."""


@dataclass(frozen=True, kw_only=True)
class RoundKnowledge:
    """What the server knows of K devices before a round, arrays `[K]` of float64 by device.

    - `num_chosen` of them will take part in round `round_index`, from 0;
    - `samples` of each device;
    - `age`: rounds since it was last chosen, this one counted; since the start if it never was;
    - `snr_db`: P0 |h|^2 / N0 of a probe at full power [dB], -inf where nothing arrived; NaN before the first probe;
    - `served`: log2(1 + SNR) of the rounds in which it was chosen, 0 in the others, averaged exponentially over the
      `window` of the selection;
    - `loss`, `update_norm`: mean training loss and norm of the update when it last took part; NaN before.

    Of `snr_db`, `served`, `loss` and `update_norm` those that the selection does not ask for are NaN.
    """

    round_index: int
    num_chosen: int
    samples: F64
    age: F64
    snr_db: F64
    served: F64
    loss: F64
    update_norm: F64


class Selection(Frozen):
    """Chooses the `devices_per_round` with the largest scores. A class in the registry `selections`.

    - `asks`: knowledge beyond ages and numbers of samples that `scores` reads;
    - `uniform`: every device is chosen alike, whatever its data, its channel and earlier rounds.
    """

    asks: ClassVar[tuple[Asked, ...]] = ()
    uniform: ClassVar[bool] = False
    label: ClassVar[str] = ""

    if TYPE_CHECKING:  # fields of subclasses
        name: str

    @property
    def delay_rounds(self) -> int:
        """Rounds by which the SNR that the server knows is out of date."""
        return 0

    @property
    def window_rounds(self) -> float:
        """Rounds over which `served` is averaged, at least 1."""
        return 1.0

    @property
    def by_channel(self) -> bool:
        """True if the choice depends on channels, so that devices need their own for more than the time they send."""
        return "snr_db" in self.asks

    @property
    def by_data(self) -> bool:
        """True if the choice depends on data of devices beyond the number of their samples."""
        return "loss" in self.asks or "update_norm" in self.asks

    @abstractmethod
    def scores(self, known: RoundKnowledge) -> F64:
        """Return a score for every device, `[K]`, no NaN; among equal ones the choice is random."""


selections: Registry[Selection] = Registry("selection", Selection, package="fl.uplink.selections")
SelectionConfig = Annotated[Selection, selections]
