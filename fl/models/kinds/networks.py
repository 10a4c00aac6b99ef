"""Networks of the literature layer by layer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fl.base.errors import LearningError
from fl.base.fields import Count
from fl.models.layers import (
    Activation,
    Conv,
    Dense,
    Dropout,
    Function,
    GroupNorm,
    Layer,
    MaxPool,
    Residual,
    Shape,
    walk,
)
from fl.models.model import Model, models
from phy.config.conflict import Conflict, ConflictError, LeaveOut, Say, Write

RELU = Function(kind="relu")
FLATTEN = Function(kind="flatten")
MEAN = Function(kind="mean")

_GROUPS = 32
"""Of Wu and He 2018, Group Normalization; every width of ResNet-18 is a multiple of it."""
_LARGEST_IMAGE = 4096

_POOL = MaxPool(window=2, stride=2)
_CNN2_STAGE = (Conv(filters=6, kernel=5), RELU, _POOL)
_BODIES: dict[str, tuple[Layer, ...]] = {
    "linear": (FLATTEN,),
    "cnn2": (*_CNN2_STAGE, *_CNN2_STAGE, FLATTEN, Dense(units=50), RELU),
    "cnn3": (
        *(
            layer
            for filters in (32, 64, 128)
            for layer in (Conv(filters=filters, kernel=3), RELU, _POOL, Dropout(rate=0.2))
        ),
        FLATTEN,
        *(layer for units in (128, 64, 32) for layer in (Dense(units=units), RELU)),
    ),
    "mcmahan-cnn": (
        *(layer for filters in (32, 64) for layer in (Conv(filters=filters, kernel=5, padding="same"), RELU, _POOL)),
        *(FLATTEN, Dense(units=512), RELU),
    ),
    "emnist-cnn": (
        *(Conv(filters=32, kernel=3), RELU, Conv(filters=64, kernel=3), RELU, _POOL),
        *(Dropout(rate=0.25), FLATTEN, Dense(units=128), RELU, Dropout(rate=0.5)),
    ),
}
"""From the image to the last layer but one, of networks without options."""


OF_IMAGES = frozenset(("cnn2", "cnn3", "mcmahan-cnn", "emnist-cnn", "resnet18"))
"""Networks with convolutions."""

MODEL_KEYS = "learning.model.name learning.model learning.data.name learning.data"
"""Keys of a model that does not fit its data."""


def output_width(config: Model, *, num_classes: int) -> int:
    """Logits of the last layer: `outputs` where it is said, else one per class.

    Raises `LearningError` if `outputs` is narrower than the classes; wider is allowed, the rest stays unused.
    """
    if config.outputs is None:
        return num_classes
    if config.outputs < num_classes:
        problem = f"model {config.name} has outputs {config.outputs}, the data has {num_classes} classes"
        raise LearningError(
            Conflict(
                f"learning.model.outputs {MODEL_KEYS}",
                problem,
                Write({"outputs": num_classes}, note="or more"),
                Say("leave it out"),
            )
        )
    return config.outputs


def architecture(config: ModelConfig, *, image_shape: Shape, num_classes: int) -> tuple[Layer, ...]:
    """Layers of a network that goes by a name, from the image to the logits.

    - `linear`: softmax regression, 7,850 parameters for 28 x 28 x 1 and 10 classes;
    - `mlp`: dense layers of `hidden` widths with `activation`, 784-32-16-10 with relu by default;
    - `cnn2`: conv 5x5x6, pool 2, conv 5x5x6, pool 2, dense 50 (Lang et al. 2023; 6,422 for MNIST, 9,422 for CIFAR-10);
    - `cnn3`: conv 3x3 of 32, 64 and 128, each with pool 2 and dropout 0.2, dense 128, 64 and 32 (Lang et al. 2023;
      169,578 for CIFAR-10);
    - `mcmahan-cnn`: conv 5x5x32, pool 2, conv 5x5x64, pool 2, dense 512 (McMahan et al. 2017; 1,663,370 for MNIST);
    - `emnist-cnn`: conv 3x3x32, conv 3x3x64, pool 2, dropout 1/4, dense 128, dropout 1/2 (Li et al. 2025, Section VII;
      1,206,590 for 28 x 28 x 1 and 62 classes);
    - `resnet18`: He et al. 2016 with group in the place of batch normalisation; 11,689,512 for 1000 outputs.

    Raises `LearningError` for an image too small for the network, for `outputs` below `num_classes`.
    """
    if config.name == "resnet18":
        body = _resnet18(config)
    elif config.name == "mlp":
        widths = (32, 16) if config.hidden is None else config.hidden
        between = RELU if config.activation is None else Function(kind=config.activation)
        body = (FLATTEN, *(layer for units in widths for layer in (Dense(units=units), between)))
    else:
        body = _BODIES[config.name]
    layers = (*body, Dense(units=output_width(config, num_classes=num_classes)))
    if not _fits(layers, image_shape):
        height, width, channels = image_shape
        smallest = next((s for s in range(1, _LARGEST_IMAGE) if _fits(layers, (s, s, channels))), _LARGEST_IMAGE)
        problem = (
            f"model {config.name} shrinks images of {height} x {width} below its smallest, {smallest} x {smallest}"
        )
        raise LearningError(Conflict(MODEL_KEYS, problem, Write({"model": "mlp"}), Say("choose larger images")))
    return layers


def _fits(layers: tuple[Layer, ...], image_shape: Shape) -> bool:
    return all(min(after) >= 1 for _, _, after in walk(layers, image_shape))


def _resnet18(config: ModelConfig) -> tuple[Layer, ...]:
    if config.stem == "cifar":
        stem: tuple[Layer, ...] = (*_normalised(64, kernel=3), RELU)
    else:
        stem = (*_normalised(64, kernel=7, stride=2), RELU, MaxPool(window=3, stride=2, padding=1))
    stages = [(64, 1, False), (128, 2, True), (256, 2, True), (512, 2, True)]
    blocks = [
        layer
        for filters, stride, projected in stages
        for layer in (*_block(filters, stride=stride, projected=projected), *_block(filters, stride=1, projected=False))
    ]
    return (*stem, *blocks, MEAN)


def _block(filters: int, *, stride: int, projected: bool) -> tuple[Layer, ...]:
    """Two 3 x 3 convolutions around a shortcut; where the shape changes, a 1 x 1 convolution takes it along."""
    main = (*_normalised(filters, kernel=3, stride=stride), RELU, *_normalised(filters, kernel=3))
    shortcut = _normalised(filters, kernel=1, stride=stride) if projected else ()
    return Residual(main=main, shortcut=shortcut), RELU


def _normalised(filters: int, *, kernel: int, stride: int = 1) -> tuple[Layer, ...]:
    convolution = Conv(
        filters=filters, kernel=kernel, stride=stride, padding=kernel // 2, bias=False, initializer="he_normal"
    )
    return convolution, GroupNorm(groups=_GROUPS)


ModelName = Literal["linear", "mlp", "cnn2", "cnn3", "mcmahan-cnn", "emnist-cnn", "resnet18"]


@models.register
class ModelConfig(Model):
    """A network of the literature by name.

    ResNet-18 is normalised by groups: a batch's statistics tie samples together, which clipping per sample takes apart.
    """

    name: ModelName = "linear"
    hidden: Annotated[tuple[Count, ...], Field(max_length=16)] | None = Field(
        default=None, examples=[[32, 16]], description="of mlp: layer widths; 32, 16 if left out"
    )
    activation: Activation | None = Field(
        default=None, examples=["tanh"], description="of mlp: what follows each hidden layer; relu if left out"
    )
    stem: Literal["imagenet", "cifar"] | None = Field(
        default=None, description="of resnet18: imagenet (7 x 7, stride 2, pooling) or cifar (3 x 3)"
    )
    initial: Literal["keras", "pytorch"] = Field(
        default="keras",
        description="weights as Keras draws them (Glorot uniform), or as PyTorch does (uniform within "
        "1/sqrt(inputs)); keras: the networks are Keras models",
    )

    @model_validator(mode="after")
    def _an_option_belongs_to_its_model(self) -> ModelConfig:
        for key, name in (("hidden", "mlp"), ("activation", "mlp"), ("stem", "resnet18")):
            if getattr(self, key) is not None and self.name != name:
                raise ConflictError(key, f"{key} belongs to model {name}, the model is {self.name}", LeaveOut())
        if self.initial != "keras" and self.name == "resnet18":
            raise ConflictError(
                "initial", f"initial {self.initial} does not reach into model {self.name}", LeaveOut("initial")
            )
        return self

    def layers(self, *, image_shape: tuple[int, ...], num_classes: int) -> tuple[Layer, ...]:
        """See `Model.layers`. Raises LearningError as `architecture`."""
        return architecture(self, image_shape=image_shape, num_classes=num_classes)
