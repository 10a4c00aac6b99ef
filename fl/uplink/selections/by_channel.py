"""Choices by the channel that a probe has met."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.base.arrays import F64
from fl.base.fields import whole
from fl.uplink.selection import Asked, RoundKnowledge, Selection, selections


class _OfChannel(Selection):
    asks: ClassVar[tuple[Asked, ...]] = ("snr_db",)

    outdated_rounds: int = whole(
        0, "rounds since the probe that the server knows; 0: of this round; until then at random", least=0, most=1000
    )

    @property
    def delay_rounds(self) -> int:
        return self.outdated_rounds


@selections.register
class BestChannel(_OfChannel):
    """Devices with the largest SNR, which favours those near the server: what they learn weighs more, uncorrected."""

    name: Literal["best-channel"] = "best-channel"
    label: ClassVar[str] = "best channel"

    def scores(self, known: RoundKnowledge) -> F64:
        """Return the SNR."""
        return np.nan_to_num(known.snr_db, nan=0.0)


@selections.register
class ProportionalFair(_OfChannel):
    """Devices with the largest log2(1 + SNR) against what they have been served (Kelly 1997; Viswanath et al. 2002)."""

    name: Literal["proportional-fair"] = "proportional-fair"
    label: ClassVar[str] = "proportional fair"
    window: Annotated[float, Field(ge=1.0, le=1e6)] = Field(
        default=20.0, description="rounds over which what a device has been served is averaged; 20: a few turns of each"
    )

    @property
    def window_rounds(self) -> float:
        return self.window

    def scores(self, known: RoundKnowledge) -> F64:
        """Return rate over mean rate; of devices that have not been served those with the largest rate come first."""
        rate = np.log2(1.0 + 10.0 ** (np.nan_to_num(known.snr_db, nan=0.0) / 10.0))
        return np.asarray(rate / np.maximum(known.served, 1e-9))
