"""The contract of models. Its functions raise AssertionError with the numbers that break it."""

from __future__ import annotations

from fl.config.model import Model
from fl.models.build import build_model
from fl.models.layers import num_parameters

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


CHECKS = (the_network_has_the_parameters_that_are_known_before, initial_weights_depend_on_seed_and_trial_alone)
