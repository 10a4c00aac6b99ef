"""The contract of partitions. Its functions raise AssertionError with the numbers that break it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl.base.errors import LearningError
from fl.data.data_set import PartitionRule
from fl.data.partition.split import checked_deal

_SAMPLES, _CLASSES, _DEVICES = 600, 6, 8


def _dealt(rule: PartitionRule, *, seed: int = 1) -> list[Any]:
    drawn = np.random.default_rng(5)
    labels = drawn.integers(0, _CLASSES, _SAMPLES)
    features = drawn.integers(0, 256, (_SAMPLES, 8, 8, 1)).astype(np.uint8)
    owner = drawn.integers(0, _DEVICES, _SAMPLES)
    for one in (labels, features, owner):
        one.setflags(write=False)
    generator = np.random.default_rng(seed)
    return list(rule.deal(labels, features=features, owner=owner, num_devices=_DEVICES, generator=generator))


def every_device_has_samples(rule: PartitionRule) -> None:
    """Every device has samples, positions in the training set, none of them twice."""
    try:
        checked_deal(_dealt(rule), kind=rule.kind, num_devices=_DEVICES, num_samples=_SAMPLES)
    except LearningError as error:
        raise AssertionError(str(error)) from error


def random_numbers_come_from_the_generator(rule: PartitionRule) -> None:
    """The same state of the generator deals the same samples."""
    first, again = _dealt(rule), _dealt(rule)
    assert len(first) == len(again), "the number of devices differs when samples are dealt again"
    for device, (one, other) in enumerate(zip(first, again, strict=True)):
        assert np.array_equal(one, other), f"device {device} has other samples when they are dealt again"


CHECKS = (every_device_has_samples, random_numbers_come_from_the_generator)
