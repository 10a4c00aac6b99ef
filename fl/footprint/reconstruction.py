"""What an attack on uploads costs: memory of one trial, and a rough time."""

from __future__ import annotations

from math import prod

from fl.config import ReconstructionConfig
from fl.data.facts import image_facts
from fl.footprint import fedavg
from phy.config import LinkConfig

# Measured on two cores of a 2024 server processor; good to a factor of two, which is what `check` claims.
_SECONDS_TO_BEGIN = 0.6
_SECONDS_PER_MATCH = 1e-9
_SERIES_PER_DEVICE = 28
_BYTES_PER_MATCH = 16


def bytes_per_trial(config: ReconstructionConfig, link: LinkConfig) -> int:
    """Memory of one trial: that of one round, images as numbers, and every upload beside every image [B]."""
    facts = image_facts(config.data.name)
    images = fedavg.training_samples(config.data, facts=facts)
    matches = images * (8 * 2 * prod(facts.image_shape) + config.num_devices * _BYTES_PER_MATCH)
    records = 8 * config.rounds * config.num_devices * _SERIES_PER_DEVICE
    return fedavg.bytes_per_trial(config.one_round, link) + matches + records


def seconds_per_trial(config: ReconstructionConfig, link: LinkConfig) -> float:
    """Rough time of one trial: two updates per game, the radio, and comparing with every image [s]."""
    facts = image_facts(config.data.name)
    images = fedavg.training_samples(config.data, facts=facts)
    compared = config.num_devices * images * prod(facts.image_shape) * _SECONDS_PER_MATCH
    # Of many rounds only the difference counts: what is built is built once.
    attacked = config.one_round
    twice = attacked.model_copy(update={"rounds": 2})
    per_round = fedavg.seconds_per_trial(twice, link) - fedavg.seconds_per_trial(attacked, link)
    return _SECONDS_TO_BEGIN + config.rounds * (2.0 * per_round + compared)
