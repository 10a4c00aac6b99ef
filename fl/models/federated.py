"""A network as one vector of weights, which is what travels over the air."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.tasks.base import LearningError


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One trainable variable: its place in the flat vector."""

    name: str
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)

    @property
    def place(self) -> slice:
        """Where it lies in the flat vector."""
        return slice(self.offset, self.offset + self.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class FederatedModel:
    """A Keras network of logits and the flat order of its M trainable numbers.

    The order is that of `network.trainable_variables`, each flattened row by row. Leading axes of weights, such as one
    over devices, are kept: `[..., M]` falls apart into `[..., *shape]` and is put together again.
    """

    network: Any
    pieces: tuple[Piece, ...]
    initial: NDArray[np.float32] = field(repr=False)
    """The weights it was built with, `[M]`, read-only."""

    @property
    def num_parameters(self) -> int:
        """M."""
        return len(self.initial)

    def initial_weights(self) -> NDArray[np.float32]:
        """The weights that every device starts from, `[M]` float32, one's own copy."""
        return self.initial.copy()

    def assign(self, weights: NDArray[np.float32]) -> None:
        """Write `weights` `[M]` into the network's variables."""
        for variable, part in zip(self.network.trainable_variables, self.unflatten(weights), strict=True):
            variable.assign(part)

    def flatten(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Arrays `[..., *shape]`, one per piece, to one `[..., M]`. Raises `LearningError` if a shape does not fit."""
        if len(parts) != len(self.pieces):
            raise LearningError(f"{len(parts)} arrays for a model of {len(self.pieces)} variables")
        rows = []
        for piece, part in zip(self.pieces, parts, strict=True):
            leading = part.ndim - len(piece.shape)
            if leading < 0 or part.shape[leading:] != piece.shape:
                raise LearningError(f"{piece.name} has shape {piece.shape}, the array given for it {part.shape}")
            rows.append(part.reshape(*part.shape[:leading], piece.size))
        return np.concatenate(rows, axis=-1)

    def unflatten(self, weights: NDArray[Any]) -> list[NDArray[Any]]:
        """`[..., M]` to arrays `[..., *shape]`, one per piece, views where NumPy can.

        Raises `LearningError` if the last axis is not M long.
        """
        if weights.shape[-1] != self.num_parameters:
            raise LearningError(f"weights of {weights.shape[-1]} numbers for a model of {self.num_parameters}")
        return [weights[..., piece.place].reshape(*weights.shape[:-1], *piece.shape) for piece in self.pieces]

    def flatten_tensors(self, parts: Sequence[Any]) -> Any:
        """`flatten` in TensorFlow, differentiable and traceable."""
        import tensorflow as tf

        rows = []
        for piece, part in zip(self.pieces, parts, strict=True):
            leading = tf.shape(part)[: len(part.shape) - len(piece.shape)]
            rows.append(tf.reshape(part, tf.concat([leading, [piece.size]], axis=0)))
        return tf.concat(rows, axis=-1)

    def unflatten_tensor(self, weights: Any) -> list[Any]:
        """`unflatten` in TensorFlow, differentiable and traceable."""
        import tensorflow as tf

        leading = tf.shape(weights)[:-1]
        return [
            tf.reshape(weights[..., piece.place], tf.concat([leading, tf.constant(piece.shape, tf.int32)], axis=0))
            for piece in self.pieces
        ]


def federated(network: Any) -> FederatedModel:
    """The flat view of a built network with the weights that it has now."""
    pieces: list[Piece] = []
    offset = 0
    for variable in network.trainable_variables:
        piece = Piece(name=str(variable.path), shape=tuple(variable.shape), offset=offset)
        pieces.append(piece)
        offset += piece.size
    initial = np.concatenate([np.asarray(variable).reshape(-1) for variable in network.trainable_variables])
    initial = initial.astype(np.float32)
    initial.setflags(write=False)
    return FederatedModel(network=network, pieces=tuple(pieces), initial=initial)
