"""A network as one vector of weights, which is what travels over the air."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


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

    The order is that of `network.trainable_variables`, each flattened row by row.
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

    def unflatten(self, weights: NDArray[Any]) -> list[NDArray[Any]]:
        """`[..., M]` to arrays `[..., *shape]`, one per piece, views where NumPy can."""
        return [weights[..., piece.place].reshape(*weights.shape[:-1], *piece.shape) for piece in self.pieces]


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
