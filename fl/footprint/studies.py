"""Size and memory of one trial of a codec study."""

from __future__ import annotations

from fl.config import BitDistanceConfig, FlipMomentsConfig

_SERIES_PER_DEVICE = 24
_BYTES_PER_VALUE = 32


def dimension(config: FlipMomentsConfig | BitDistanceConfig) -> int:
    """Numbers per device and round."""
    return config.draws if isinstance(config, FlipMomentsConfig) else config.dimension


def bytes_per_trial(config: FlipMomentsConfig | BitDistanceConfig) -> int:
    """Memory of one trial, numbers, bits and records [B]."""
    values = config.num_devices * dimension(config) * _BYTES_PER_VALUE
    return values + 8 * config.rounds * config.num_devices * _SERIES_PER_DEVICE
