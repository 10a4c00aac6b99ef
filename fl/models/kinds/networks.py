"""Networks of the literature, and a function of the user that builds one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from fl.config.base import Count
from fl.config.model import Model, models

if TYPE_CHECKING:
    from fl.models.layers import Layer

ModelName = Literal["linear", "mlp", "cnn2", "cnn3", "mcmahan-cnn", "emnist-cnn", "resnet18", "custom"]


@models.register
class ModelConfig(Model):
    """A network of the literature by name, or `module:function` of one's own.

    ResNet-18 is normalised by groups: a batch's statistics tie samples together, which clipping per sample takes apart.
    """

    name: ModelName = "linear"
    hidden: Annotated[tuple[Count, ...], Field(max_length=16)] | None = Field(
        default=None, description="of mlp: layer widths; 32, 16 if left out"
    )
    stem: Literal["imagenet", "cifar"] | None = Field(
        default=None, description="of resnet18: imagenet (7 x 7, stride 2, pooling) or cifar (3 x 3)"
    )
    initial: Literal["keras", "pytorch"] = Field(
        default="keras",
        description="weights as Keras draws them (Glorot uniform), or as PyTorch does (uniform within 1/sqrt(inputs))",
    )
    function: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=200)] | None = Field(
        default=None,
        description="of custom: module:function, returns a Keras model of logits for image_shape, num_classes",
    )
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        default=None, description="of custom: SHA-256 of the file of function, compared before it is imported"
    )

    @model_validator(mode="after")
    def _an_option_belongs_to_its_model(self) -> ModelConfig:
        for key, name in (("hidden", "mlp"), ("stem", "resnet18"), ("function", "custom"), ("digest", "custom")):
            if getattr(self, key) is not None and self.name != name:
                raise ValueError(f"{key} belongs to model {name}, the model is {self.name}; leave it out")
        if self.initial != "keras" and self.name in ("custom", "resnet18"):
            raise ValueError(f"initial {self.initial} does not reach into model {self.name}; leave initial out")
        if self.name == "custom" and self.function is None:
            raise ValueError("model custom needs function: module:function, which builds the network")
        return self

    @property
    def own_function(self) -> str | None:
        """See `Model.own_function`."""
        return self.function

    def layers(self, *, image_shape: tuple[int, ...], num_classes: int) -> tuple[Layer, ...] | None:
        """See `Model.layers`. Raises LearningError as `fl.models.zoo.architecture`."""
        from fl.models.zoo import architecture

        if self.name == "custom":
            return None
        return architecture(self, image_shape=image_shape, num_classes=num_classes)

    def network(self, *, image_shape: tuple[int, ...], num_classes: int) -> Any:
        """See `Model.network`: the network of `function`."""
        from fl.models.custom import check_digest, custom_network

        assert self.function is not None
        if self.digest is not None:
            check_digest(self.function, digest=self.digest)
        return custom_network(self.function, image_shape=image_shape, num_classes=num_classes)

    @property
    def hidden_widths(self) -> tuple[int, ...]:
        """Hidden layers of the MLP: 784-32-16-10 unless told."""
        return (32, 16) if self.hidden is None else self.hidden
