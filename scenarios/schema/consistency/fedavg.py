"""Conflicts of federated averaging, attackers, attacks on uploads and codec studies."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import (
    AggregatorConfig,
    AttackConfig,
    Binary32Config,
    FedAvgConfig,
    FlipMomentsConfig,
    FlmcConfig,
    ReconstructionConfig,
)
from fl.data.facts import image_facts
from fl.footprint import dimension
from fl.footprint.fedavg import samples_per_device, training_samples
from fl.partition.split import partition_problem
from fl.tasks.base import LearningError
from privacy.config import BitFlippingConfig, GaussianConfig
from scenarios.schema.consistency.conflict import Conflict
from scenarios.schema.schema import Scenario

_MODEL = "learning.model.name learning.model learning.data.name learning.data"
_SHARES = ("partition.samples_per_device", "partition.labels_per_device", "num_devices", "data.train_samples", "data")
_ATTACK = (
    *("learning.attack.factor", "learning.attack.devices", "learning.attack.kind", "learning.attack.share"),
    *("learning.scheme", "link.error_model"),
)
_ATTACK_NUMBERS = (("factor", ("sign-flip", "scale")), ("std", ("gaussian",)), ("signal", ("jam",)))
"""Numbers of an attack, and the kinds that read them."""


def learning_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Check data, partition, model, downlink, personal models and convergence bound against each other."""
    learning = scenario.learning
    if not isinstance(learning, FedAvgConfig):
        return
    yield from list(_samples(learning)) or _shares(learning)
    try:
        dimension(learning)
    except LearningError as error:
        keys = f"learning.model.outputs {_MODEL}" if "outputs" in str(error).partition("; ")[0] else _MODEL
        yield Conflict.of(keys, error, usual="choose another model")
    if learning.participation.dropout == 1.0:
        yield Conflict(
            "learning.participation.dropout learning.participation",
            "with dropout 1 no device is left to send in any round",
            "write a dropout below 1",
        )
    if learning.downlink == "ideal" and learning.downlink_codec is not None:
        yield Conflict(
            "learning.downlink_codec learning.downlink",
            "downlink_codec writes what goes over a downlink, and the downlink is ideal",
            "leave downlink_codec out, or describe a link under downlink",
        )


def personal_conflicts(learning: FedAvgConfig) -> Iterator[Conflict]:
    """Check personal models, and the convergence bound of Li et al. 2025, Theorem 2."""
    personal = learning.personal
    if personal is not None and samples_per_device(learning) < 2:
        yield Conflict(
            "learning.partition.samples_per_device learning.num_devices learning.personal",
            "a device with one sample has none to hold out for a test of its personal model",
            "give every device at least 2 samples, or leave personal out",
        )
    if personal is not None and learning.local.proximal not in (0.0, personal.lam):
        yield Conflict(
            "learning.local.proximal learning.personal.lam learning.personal",
            f"local.proximal {learning.local.proximal:g} and personal.lam {personal.lam:g} both weigh the "
            "distance to the global model",
            "leave local.proximal out",
        )
    plain = learning.aggregation == AggregatorConfig() and learning.attack is None and personal is None
    if learning.convergence_bound and not plain:
        yield Conflict(
            "learning.convergence_bound learning.aggregation.name learning.aggregation learning.attack "
            "learning.personal",
            "the convergence bound holds for the mean of honest updates of one common model",
            "leave convergence_bound out, or aggregation, attack and personal",
        )


def _samples(learning: FedAvgConfig) -> Iterator[Conflict]:
    data, facts = learning.data, image_facts(learning.data.name)
    for key, most in (("train_samples", facts.num_train), ("test_samples", facts.num_test)):
        wanted = getattr(data, key)
        if wanted is not None and wanted > most:
            yield Conflict(
                f"learning.data.{key} learning.data",
                f"{data.name} has {most} of these images, {wanted} are asked for",
                f"write at most {most}, or leave {key} out to take all",
            )
    held, least = data.validation_samples or 0, data.train_samples or 1
    if held + least > facts.num_train >= least:
        left = "one" if data.train_samples is None else str(data.train_samples)
        yield Conflict(
            "learning.data.validation_samples learning.data.train_samples learning.data",
            f"{held} images held out for validation do not leave {left} of {facts.num_train} to train on",
            "lower validation_samples or train_samples",
        )


