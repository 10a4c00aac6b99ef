"""Memory of one trial of an attack on uploads."""

from __future__ import annotations

from math import prod

from fl.config import ReconstructionConfig
from fl.data.facts import image_facts
from fl.footprint import fedavg
from phy.config import LinkConfig

_SERIES_PER_DEVICE = 28
_BYTES_PER_MATCH = 16


def bytes_per_trial(config: ReconstructionConfig, link: LinkConfig) -> int:
    """Memory of one trial: that of one round, images as numbers, and every upload beside every image [B]."""
    facts = image_facts(config.data.name)
    images = fedavg.training_samples(config.data, facts=facts)
    matches = images * (8 * 2 * prod(facts.image_shape) + config.num_devices * _BYTES_PER_MATCH)
    records = 8 * config.rounds * config.num_devices * _SERIES_PER_DEVICE
    return fedavg.bytes_per_trial(config.one_round, link) + matches + records
