"""A model whose size only its network knows, as a plug-in may register one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from fl.models.model import Model, models


@contextmanager
def own_network() -> Iterator[None]:
    """Register the model `own-network`, and forget it in the end."""

    @models.register
    class OwnNetwork(Model):
        name: Literal["own-network"] = "own-network"

        def network(self, *, image_shape: tuple[int, ...], num_classes: int) -> Any:
            raise AssertionError(f"nothing is built for {image_shape} and {num_classes}")

    try:
        yield
    finally:
        models.forget(__name__)
