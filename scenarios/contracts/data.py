"""The contracts of data sets and models. Their functions raise AssertionError with the numbers that break them."""

from __future__ import annotations

import numpy as np

from fl.data.arrays import image_facts
from fl.data.data_set import DataSet, ImageFacts
from fl.data.images import load_images
from fl.models.build import build_model
from fl.models.layers import num_parameters
from fl.models.model import Model


def facts_and_images_have_their_types(data: DataSet) -> None:
    """`facts` is an `ImageFacts`, and `read` gives two pairs of images, uint8, and labels, whole numbers."""
    assert isinstance(data.facts, ImageFacts), (
        f"facts is of type {type(data.facts).__name__}; write facts = ImageFacts(image_shape=(height, width, "
        "channels), num_classes=.., num_train=.., num_test=..) of fl.data.data_set"
    )
    found = data.read()
    assert len(found) == 2, f"read gives {len(found)} things; return (x_train, y_train), (x_test, y_test)"
    for part, pair in zip(("train", "test"), found, strict=True):
        assert len(pair) == 2, f"read gives {len(pair)} arrays of the {part} set; return images and labels"
        images, labels = map(np.asarray, pair)
        assert images.ndim == 4, f"{part} images have shape {images.shape}; it is [number, height, width, channels]"
        assert images.dtype == np.uint8, f"{part} images are {images.dtype}; write whole numbers 0 to 255 as uint8"
        assert labels.dtype.kind in "iu", f"{part} labels are {labels.dtype}; write whole numbers from 0"


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


DATA = (
    facts_and_images_have_their_types,
    images_are_what_the_facts_say,
)

_SHAPE, _CLASSES = (28, 28, 1), 10


def the_network_has_the_parameters_that_are_known_before(model: Model) -> None:
    """The network can be built for images of 28 x 28, and has as many parameters as its layers say."""
    built = build_model(model, image_shape=_SHAPE, num_classes=_CLASSES, seed=1, trial=0)
    known = num_parameters(model, image_shape=_SHAPE, num_classes=_CLASSES)
    found = built.num_parameters
    assert known is None or known == found, f"the layers say {known} parameters, the network has {found}"


def initial_weights_depend_on_seed_and_trial_alone(model: Model) -> None:
    """Building twice with one seed gives the same weights, and another trial gives others."""
    first, again, other = (
        build_model(model, image_shape=_SHAPE, num_classes=_CLASSES, seed=1, trial=trial).initial_weights()
        for trial in (0, 0, 1)
    )
    assert (first == again).all(), "building twice with one seed gives other weights"
    assert (first != other).any(), "another trial has the same initial weights"


MODEL = (the_network_has_the_parameters_that_are_known_before, initial_weights_depend_on_seed_and_trial_alone)
