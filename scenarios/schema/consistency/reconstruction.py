"""What an attack on uploads cannot do, and what of federated averaging it cannot attack."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import ReconstructionConfig
from fl.data.facts import image_facts
from fl.footprint.fedavg import training_samples
from privacy.config import BitFlippingConfig, GaussianConfig
from scenarios.schema.consistency.conflict import Conflict
from scenarios.schema.schema import Scenario


def learning_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Images that do not suffice, and privacy that is not that of one upload."""
    learning, privacy = scenario.learning, scenario.privacy
    if not isinstance(learning, ReconstructionConfig):
        return
    there = training_samples(learning.data, facts=image_facts(learning.data.name))
    needed = learning.num_devices * (learning.samples_per_device + 1)
    if needed > there >= 1:
        yield Conflict(
            keys=(
                "learning.num_devices",
                "learning.samples_per_device",
                "learning.data.train_samples",
                "learning.data",
            ),
            problem=f"{learning.num_devices} devices with {learning.samples_per_device} images and a target each need "
            f"{needed} images that differ, there are {there}",
            remedy=f"write num_devices: {max(there // (learning.samples_per_device + 1), 2)} or less, and more rounds",
        )
    if privacy != "none" and not isinstance(privacy, BitFlippingConfig | GaussianConfig):
        yield Conflict(
            keys=("privacy.budget", "privacy.mechanism", "privacy", "learning.algorithm"),
            problem="reconstruction attacks one upload, and this privacy is not that of one",
            remedy="write mechanism: bit-flipping or gaussian with an epsilon and no budget, or privacy: none",
        )


def attacked(scenario: Scenario) -> Scenario:
    """The scenario with the round of federated averaging in the place of the attack on it; others as they are."""
    learning = scenario.learning
    if not isinstance(learning, ReconstructionConfig):
        return scenario
    return scenario.model_copy(update={"learning": learning.one_round})
