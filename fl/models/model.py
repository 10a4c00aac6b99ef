"""Which network the devices train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from fl.base.fields import Count, Frozen
from phy.config.registry import Registry, defines

if TYPE_CHECKING:
    from fl.models.layers import Layer


class Model(Frozen):
    """A network, `learning.model` of a scenario. A model is a class in the registry `models`.

    It defines `layers`, which the size of an upload is known from before the run, or `network`.
    """

    name: str
    outputs: Count | None = Field(
        default=None, description="width of the last layer where it exceeds the number of classes"
    )

    @classmethod
    def undefined(cls) -> tuple[str, ...]:
        """Return what a model must define and this one does not, for its registry."""
        return () if any(defines(cls, Model, name) for name in ("layers", "network")) else ("network",)

    def layers(self, *, image_shape: tuple[int, ...], num_classes: int) -> tuple[Layer, ...] | None:
        """Return the layers from the image to the logits; None where only the network itself knows them."""
        return None

    if TYPE_CHECKING:  # absent unless a model without `layers` defines it

        def network(self, *, image_shape: tuple[int, ...], num_classes: int) -> Any:
            """Return a built Keras model of logits, `num_classes` wide."""


models: Registry[Model] = Registry("model", Model, package="fl.models.kinds", default="linear")
"""All models, by the word in `learning.model.name`."""
