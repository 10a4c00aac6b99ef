"""Sets of images in files, found by their names or fetched by keras, see `fl.data.whereabouts`."""

from __future__ import annotations

from typing import Literal

from fl.data.data_set import DataName, DataSet, ImageFacts, data_sets

_GREY, _COLOUR = (28, 28, 1), (32, 32, 3)
_FACTS: dict[DataName, ImageFacts] = {
    "mnist": ImageFacts(image_shape=_GREY, num_classes=10, num_train=60_000, num_test=10_000),
    "fashion-mnist": ImageFacts(image_shape=_GREY, num_classes=10, num_train=60_000, num_test=10_000),
    "cifar10": ImageFacts(image_shape=_COLOUR, num_classes=10, num_train=50_000, num_test=10_000),
    "cifar100": ImageFacts(image_shape=_COLOUR, num_classes=100, num_train=50_000, num_test=10_000),
    "emnist": ImageFacts(image_shape=_GREY, num_classes=62, num_train=697_932, num_test=116_323),
}


@data_sets.register
class ImageFiles(DataSet):
    """A set in files: in the folder of PHYLOOP_DATA, in the cache of keras, or downloaded by keras."""

    name: Literal["mnist", "fashion-mnist", "cifar10", "cifar100", "emnist"] = "mnist"

    @classmethod
    def facts_of(cls, name: DataName) -> ImageFacts:
        """See `DataSet.facts_of`."""
        return _FACTS[name]

    @classmethod
    def undefined(cls) -> tuple[str, ...]:
        """See `DataSet.undefined`: these sets are read from files."""
        return ()
