"""Federated averaging of a classifier as the user writes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from fl.config.base import Count, Frozen, PositiveFloat, Probability
from fl.config.codec import Binary32Config, CodecConfig
from fl.config.data import DataConfig, PartitionConfig
from fl.config.local import LocalConfig
from fl.config.model import ModelConfig
from fl.config.scheme import AggregationConfig, AggregatorConfig, AttackConfig, PersonalConfig
from phy.config import LinkConfig


class ParticipationConfig(Frozen):
    """Who takes part in a round.

    - `devices_per_round`: so many, drawn anew each round; left out, all;
    - `dropout`: probability that a device that trained never sends;
    - `straggling`: probability that a device only gets through a part of its E steps, uniformly 1 .. E - 1.
    """

    devices_per_round: Count | None = None
    dropout: Probability = 0.0
    straggling: Probability = 0.0


class FedAvgConfig(Frozen):
    """Federated averaging, Li et al. 2025 (3)-(4): w <- sum_n q_n w~_n over what the radio delivered.

    `upload`: devices send their `model`, as in the paper, or the `update` against the model that they were sent.
    `weighting`: q_n by `samples`, or `equal`. `downlink`: `ideal`, or a link of its own over which every device
    hears the model, as `downlink_codec` writes it (left out: `codec`). `receiver_limit`: received values that are not
    finite or larger than this are taken as missing; left out, the server believes whatever arrives.
    `aggregation`: what updates become before they are sent, and what the server makes of them; `mean` and the robust
    aggregators go through `codec`, the one-bit schemes and their rivals have bits of their own and need updates.
    `convergence_bound`: find the optimum first and follow the distance to it beside Theorem 2 (linear model with l2).
    """

    algorithm: Literal["fedavg"] = "fedavg"
    data: DataConfig = DataConfig()
    partition: PartitionConfig = PartitionConfig()
    model: ModelConfig = ModelConfig()
    local: LocalConfig = LocalConfig()
    codec: CodecConfig = Binary32Config()
    num_devices: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = 20
    rounds: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = Field(default=50, description="K")
    upload: Literal["model", "update"] = "model"
    weighting: Literal["samples", "equal"] = "samples"
    participation: ParticipationConfig = ParticipationConfig()
    downlink: Literal["ideal"] | LinkConfig = "ideal"
    downlink_codec: CodecConfig | None = None
    receiver_limit: PositiveFloat | None = None
    aggregation: AggregationConfig = AggregatorConfig()
    attack: AttackConfig | None = None
    personal: PersonalConfig | None = None
    convergence_bound: bool = False
    test_every: Count = Field(default=1, description="rounds between two looks at the test set; the last is always one")

    @field_validator("data", "model", "codec", "downlink_codec", "aggregation", mode="before")
    @classmethod
    def _a_bare_word_names_it(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return {"name": "custom", "function": value} if ":" in value else {"name": value}

    @field_validator("partition", mode="before")
    @classmethod
    def _a_bare_word_names_the_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _no_more_take_part_than_there_are(self) -> FedAvgConfig:
        some = self.participation.devices_per_round
        if some is not None and some > self.num_devices:
            raise ValueError(f"devices_per_round {some} exceeds num_devices {self.num_devices}; lower it")
        if not isinstance(self.aggregation, AggregatorConfig) and self.upload != "update":
            raise ValueError(f"aggregation {self.aggregation.name} sends updates; write upload: update")
        local = self.local
        convex = self.model.name == "linear" and local.l2 > 0.0 and local.optimizer == "gd" and local.clip is not None
        if self.convergence_bound and not convex:
            raise ValueError(
                "convergence_bound needs model: linear, local.l2 above 0, optimizer: gd, and local.clip as the bound G "
                "on gradients; write them, or leave convergence_bound out"
            )
        if self.participation.straggling > 0.0 and self.local.steps == 1:
            raise ValueError("straggling needs at least 2 local steps to leave some out; raise local.steps")
        return self

    @property
    def uses_radio(self) -> bool:
        """Uploads always go over the link, if only an error-free one."""
        return True

    @property
    def superposes(self) -> bool:
        """Every device is detected on its own."""
        return False
