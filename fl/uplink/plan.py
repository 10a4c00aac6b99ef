"""The numbers of an algorithm that its uplink, its budget and its audits are made of."""

from __future__ import annotations

from dataclasses import dataclass

from fl.schemes.codecs.codec import Codec
from fl.schemes.scheme import Scheme
from phy.config import LinkConfig
from privacy.config import Training


@dataclass(frozen=True, kw_only=True)
class UploadPlan:
    """Uploads of an algorithm in numbers.

    - `devices_per_round`: devices chosen for each round; None: all take part;
    - `chosen_by_channel`: the channels of all devices decide who is chosen;
    - `num_values` M of an upload; None where only the function of the user's model determines it;
    - `codec` of numbers, for a `scheme` that uses it;
    - `receiver_limit`: larger received numbers count as missing; None: none do;
    - `downlink` of the server's model; None for an ideal one;
    - `training`: what a mechanism needs to know of learning.
    """

    num_devices: int
    devices_per_round: int | None
    num_values: int | None
    scheme: Scheme
    codec: Codec
    receiver_limit: float | None
    downlink: LinkConfig | None
    training: Training
    chosen_by_channel: bool = False

    @property
    def num_rounds(self) -> int:
        """Rounds of the run."""
        return self.training.num_rounds
