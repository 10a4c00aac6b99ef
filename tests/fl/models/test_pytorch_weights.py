"""Initial weights as PyTorch draws them: uniform within 1/sqrt(fan-in), biases too."""

from __future__ import annotations

import numpy as np
import pytest

from fl.models.build import build_model
from fl.models.kinds.networks import ModelConfig


@pytest.mark.parametrize(
    ("name", "fan_in"),
    [("linear", (784, 784)), ("mlp", (784, 784, 32, 32, 16, 16)), ("cnn2", (25, 25, 150, 150, 96, 96, 50, 50))],
)
def test_kernels_and_biases_are_uniform_within_the_root_of_the_inputs(name: str, fan_in: tuple[int, ...]) -> None:
    made = build_model(
        ModelConfig.model_validate({"name": name, "initial": "pytorch"}),
        image_shape=(28, 28, 1),
        num_classes=10,
        seed=1,
        trial=0,
    )
    weights = made.initial_weights()
    assert len(made.pieces) == len(fan_in)
    for piece, inputs in zip(made.pieces, fan_in, strict=True):
        part = weights[piece.place] * np.sqrt(inputs)
        assert np.abs(part).max() <= 1.0
        # Uniform on [-1, 1]: mean 0 and variance 1/3; their standard errors 1/sqrt(3 n) and sqrt(4/45 n), five of each.
        assert abs(part.mean()) < 5.0 / np.sqrt(3.0 * piece.size)
        assert abs((part**2).mean() - 1.0 / 3.0) < 5.0 * np.sqrt(4.0 / 45.0 / piece.size)


def test_left_out_the_weights_are_those_of_keras() -> None:
    def built(**options: str) -> np.ndarray:
        config = ModelConfig.model_validate({"name": "linear", **options})
        return build_model(config, image_shape=(8, 8, 1), num_classes=10, seed=1, trial=0).initial_weights()

    np.testing.assert_array_equal(built(), built(initial="keras"))
    assert (built()[-10:] == 0.0).all()
    assert (built(initial="pytorch")[-10:] != 0.0).all()
