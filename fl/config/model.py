"""Which network the devices train."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from fl.config.base import Count, Frozen

ModelName = Literal["linear", "mlp", "cnn2", "cnn3", "mcmahan-cnn", "emnist-cnn", "resnet18", "custom"]


def _as_tuple(value: Any) -> Any:
    # Behind the validator that reads bare words, JSON's list is Python's, which strict mode does not take as a tuple.
    return tuple(value) if isinstance(value, list) else value


class ModelConfig(Frozen):
    """A network by name; a bare word `model: mlp`, or `model: package.module:function` for one's own.

    - `hidden`: layer widths of `mlp`;
    - `stem` of `resnet18`: `imagenet` (7 x 7 stride 2 and pooling) or `cifar` (3 x 3); its normalisation is by groups,
      because a batch's statistics tie samples together that per-sample clipping has to take apart;
    - `outputs`: width of the last layer where it is to exceed the number of classes (the 1000 of ImageNet);
    - `initial`: weights drawn as Keras does (Glorot uniform, biases 0), or as PyTorch does, kernels and biases uniform
      within 1/sqrt(inputs of a unit), less than half as large for a linear model: what small steps have to undo;
    - `function` of `custom`: called with `image_shape` and `num_classes`, returns a Keras model of logits;
    - `digest` of `custom`: SHA-256 of the file of `function`, looked at before it is imported.
    """

    name: ModelName = "linear"
    hidden: Annotated[tuple[Count, ...], Field(max_length=16), BeforeValidator(_as_tuple)] | None = None
    stem: Literal["imagenet", "cifar"] | None = None
    outputs: Count | None = None
    initial: Literal["keras", "pytorch"] = "keras"
    function: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=200)] | None = None
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None

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
    def hidden_widths(self) -> tuple[int, ...]:
        """Hidden layers of the MLP: 784-32-16-10 unless told."""
        return (32, 16) if self.hidden is None else self.hidden