def _shares(learning: FedAvgConfig) -> Iterator[Conflict]:
    """Check that the samples can be dealt to the devices."""
    facts = image_facts(learning.data.name)
    problem = partition_problem(
        learning.partition,
        num_devices=learning.num_devices,
        num_samples=max(training_samples(learning.data, facts=facts), 0),
        num_classes=facts.num_classes,
    )
    if problem is not None:
        at = {key: problem.find(key.rpartition(".")[2]) for key in _SHARES}
        named = sorted(_SHARES, key=lambda key: at[key] if at[key] >= 0 else len(problem))
        yield Conflict.of(" ".join(f"learning.{key}" for key in named), problem)


def attack_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Check that attackers exist, that they can act, and that every number of the attack is read."""
    learning = scenario.learning
    if not isinstance(learning, FlmcConfig | FedAvgConfig) or learning.attack is None:
        return
    attack = learning.attack
    if isinstance(learning, FedAvgConfig) and attack.kind == "jam":
        yield Conflict(
            "learning.attack.kind learning.attack",
            "a jammer disturbs symbols that add up in the air, but fedavg detects every device on its own",
            "write kind: random, which sends random bits, or another kind",
        )
        return
    try:
        _check_attack(learning, attack, error_model=scenario.link.error_model)
    except LearningError as error:
        problem = str(error).partition("; ")[0]
        named = sorted(_ATTACK, key=lambda key: key.partition(".")[2] not in problem)
        yield Conflict.of(" ".join((*named, "learning.attack")), error)
        return
    usual = AttackConfig(kind=attack.kind, share=0.0)
    if attack.devices is not None and attack.drawn != usual.drawn:
        yield Conflict(
            "learning.attack.drawn learning.attack",
            "drawn sets how a share of the devices is drawn, but attack.devices names the devices",
            "leave drawn out, or write share in place of devices",
        )
    for key, kinds in _ATTACK_NUMBERS:
        if getattr(attack, key) != getattr(usual, key) and attack.kind not in kinds:
            yield Conflict(
                f"learning.attack.{key} learning.attack",
                f"{key} belongs to attack.kind {' or '.join(kinds)}, the kind is {attack.kind}",
                f"leave {key} out, or change the kind",
            )


def _check_attack(learning: FlmcConfig | FedAvgConfig, attack: AttackConfig, *, error_model: str) -> None:
    """Raise the LearningError of the run."""
    from fl.attacks.attacks import choose_attackers
    from fl.attacks.flmc_attackers import check_attack

    if isinstance(learning, FlmcConfig):
        check_attack(learning, error_model=error_model)
    else:
        choose_attackers(attack, num_devices=learning.num_devices, seed=0, trial=0)


def reconstruction_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Check the images of an attack on uploads, and that its privacy is that of one upload."""
    learning, privacy = scenario.learning, scenario.privacy
    if not isinstance(learning, ReconstructionConfig):
        return
    there = training_samples(learning.data, facts=image_facts(learning.data.name))
    each = learning.samples_per_device + 1
    if (needed := learning.num_devices * each) > there >= 1:
        yield Conflict(
            "learning.num_devices learning.samples_per_device learning.data.train_samples learning.data",
            f"{learning.num_devices} devices with {learning.samples_per_device} images and a target each need "
            f"{needed} images that differ, there are {there}",
            f"write num_devices: {max(there // each, 2)} or less, and more rounds",
        )
    if privacy != "none" and not isinstance(privacy, BitFlippingConfig | GaussianConfig):
        yield Conflict(
            "privacy.budget privacy.mechanism privacy learning.algorithm",
            "reconstruction attacks one upload, but this privacy is that of a whole run",
            "write mechanism: bit-flipping or gaussian with an epsilon and no budget, or privacy: none",
        )


def codec_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Check that the values of a codec study lie within the codec."""
    learning = scenario.learning
    if not isinstance(learning, FlipMomentsConfig) or isinstance(learning.codec, Binary32Config):
        return
    limit = learning.codec.value_range
    if learning.largest > limit:
        yield Conflict(
            "learning.largest learning.codec.bound learning.codec",
            f"values up to {learning.largest:g} exceed the limit {limit:g} of codec {learning.codec.name}, which clips "
            "them",
            f"write largest: {limit:g}, or raise codec.bound",
        )
