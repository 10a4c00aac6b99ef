"""What federated averaging cannot do: data that are not there, models that do not fit them."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import FedAvgConfig
from fl.data.facts import ImageFacts, image_facts
from fl.footprint import dimension
from fl.tasks.base import LearningError
from scenarios.consistency.conflict import Conflict
from scenarios.schema import Scenario


def learning_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Data, partition, model and downlink against each other."""
    learning = scenario.learning
    if not isinstance(learning, FedAvgConfig):
        return
    facts = image_facts(learning.data.name)
    yield from _samples(learning, facts)
    yield from _shares(learning, facts)
    yield from _model(learning)
    if learning.downlink == "ideal" and learning.downlink_codec is not None:
        yield Conflict(
            keys=("learning.downlink_codec", "learning.downlink"),
            problem="downlink_codec writes what goes over a downlink, and the downlink is ideal",
            remedy="leave downlink_codec out, or describe a link under downlink",
        )


def _samples(learning: FedAvgConfig, facts: ImageFacts) -> Iterator[Conflict]:
    data = learning.data
    for key, most in (("train_samples", facts.num_train), ("test_samples", facts.num_test)):
        wanted = getattr(data, key)
        if wanted is not None and wanted > most:
            yield Conflict(
                keys=(f"learning.data.{key}", "learning.data"),
                problem=f"{data.name} has {most} of these images, {wanted} are asked for",
                remedy=f"write at most {most}, or leave {key} out to take all",
            )


def _shares(learning: FedAvgConfig, facts: ImageFacts) -> Iterator[Conflict]:
    """Samples of all devices together, and labels of each."""
    partition, num_devices = learning.partition, learning.num_devices
    have = min(learning.data.train_samples or facts.num_train, facts.num_train)
    each = partition.samples_per_device
    keys = ("learning.partition.samples_per_device", "learning.num_devices", "learning.data.train_samples")
    if partition.disjoint and num_devices * (each or 1) > have:
        yield Conflict(
            keys=keys if each is not None else keys[1:],
            problem=f"{num_devices} devices cannot hold {each or 1} of {have} training samples each, disjoint",
            remedy=f"ask for at most {have // num_devices} each, or write disjoint: false"
            if have >= num_devices
            else f"use at most {have} devices, or write samples_per_device: 1 with disjoint: false",
        )
    elif each is not None and each > have:
        yield Conflict(
            keys=keys,
            problem=f"a device cannot hold {each} of {have} training samples",
            remedy=f"ask for at most {have}",
        )
    labels = partition.labels_per_device
    if labels is not None and labels > facts.num_classes:
        yield Conflict(
            keys=("learning.partition.labels_per_device", "learning.data.name", "learning.data"),
            problem=f"{learning.data.name} has {facts.num_classes} labels, no device can hold {labels}",
            remedy=f"write at most {facts.num_classes}",
        )
    elif labels is not None and each is not None and labels > each:
        yield Conflict(
            keys=("learning.partition.labels_per_device", "learning.partition.samples_per_device"),
            problem=f"{each} samples cannot be of {labels} labels",
            remedy="lower labels_per_device, or raise samples_per_device",
        )


def _model(learning: FedAvgConfig) -> Iterator[Conflict]:
    """A network whose layers do not fit the images, or that tells fewer classes apart than there are."""
    try:
        dimension(learning)
    except LearningError as error:
        problem, _, remedy = str(error).partition("; ")
        yield Conflict(
            keys=(
                *(("learning.model.outputs",) if "outputs" in problem else ()),
                "learning.model.name",
                "learning.model",
                "learning.data.name",
                "learning.data",
            ),
            problem=problem,
            remedy=remedy or "choose another model",
        )
