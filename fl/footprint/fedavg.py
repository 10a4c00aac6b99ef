"""Size and memory of one trial of federated averaging.

The size of a model of the user (`custom`) is known only at run time: a small network is assumed.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from fl.config.data import DataSet, ImageFacts
from fl.footprint.blocks import bits_in_parts, devices_at_once
from phy.config import LinkConfig

if TYPE_CHECKING:
    from fl.learning.fedavg import FedAvgConfig

_MICRO_BATCH_BYTES = 256 << 20
_COPIES_OF_WEIGHTS = 6
_SERIES_PER_DEVICE = 24
_NUMBERS_PER_DEVICE = 120
"""Numbers of the current round: decisions, counts, groups of errors, and one copy while results are joined."""
_COPIES_OF_PLACES = 2
_ASSUMED_PARAMETERS = 100_000


def samples_per_device(config: FedAvgConfig) -> int:
    """|D_n|, on average over devices."""
    from fl.data.facts import image_facts

    if config.partition.samples_per_device is not None:
        return config.partition.samples_per_device
    return max(training_samples(config.data, facts=image_facts(config.data.name)) // config.num_devices, 1)


def training_samples(data: DataSet, *, facts: ImageFacts) -> int:
    """Images to train on, those held out for validation left out."""
    rest = facts.num_train - (data.validation_samples or 0)
    return rest if data.train_samples is None else min(data.train_samples, rest)


def devices_per_round(config: FedAvgConfig) -> int:
    """Devices that train in a round."""
    return config.participation.devices_per_round or config.num_devices


def bytes_per_trial(config: FedAvgConfig, link: LinkConfig) -> int:
    """Memory of one trial: data set, weights of all devices in their stages, bits, micro-batches, records [B]."""
    from fl.data.facts import image_facts

    facts = image_facts(config.data.name)
    data = (facts.num_train + facts.num_test) * prod(facts.image_shape)
    devices, size = devices_per_round(config), config.num_values() or _ASSUMED_PARAMETERS
    at_once = devices_at_once(config, count=devices, num_values=size)
    weights = 4 * at_once * size * _COPIES_OF_WEIGHTS
    bits = 3 * (at_once if bits_in_parts(config, link) else devices) * config.upload_bits(size) // 8
    optimizer = (
        4 * size * config.num_devices * {"gd": 0, "sgd": config.local.momentum > 0, "adam": 2}[config.local.optimizer]
    )
    activations = at_once * _samples_per_step(config) * _activation_bytes(config)
    records = 8 * config.num_devices * (config.rounds * _SERIES_PER_DEVICE + _NUMBERS_PER_DEVICE)
    records += 8 * config.num_devices * samples_per_device(config) * _COPIES_OF_PLACES
    return data + weights + bits + int(optimizer) + min(activations, _MICRO_BATCH_BYTES) + records


def _samples_per_step(config: FedAvgConfig) -> int:
    """Samples that a device looks at in one local step."""
    held = samples_per_device(config)
    return held if config.local.batch_size is None else min(config.local.batch_size, held)


def _activation_bytes(config: FedAvgConfig) -> int:
    from fl.data.facts import image_facts
    from fl.models.size import activation_bytes

    facts = image_facts(config.data.name)
    found = activation_bytes(config.model, image_shape=facts.image_shape, num_classes=facts.num_classes)
    return 4 * prod(facts.image_shape) if found is None else found
