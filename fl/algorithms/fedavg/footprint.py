"""Size and memory of one trial of federated averaging.

The size of a model that defines no `layers` is known only at run time: a small network is assumed.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from fl.data.data_set import DataSet
from fl.models.layers import activation_bytes
from phy.config import LinkConfig
from phy.config.levels import watts
from phy.links.airtime import superposed_seconds

if TYPE_CHECKING:
    from fl.algorithms.fedavg.config import FedAvgConfig

_MICRO_BATCH_BYTES = 256 << 20
_COPIES_OF_WEIGHTS = 6
_SERIES_PER_DEVICE = 24
_NUMBERS_PER_DEVICE = 120
"""Numbers of the current round: decisions, counts, groups of errors, and one copy while results are joined."""
_COPIES_OF_PLACES = 2
_ASSUMED_PARAMETERS = 100_000
_BYTES_PER_SYMBOL = 40
"""Of a symbol that adds up in the air: float32 and float64 copies of its two parts."""
_BLOCK_BYTES, _FEWEST_IN_A_BLOCK = 1 << 24, 64
"""Updates of a block [B]; more are held than caches and allocator like where that would be fewer devices than are
trained together."""


def samples_per_device(config: FedAvgConfig) -> int:
    """|D_n|, on average over devices."""
    if config.partition.each is not None:
        return config.partition.each
    return max(training_samples(config.data) // config.num_devices, 1)


def training_samples(data: DataSet) -> int:
    """Images to train on, those held out for validation left out."""
    rest = data.described().num_train - (data.validation_samples or 0)
    return rest if data.train_samples is None else min(data.train_samples, rest)


def bytes_per_trial(config: FedAvgConfig, link: LinkConfig) -> int:
    """Memory of one trial: data set, weights of all devices in their stages, bits, micro-batches, records [B]."""
    facts = config.data.described()
    data = (facts.num_train + facts.num_test) * prod(facts.image_shape)
    devices = config.participation.devices_per_round or config.num_devices
    size = config.num_values() or _ASSUMED_PARAMETERS
    at_once = devices if held_at_once(config) else min(devices, devices_in_a_block(size))
    weights = 4 * at_once * size * _COPIES_OF_WEIGHTS
    if (symbols := upload_symbols(config, link)) is not None:
        weights += 4 * devices * size * _COPIES_OF_WEIGHTS + _BYTES_PER_SYMBOL * devices * symbols
    if config.timing is not None and config.timing.keeps:
        weights += 2 * 4 * devices * size
    bits = 3 * (at_once if _bits_in_parts(config, link) else devices) * config.upload_bits(size) // 8
    optimizer = 4 * size * config.num_devices * len(config.local.states)
    held = samples_per_device(config)
    batch = held if config.local.batch_size is None else min(config.local.batch_size, held)
    image = activation_bytes(config.model, image_shape=facts.image_shape, num_classes=facts.num_classes)
    activations = at_once * batch * (4 * prod(facts.image_shape) if image is None else image)
    records = 8 * config.num_devices * (config.rounds * _SERIES_PER_DEVICE + _NUMBERS_PER_DEVICE)
    records += 8 * config.num_devices * held * _COPIES_OF_PLACES
    return data + weights + bits + optimizer + min(activations, _MICRO_BATCH_BYTES) + records


def devices_in_a_block(num_values: int) -> int:
    """Devices of a block, each with an update of `num_values` float32: a power of two, as all groups of devices are."""
    fit = max(_BLOCK_BYTES // (4 * num_values), _FEWEST_IN_A_BLOCK)
    return 1 << fit.bit_length() - 1


def held_at_once(config: FedAvgConfig) -> bool:
    """Return True if a round holds the numbers of all devices in memory, False if it goes by blocks of devices."""
    attack = config.attack
    meet = not config.aggregation.in_blocks or (attack is not None and attack.uses_honest_updates)
    keeps = config.personal is not None or config.downlink != "ideal"
    return meet or keeps or bool(config.local.states)


def _bits_in_parts(config: FedAvgConfig, link: LinkConfig) -> bool:
    """Return True if bits also go over the link in blocks of devices: uncoded ones on flat channels, but no packets."""
    if not config.aggregation.in_blocks:
        return False
    named = link.model_copy(update={"access": "orthogonal" if link.access == "auto" else link.access})
    return named.error_model == "error_free" or (named.plain and named.error_model == "measured")


def upload_symbols(config: FedAvgConfig, link: LinkConfig) -> int | None:
    """Symbols of an upload that adds up in the air; None for other access, and for a model of unknown size."""
    size = config.num_values()
    if link.access != "superposition" or size is None:
        return None
    form = config.aggregation.over_air(size)
    if form is None:
        return None
    return -(-size // (2 if link.modulation == "qpsk" else 1)) if form.bits else form.num_symbols


def energy_of_round(config: FedAvgConfig, link: LinkConfig) -> tuple[float, float] | None:
    """Energy of the strongest device in a round at full power, and of its pilots [J]; None where no budget is kept."""
    symbols = upload_symbols(config, link)
    if symbols is None or link.power.budget is None or link.error_model == "error_free":
        return None
    seconds, pilots_s = superposed_seconds(link, symbols)
    power_w = link.max_power * watts(link)
    return seconds * power_w + pilots_s * power_w, pilots_s * power_w
