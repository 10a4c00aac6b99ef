"""Uploads of federated averaging in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl.uplink.plan import UploadPlan
from privacy.config import Training

if TYPE_CHECKING:
    from fl.algorithms.fedavg.config import FedAvgConfig


def training_of(config: FedAvgConfig) -> Training:
    """Return what a mechanism needs to know of learning."""
    codec, local = config.codec, config.local
    return Training(
        codec=codec.name,
        bits_per_value=codec.bits_per_value,
        bounded=codec.value_range is not None,
        fractions=codec.as_fractions() is not None,
        num_rounds=config.rounds,
        steps=local.steps,
        optimizer=local.optimizer,
        learning_rate=local.learning_rate,
        clip=local.clip,
    )


def upload_plan(config: FedAvgConfig) -> UploadPlan:
    """Return the uploads of a run in numbers. Raises LearningError for a model that does not fit its images."""
    return UploadPlan(
        num_devices=config.num_devices,
        devices_per_round=config.participation.devices_per_round,
        chosen_by_channel=config.participation.selection.by_channel,
        num_values=config.num_values(),
        scheme=config.aggregation,
        codec=config.codec,
        receiver_limit=config.receiver_limit,
        downlink=None if config.downlink == "ideal" else config.downlink,
        training=training_of(config),
    )
