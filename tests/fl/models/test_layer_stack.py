"""Stacks of layers for kernels: which networks they are, and their initial weights without Keras."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from fl.models.build import build_model
from fl.models.federated import federated
from fl.models.kinds.networks import FLATTEN, RELU, ModelConfig
from fl.models.layer_stack import ConvStage, StackLayer, keras_stack, layer_stack
from fl.models.layers import Conv, Dense, Dropout, Function, Layer, MaxPool
from fl.models.model import Model

SHAPE = (4, 3, 2)
TANH = Function(kind="tanh")


class Own(Model):
    """A model of given layers."""

    name: str = "own"
    initial: str = "keras"

    def layers(self, *, num_classes: int, **_: Any) -> tuple[Layer, ...]:
        return (Dropout(rate=0.2), FLATTEN, Dense(units=7), TANH, Dropout(rate=0.0), Dense(units=5, bias=False),
                Dropout(rate=0.5), Dense(units=num_classes))  # fmt: skip


@pytest.mark.parametrize("initial", ["keras", "pytorch"])
@pytest.mark.parametrize(
    "model", [{"hidden": [9, 5]}, {"hidden": [6], "activation": "gelu"}, {"activation": "sigmoid"}, None], ids=str
)
def test_initial_weights_are_those_of_keras_bit_for_bit_without_keras(
    model: dict[str, Any] | None, initial: Literal["keras", "pytorch"]
) -> None:
    config = Own(initial=initial)
    if model is not None:
        config = ModelConfig.model_validate({"name": "mlp", "initial": initial, **model})
    made = build_model(config, image_shape=SHAPE, num_classes=4, seed=7, trial=3)
    assert made.stack is not None
    assert "network" not in vars(made)
    theirs = federated(made.network)
    np.testing.assert_array_equal(made.initial, theirs.initial)
    assert made.pieces == theirs.pieces
    assert made.outputs == theirs.outputs == 4
    assert made.stack.num_parameters == made.num_parameters


def test_layers_are_taken_together_with_what_follows_them() -> None:
    layers = Own().layers(image_shape=SHAPE, num_classes=4)
    found = layer_stack(layers, image_shape=SHAPE)
    assert found is not None
    assert found.layers == (
        StackLayer(inputs=24, units=7, bias=True, activation="tanh", dropout=0.2, random_layer=0),
        StackLayer(inputs=7, units=5, bias=False, dropout=0.0, random_layer=1),
        StackLayer(inputs=5, units=4, bias=True, dropout=0.5, random_layer=2),
    )
    assert found.has_dropout


@pytest.mark.parametrize(
    "layers",
    [
        [],
        [FLATTEN],
        [Dense(units=3), FLATTEN, Dense(units=2)],
        [FLATTEN, RELU, Dense(units=2)],
        [FLATTEN, Dense(units=3), RELU, TANH, Dense(units=2)],
        [FLATTEN, Dense(units=3), Dropout(rate=0.5), RELU, Dense(units=2)],
        [FLATTEN, Dropout(rate=0.5), Dropout(rate=0.5), Dense(units=2)],
        [FLATTEN, Dense(units=2), Dropout(rate=0.5)],
        [Conv(filters=2, kernel=3, stride=2), FLATTEN, Dense(units=2)],
        [Conv(filters=2, kernel=3), Function(kind="mean"), Dense(units=2)],
        [Conv(filters=2, kernel=4), FLATTEN, Dense(units=2)],
        [Dropout(rate=0.5), Conv(filters=2, kernel=2), FLATTEN, Dense(units=2)],
        [Conv(filters=2, kernel=2), Dropout(rate=0.5), RELU, FLATTEN, Dense(units=2)],
        [Conv(filters=2, kernel=2), MaxPool(window=2, stride=1), FLATTEN, Dense(units=2)],
        [Conv(filters=2, kernel=2), Function(kind="gelu"), MaxPool(window=2, stride=2), FLATTEN, Dense(units=2)],
        [MaxPool(window=2, stride=2), FLATTEN, Dense(units=2)],
        [Function(kind="mean"), Dense(units=2)],
    ],
    ids=str,
)
def test_other_layers_and_orders_are_no_stack(layers: Sequence[Layer]) -> None:
    assert layer_stack(layers, image_shape=SHAPE) is None


def test_a_sequential_of_the_user_is_the_stack_of_its_layers() -> None:
    import keras

    kinds = keras.layers
    inner = keras.Sequential([keras.Input((7,)), kinds.Dropout(0.5), kinds.Dense(6, activation="gelu")])
    network = keras.Sequential(
        [
            *(keras.Input(SHAPE), kinds.Flatten(), kinds.Dense(7, activation="sigmoid"), inner),
            *(kinds.Dense(5, use_bias=False), kinds.ReLU(), kinds.Dense(4), kinds.Activation("tanh")),
        ]
    )
    found = keras_stack(network)
    assert found is not None
    assert [(one.units, one.bias, one.activation, one.dropout) for one in found.layers] == [
        (7, True, "sigmoid", 0.0), (6, True, "gelu", 0.5), (5, False, "relu", 0.0), (4, True, "tanh", 0.0),
    ]  # fmt: skip
    assert found.num_parameters == network.count_params()


def test_networks_that_kernels_would_not_compute_as_keras_does_are_no_stack() -> None:
    import keras

    kinds = keras.layers

    class Doubled(kinds.Dense):
        def call(self, inputs: Any) -> Any:
            return 2.0 * super().call(inputs)

    def stack_of(*layers: Any) -> Any:
        return keras_stack(
            keras.Sequential([keras.Input(SHAPE), kinds.Flatten(), kinds.Dense(5), *layers, kinds.Dense(4)])
        )

    for layer in (kinds.Dense(3), kinds.ReLU(), kinds.Dropout(0.5), kinds.Activation("gelu")):
        assert stack_of(layer) is not None
    for layer in (
        Doubled(3), kinds.ReLU(max_value=6.0), kinds.ReLU(negative_slope=0.1), kinds.LeakyReLU(),
        kinds.Activation("elu"), kinds.Dense(3, activation="softplus"), kinds.LayerNormalization(),
        kinds.Dropout(0.5, noise_shape=(1, None)),
        kinds.Dense(3, dtype="mixed_bfloat16"),
    ):  # fmt: skip
        assert stack_of(layer) is None
    image = keras.Input(SHAPE)
    assert keras_stack(keras.Model(image, kinds.Dense(4)(kinds.Flatten()(image)))) is None


@pytest.mark.parametrize("initial", ["keras", "pytorch"])
def test_initial_weights_of_convolutions_are_those_of_keras_bit_for_bit(initial: Literal["keras", "pytorch"]) -> None:
    made = build_model(
        ModelConfig(name="cnn2", initial=initial), image_shape=(18, 20, 3), num_classes=4, seed=7, trial=3
    )
    assert made.stack is not None
    assert "network" not in vars(made)
    theirs = federated(made.network)
    np.testing.assert_array_equal(made.initial, theirs.initial)
    assert made.pieces == theirs.pieces
    assert made.stack.num_parameters == made.num_parameters


def test_convolutions_of_the_user_are_the_stages_of_their_layers() -> None:
    import keras

    kinds = keras.layers

    def found(*layers: Any) -> Any:
        stack = keras_stack(keras.Sequential([keras.Input((9, 8, 2)), *layers, kinds.Flatten(), kinds.Dense(4)]))
        return None if stack is None else stack.stages

    first = ConvStage(height=9, width=8, channels=2, filters=5, kernel=4, bias=True, before=1, after=2)
    assert found(kinds.Conv2D(5, 4, padding="same")) == (first,)
    pooled = replace(first, activation="tanh", pool=2, dropout=0.25, random_layer=0)
    second = ConvStage(height=4, width=4, channels=5, filters=3, kernel=3, bias=False)
    chain = kinds.MaxPooling2D(2), kinds.Dropout(0.25), kinds.Conv2D(3, 3, use_bias=False)
    assert found(kinds.Conv2D(5, 4, padding="same", activation="tanh"), *chain) == (pooled, second)
    for layer in (
        kinds.Conv2D(5, 3, strides=2), kinds.Conv2D(5, 3, dilation_rate=2), kinds.Conv2D(4, 3, groups=2),
        kinds.Conv2D(5, (3, 2)), kinds.SeparableConv2D(5, 3),
    ):  # fmt: skip
        assert found(layer) is None
    for pool in (kinds.MaxPooling2D(2, strides=1), kinds.MaxPooling2D(2, padding="same"), kinds.AveragePooling2D(2)):
        assert found(kinds.Conv2D(5, 3), pool) is None


@pytest.mark.parametrize("model", ["mlp", "cnn2"])
def test_a_network_is_built_trained_and_scored_without_tensorflow(model: str) -> None:
    code = (
        "import sys, numpy as np\n"
        "from local_setting import images, trainer\n"
        "from fl.local.evaluation import evaluate\n"
        "from fl.models.build import build_model\n"
        "from fl.models.kinds.networks import ModelConfig\n"
        f"shape, name = (16, 16, 2), '{model}'\n"
        "model = build_model(ModelConfig(name=name), image_shape=shape, num_classes=4, seed=1, trial=0)\n"
        "data, partition = images([3, 4], shape=shape)\n"
        "learner = trainer(model, data, partition, optimizer='adam', batch_size=2)\n"
        "ends = learner.train(model.initial_weights(), devices=np.arange(2), round_index=0).weights\n"
        "evaluate(model, ends[0], data.x_test, data.y_test, scale=data.scale)\n"
        "print(sorted({'tensorflow', 'keras'} & set(sys.modules)))\n"
    )
    path = f"import sys; sys.path[:0] = {sys.path!r}\n"
    done = subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]"]
