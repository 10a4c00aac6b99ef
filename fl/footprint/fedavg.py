"""What a trial of federated averaging costs: its model, the memory of one trial, and a rough time.

Where the model is one's own (`custom`), its size is known only as it runs, and a small network is assumed.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from fl.config.data import DataConfig
from fl.config.fedavg import FedAvgConfig
from fl.footprint.blocks import bits_in_parts, devices_at_once
from fl.footprint.radio import SECONDS_PER_FLIPPED_BIT, seconds_per_bit
from fl.footprint.schemes import seconds_per_value, upload_bits
from phy.config import LinkConfig

if TYPE_CHECKING:
    from fl.data.facts import ImageFacts

# Measured on two cores of a 2024 server processor; good to a factor of two, which is what `check` claims.
_FLOPS_PER_SECOND = 1e11
_SECONDS_PER_ROUND = 0.01
_SECONDS_PER_VALUE = 6e-9
_SECONDS_TO_BUILD = 0.15
_SECONDS_TO_BUILD_A_PARAMETER = 5e-7
_BACKWARD = 3.0
_PER_SAMPLE_CLIPPING = 1.7
_MICRO_BATCH_BYTES = 256 << 20
_COPIES_OF_WEIGHTS = 6
_SERIES_PER_DEVICE = 24
_NUMBERS_PER_DEVICE = 120
"""Of the round that is on: what was decided and counted, how errors lie together, and a copy while all is joined."""
_COPIES_OF_PLACES = 2
_ASSUMED_PARAMETERS, _ASSUMED_FLOPS = 100_000, 10_000_000


def dimension(config: FedAvgConfig) -> int | None:
    """M, parameters of the model; None for `custom`. Raises `LearningError` where it does not fit the images."""
    from fl.data.facts import image_facts
    from fl.models.size import num_parameters

    facts = image_facts(config.data.name)
    return num_parameters(config.model, image_shape=facts.image_shape, num_classes=facts.num_classes)


def samples_per_device(config: FedAvgConfig) -> int:
    """|D_n|, on average over devices."""
    from fl.data.facts import image_facts

    if config.partition.samples_per_device is not None:
        return config.partition.samples_per_device
    return max(training_samples(config.data, facts=image_facts(config.data.name)) // config.num_devices, 1)


def training_samples(data: DataConfig, *, facts: ImageFacts) -> int:
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
    devices, size = devices_per_round(config), dimension(config) or _ASSUMED_PARAMETERS
    at_once = devices_at_once(config, count=devices, num_values=size)
    weights = 4 * at_once * size * _COPIES_OF_WEIGHTS
    bits = 3 * (at_once if bits_in_parts(config, link) else devices) * upload_bits(config, num_values=size) // 8
    optimizer = (
        4 * size * config.num_devices * {"gd": 0, "sgd": config.local.momentum > 0, "adam": 2}[config.local.optimizer]
    )
    activations = at_once * _samples_per_step(config) * _activation_bytes(config)
    records = 8 * config.num_devices * (config.rounds * _SERIES_PER_DEVICE + _NUMBERS_PER_DEVICE)
    records += 8 * config.num_devices * samples_per_device(config) * _COPIES_OF_PLACES
    return data + weights + bits + int(optimizer) + min(activations, _MICRO_BATCH_BYTES) + records


def seconds_per_trial(config: FedAvgConfig, link: LinkConfig) -> float:
    """Rough time of one trial: training, looking at the test set, and the bits of all devices both ways [s]."""
    from fl.data.facts import image_facts
    from fl.models.size import forward_flops

    facts = image_facts(config.data.name)
    forward = forward_flops(config.model, image_shape=facts.image_shape, num_classes=facts.num_classes)
    forward = _ASSUMED_FLOPS if forward is None else forward
    devices, size = devices_per_round(config), dimension(config) or _ASSUMED_PARAMETERS
    per_step = forward * _BACKWARD * (1.0 if config.local.clip is None else _PER_SAMPLE_CLIPPING)
    training = devices * config.local.steps * _samples_per_step(config) * per_step / _FLOPS_PER_SECOND
    tested = min(config.data.test_samples or facts.num_test, facts.num_test) + (config.data.validation_samples or 0)
    testing = tested * forward / _FLOPS_PER_SECOND / config.test_every
    payload = upload_bits(config, num_values=size)
    bit = seconds_per_bit(link, payload_bits=payload) + SECONDS_PER_FLIPPED_BIT
    radio = devices * (payload * bit + size * seconds_per_value(config))
    if config.downlink != "ideal":
        codec = config.downlink_codec or config.codec
        down = size * codec.bits_per_value
        radio += devices * (down * seconds_per_bit(config.downlink, payload_bits=down) + size * _SECONDS_PER_VALUE)
    build = _SECONDS_TO_BUILD + size * _SECONDS_TO_BUILD_A_PARAMETER
    return build + config.rounds * (_SECONDS_PER_ROUND + training + testing + radio)


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
