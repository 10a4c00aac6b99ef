"""Which models are softmax regression on plain pixels, for which kernels take the place of TensorFlow."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from fl.local.forward import can_walk
from fl.models.federated import FederatedModel
from phy.engines.choice import sees_gpu


@lru_cache(maxsize=2)
def linear_classes(model: FederatedModel) -> int | None:
    """Logits of softmax regression on plain pixels, where kernels do it; None for what TensorFlow does."""
    if sees_gpu() or not (model.is_softmax or _is_linear(model.network)):
        return None
    return model.outputs


def _is_linear(network: Any) -> bool:
    """True for a chain of an input, perhaps a flattening, and one dense layer without activation."""
    import keras

    kinds = keras.layers
    if not can_walk(network):
        return False
    layers = [layer for layer in network.layers if type(layer) is not kinds.InputLayer]
    dense: Any = layers[-1] if layers else None
    return (
        type(dense) is kinds.Dense
        and all(type(layer) is kinds.Flatten for layer in layers[:-1])
        and dense.activation is keras.activations.linear
        and len(network.inputs) == len(network.outputs) == 1
        and [id(variable) for variable in network.trainable_variables]
        == [id(variable) for variable in (dense.kernel, dense.bias) if variable is not None]
        and len(network.variables) == len(network.trainable_variables)
        and int(np.prod(network.input_shape[1:])) == dense.kernel.shape[0]
    )
