"""What federated averaging cannot do: data that are not there, models that do not fit them."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import FedAvgConfig
from fl.data.facts import ImageFacts, image_facts
from fl.footprint import dimension
from fl.footprint.fedavg import training_samples
from fl.partition.split import partition_problem
from fl.tasks.base import LearningError
from scenarios.schema.consistency.conflict import Conflict
from scenarios.schema.schema import Scenario


def learning_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Data, partition, model and downlink against each other."""
    learning = scenario.learning
    if not isinstance(learning, FedAvgConfig):
        return
    facts = image_facts(learning.data.name)
    too_many = list(_samples(learning, facts))
    yield from too_many or _shares(learning, facts)
    yield from _model(learning)
    if learning.participation.dropout == 1.0:
        yield Conflict(
            keys=("learning.participation.dropout", "learning.participation"),
            problem="with dropout 1 no device is left to send in any round",
            remedy="write a dropout below 1",
        )
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
    held = data.validation_samples or 0
    if held + (data.train_samples or 1) > facts.num_train >= (data.train_samples or 1):
        left = "one" if data.train_samples is None else str(data.train_samples)
        yield Conflict(
            keys=("learning.data.validation_samples", "learning.data.train_samples", "learning.data"),
            problem=f"{held} images held out for validation do not leave {left} of {facts.num_train} to train on",
            remedy="lower validation_samples or train_samples",
        )


def _shares(learning: FedAvgConfig, facts: ImageFacts) -> Iterator[Conflict]:
    """Samples that cannot be dealt to the devices as asked."""
    problem = partition_problem(
        learning.partition,
        num_devices=learning.num_devices,
        num_samples=max(training_samples(learning.data, facts=facts), 0),
        num_classes=facts.num_classes,
    )
    if problem is None:
        return
    sentence, _, remedy = problem.partition("; ")
    keys = ("partition.samples_per_device", "partition.labels_per_device", "num_devices", "data.train_samples", "data")
    at = {key: problem.find(key.rpartition(".")[2]) for key in keys}
    named = sorted(keys, key=lambda key: at[key] if at[key] >= 0 else len(problem))
    yield Conflict(keys=tuple(f"learning.{key}" for key in named), problem=sentence, remedy=remedy)


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
