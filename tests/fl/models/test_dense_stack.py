"""Stacks of dense layers: which networks they are, and their initial weights without Keras."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest

from fl.models.build import build_model
from fl.models.dense_stack import StackLayer, dense_stack, keras_stack
from fl.models.federated import federated
from fl.models.kinds.networks import FLATTEN, RELU, ModelConfig
from fl.models.layers import Conv, Dense, Dropout, Function, Layer
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
    found = dense_stack(layers, image_shape=SHAPE)
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
        [Conv(filters=2, kernel=3), FLATTEN, Dense(units=2)],
        [Function(kind="mean"), Dense(units=2)],
    ],
    ids=str,
)
def test_other_layers_and_orders_are_no_stack(layers: Sequence[Layer]) -> None:
    assert dense_stack(layers, image_shape=SHAPE) is None


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


def test_an_mlp_is_built_trained_and_scored_without_tensorflow() -> None:
    code = (
        "import sys, numpy as np\n"
        "from local_setting import images, trainer\n"
        "from fl.local.evaluation import evaluate\n"
        "from fl.models.build import build_model\n"
        "from fl.models.kinds.networks import ModelConfig\n"
        "model = build_model(ModelConfig(name='mlp'), image_shape=(6, 6, 2), num_classes=4, seed=1, trial=0)\n"
        "data, partition = images([3, 4])\n"
        "learner = trainer(model, data, partition, optimizer='adam', batch_size=2)\n"
        "ends = learner.train(model.initial_weights(), devices=np.arange(2), round_index=0).weights\n"
        "evaluate(model, ends[0], data.x_test, data.y_test, scale=data.scale)\n"
        "print(sorted({'tensorflow', 'keras'} & set(sys.modules)))\n"
    )
    path = f"import sys; sys.path[:0] = {sys.path!r}\n"
    done = subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]"]
