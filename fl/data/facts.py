"""What is known of the six sets of images before any file is opened."""

from __future__ import annotations

from fl.config.data import DataName, ImageFacts, data_sets

_FACTS: dict[DataName, ImageFacts] = {
    "digits": ImageFacts(image_shape=(8, 8, 1), num_classes=10, num_train=1437, num_test=360, largest_pixel=16),
    "mnist": ImageFacts(image_shape=(28, 28, 1), num_classes=10, num_train=60_000, num_test=10_000),
    "fashion-mnist": ImageFacts(image_shape=(28, 28, 1), num_classes=10, num_train=60_000, num_test=10_000),
    "cifar10": ImageFacts(image_shape=(32, 32, 3), num_classes=10, num_train=50_000, num_test=10_000),
    "cifar100": ImageFacts(image_shape=(32, 32, 3), num_classes=100, num_train=50_000, num_test=10_000),
    "emnist": ImageFacts(image_shape=(28, 28, 1), num_classes=62, num_train=697_932, num_test=116_323),
}


def image_facts(name: DataName) -> ImageFacts:
    """What every complete copy of the set `name` has; a file with a part of it has fewer images."""
    own = data_sets[name].facts
    return _FACTS[name] if own is None else own
