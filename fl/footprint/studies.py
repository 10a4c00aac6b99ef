"""What the studies of the codec alone cost: memory of one trial, and a rough time."""

from __future__ import annotations

from fl.config import BitDistanceConfig, FlipMomentsConfig
from fl.footprint.radio import SECONDS_PER_FLIPPED_BIT, seconds_per_bit
from phy.config import LinkConfig

# Measured on two cores of a 2024 server processor; good to a factor of two, which is what `check` claims.
_SECONDS_PER_ROUND = 0.01
_SECONDS_PER_VALUE = 2e-8
_SECONDS_PER_VALUE_OF_A_PAIR = 6e-8
_SERIES_PER_DEVICE = 24
_BYTES_PER_VALUE = 32


def dimension(config: FlipMomentsConfig | BitDistanceConfig) -> int:
    """Numbers looked at per device and round."""
    return config.draws if isinstance(config, FlipMomentsConfig) else config.dimension


def bytes_per_trial(config: FlipMomentsConfig | BitDistanceConfig) -> int:
    """Memory of one trial, numbers, bits and records [B]."""
    values = config.num_devices * dimension(config) * _BYTES_PER_VALUE
    return values + 8 * config.rounds * config.num_devices * _SERIES_PER_DEVICE


def seconds_per_trial(config: FlipMomentsConfig | BitDistanceConfig, link: LinkConfig) -> float:
    """Rough time of one trial [s]."""
    if isinstance(config, BitDistanceConfig):
        return config.num_pairs * config.dimension * _SECONDS_PER_VALUE_OF_A_PAIR
    payload = config.draws * config.codec.bits_per_value
    bit = seconds_per_bit(link, payload_bits=payload) + SECONDS_PER_FLIPPED_BIT
    per_round = config.num_devices * (payload * bit + config.draws * _SECONDS_PER_VALUE)
    return config.rounds * (_SECONDS_PER_ROUND + per_round)
