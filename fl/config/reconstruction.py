"""An attack on uploads as the user writes it: images rebuilt from what the server received of one local step."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from fl.config.base import Frozen, PositiveFloat
from fl.config.codec import Binary32Config, CodecConfig
from fl.config.data import DataConfig, PartitionConfig
from fl.config.fedavg import FedAvgConfig
from fl.config.local import LocalConfig
from fl.config.scheme import AggregationConfig, AggregatorConfig, CpaScheme


class ReconstructionConfig(Frozen):
    """Rebuild the images of every device from its upload, and tell whether a given image was among them.

    In each of `rounds` rounds every one of `num_devices` devices holds `samples_per_device` other images, takes one
    step of gradient descent from the initial weights of softmax regression, and sends the update as `aggregation`
    (`codec` for the plain mean), `privacy` and the link have it. The server knows all but the images and the devices'
    own randomness. A round is a first round: nothing is learnt, and privacy is that of one upload.
    """

    algorithm: Literal["reconstruction"] = "reconstruction"
    data: DataConfig = DataConfig()
    local: LocalConfig = LocalConfig(learning_rate=1.0, clip=1.0)
    codec: CodecConfig = Binary32Config()
    aggregation: AggregationConfig = AggregatorConfig()
    samples_per_device: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1
    num_devices: Annotated[int, Field(ge=2, le=100_000, strict=True)] = 100
    rounds: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(
        default=10, description="first rounds attacked"
    )
    receiver_limit: PositiveFloat | None = None

    @field_validator("data", "codec", "aggregation", mode="before")
    @classmethod
    def _a_bare_word_names_it(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_plain_step_is_attacked(self) -> ReconstructionConfig:
        local, scheme = self.local, self.aggregation
        if local.optimizer != "gd" or local.steps != 1 or local.l2 > 0.0 or local.proximal > 0.0:
            raise ValueError(
                "reconstruction inverts one step of gradient descent on the loss alone; leave optimizer, steps, l2 and "
                "proximal out of local"
            )
        if isinstance(scheme, AggregatorConfig) and scheme.name != "mean":
            raise ValueError(
                f"reconstruction looks at every upload on its own, before aggregation {scheme.name} acts; leave "
                "aggregation out"
            )
        if isinstance(scheme, CpaScheme) and scheme.radius != "fixed":
            raise ValueError(
                f"reconstruction attacks a first round, of which a {scheme.radius} radius has no past to follow; write "
                "radius: fixed"
            )
        return self

    @property
    def one_round(self) -> FedAvgConfig:
        """The round of federated averaging that is attacked."""
        return FedAvgConfig(
            data=self.data,
            partition=PartitionConfig(samples_per_device=self.samples_per_device),
            local=self.local,
            codec=self.codec,
            aggregation=self.aggregation,
            num_devices=self.num_devices,
            rounds=1,
            upload="update",
            weighting="equal",
            receiver_limit=self.receiver_limit,
        )

    @property
    def uses_radio(self) -> bool:
        """Uploads always go over the link, if only an error-free one."""
        return True

    @property
    def superposes(self) -> bool:
        """Every device is detected on its own."""
        return False
