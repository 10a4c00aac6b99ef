"""The contract of data sets. Its functions raise AssertionError with the numbers that break it."""

from __future__ import annotations

from fl.config.data import DataSet
from fl.data.arrays import image_facts
from fl.data.images import load_images


def images_are_what_the_facts_say(data: DataSet) -> None:
    """Images and labels have the shape, the classes and the numbers that `facts` says."""
    facts, found = image_facts(data.name), load_images(data, seed=1, trial=0)
    assert found.x_train.shape[1:] == facts.image_shape, (
        f"images are {found.x_train.shape[1:]}, {facts.image_shape} said"
    )
    for part, labels, count in (("train", found.y_train, facts.num_train), ("test", found.y_test, facts.num_test)):
        assert len(labels) == count, f"there are {len(labels)} {part} images, facts say {count}"
        classes = int(labels.max()) + 1
        assert classes <= facts.num_classes, f"{part} labels reach {classes - 1} with {facts.num_classes} classes"


CHECKS = (images_are_what_the_facts_say,)
