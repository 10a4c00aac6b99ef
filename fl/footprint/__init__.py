"""Size and memory of a trial, for every algorithm."""

from __future__ import annotations

from fl.config import BitDistanceConfig, FedAvgConfig, FlipMomentsConfig, FlmcConfig, ReconstructionConfig
from fl.footprint import blocks, fedavg, flmc, reconstruction, schemes, studies
from phy.config import LinkConfig

AnyLearning = FlmcConfig | FedAvgConfig | FlipMomentsConfig | BitDistanceConfig | ReconstructionConfig


def dimension(config: AnyLearning) -> int | None:
    """Numbers that a device sends per round; None for a model that only a function of the user knows.

    Raises `LearningError` for a model that does not fit its images.
    """
    if isinstance(config, FlmcConfig):
        return flmc.dimension(config)
    if isinstance(config, ReconstructionConfig):
        return fedavg.dimension(config.one_round)
    return fedavg.dimension(config) if isinstance(config, FedAvgConfig) else studies.dimension(config)


def payload_bits(config: AnyLearning) -> int | None:
    """Bits that a device sends per round, ciphers and channel coding left out; None where `dimension` is."""
    if isinstance(config, FlmcConfig):
        return flmc.dimension(config)
    if isinstance(config, BitDistanceConfig):
        return 0
    size = dimension(config)
    if size is None:
        return None
    if isinstance(config, FedAvgConfig | ReconstructionConfig):
        attacked = config if isinstance(config, FedAvgConfig) else config.one_round
        return schemes.upload_bits(attacked, num_values=size)
    return size * config.codec.bits_per_value


def trials_side_by_side(config: AnyLearning) -> bool:
    """Return True if trials of a batch share their work; otherwise a batch only delays the moment of storing."""
    return isinstance(config, FlmcConfig)


def bytes_per_trial(config: AnyLearning, link: LinkConfig) -> int:
    """Memory that one more trial in a batch takes, data, radio and records together [B]."""
    if isinstance(config, FlmcConfig):
        return flmc.bytes_per_trial(config, link)
    if isinstance(config, ReconstructionConfig):
        return reconstruction.bytes_per_trial(config, link)
    return fedavg.bytes_per_trial(config, link) if isinstance(config, FedAvgConfig) else studies.bytes_per_trial(config)


def held_at_once(config: AnyLearning) -> str | None:
    """Reason and remedy, in a clause, for a trial that holds the numbers of all devices at once; else None."""
    return blocks.held_at_once(config) if isinstance(config, FedAvgConfig) else None
