"""Who holds which samples: IID, by label, or by Dirichlet proportions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import I64
from fl.base.errors import LearningError
from fl.base.words import plural
from fl.data.data_set import PartitionConfig, PartitionRule
from fl.data.partition.by_label import deal_by_dirichlet, deal_by_labels
from phy.config.conflict import Conflict, Say, Write


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Positions in the training set that each device holds.

    `devices` K arrays of int64, none empty; `labels` int64 `[N]` of the whole training set.
    """

    devices: tuple[I64, ...]
    labels: I64
    num_classes: int

    @property
    def sizes(self) -> I64:
        """|D_n|, `[K]` int64."""
        return np.array([len(device) for device in self.devices], np.int64)

    def label_counts(self) -> I64:
        """Samples of each label on each device, `[K, num_classes]` int64."""
        num_devices = len(self.devices)
        owner = np.repeat(np.arange(num_devices), self.sizes)
        cell = owner * self.num_classes + self.labels[np.concatenate(self.devices)]
        counts = np.bincount(cell, minlength=num_devices * self.num_classes)
        return counts.reshape(num_devices, self.num_classes).astype(np.int64)


def partition(
    labels: NDArray[Any],
    *,
    config: PartitionRule,
    num_devices: int,
    num_classes: int,
    generator: np.random.Generator,
    owner: I64 | None = None,
    num_owners: int = 0,
    features: NDArray[Any] | None = None,
) -> Partition:
    """Samples with `labels` `[N]` dealt to devices; the same for the same state of `generator`.

    `iid`: a random `samples_per_device` of all, or all in sizes that differ by one at most. `labels`, `dirichlet`: see
    `fl.data.partition.by_label`. Not `disjoint`, every device draws from the whole set, each sample once at most.
    `given`: every device has the samples of one of `num_owners`, `owner` `[N]`; of more owners than devices some are
    drawn. Numbers to predict, float `labels`, count as one class. A rule of a plug-in also sees `features` `[N, ...]`.
    LearningError, one sentence, if the samples do not suffice.
    """
    numbers = np.zeros(len(labels), np.int64) if labels.dtype.kind == "f" else np.asarray(labels, np.int64)
    by_label = [np.flatnonzero(numbers == label) for label in range(num_classes)]
    problem = partition_problem(
        config,
        num_devices=num_devices,
        num_samples=len(numbers),
        num_classes=sum(map(bool, map(len, by_label))),
        num_owners=num_owners,
    )
    if problem is not None:
        raise LearningError(problem)
    if not isinstance(config, PartitionConfig):
        seen = np.zeros((len(labels), 1, 1, 0), np.float32) if features is None else features
        given = config.deal(labels, features=seen, owner=owner, num_devices=num_devices, generator=generator)
        devices = checked_deal(given, kind=config.kind, num_devices=num_devices, num_samples=len(numbers))
        return Partition(devices=tuple(devices), labels=numbers, num_classes=num_classes)
    match config.kind:
        case "iid":
            devices = _deal_at_random(len(numbers), config=config, num_devices=num_devices, generator=generator)
        case "labels":
            devices = deal_by_labels(by_label, config=config, num_devices=num_devices, generator=generator)
        case "dirichlet":
            devices = deal_by_dirichlet(by_label, config=config, num_devices=num_devices, generator=generator)
        case "given":
            assert owner is not None  # no problem
            devices = _deal_to_owners(owner, num_devices=num_devices, num_owners=num_owners, generator=generator)
    return Partition(devices=tuple(devices), labels=numbers, num_classes=num_classes)


_SHARES = "partition.samples_per_device partition.labels_per_device num_devices data.train_samples data"
_LABELS = "partition.labels_per_device partition.samples_per_device num_devices data.train_samples data"


def checked_deal(given: Sequence[Any], *, kind: str, num_devices: int, num_samples: int) -> list[I64]:
    """Return what a plug-in has dealt. LearningError for what are no samples of every device."""

    def refuse(problem: str) -> LearningError:
        return LearningError(f"partition {kind} {problem}", "phyloop check-plugin tests the plug-ins")

    devices = [np.asarray(one) for one in given]
    if len(devices) != num_devices:
        raise refuse(f"deals to {plural(len(devices), 'device')}, num_devices is {num_devices}")
    for device, own in enumerate(devices):
        if own.ndim != 1 or own.dtype.kind not in "iu" or not len(own):
            raise refuse(f"gives device {device} {own.dtype} of shape {own.shape}, and positions of samples are needed")
        if own.min() < 0 or own.max() >= num_samples:
            raise refuse(f"gives device {device} sample {own.max()}, there are {num_samples}")
        if len(np.unique(own)) < len(own):
            raise refuse(f"gives device {device} a sample twice")
    return [own.astype(np.int64) for own in devices]


def partition_problem(
    config: PartitionRule, *, num_devices: int, num_samples: int, num_classes: int, num_owners: int = 0
) -> Conflict | None:
    """Return why no set of `num_samples` with `num_classes` labels can be dealt so, of keys below `learning`."""
    if not isinstance(config, PartitionConfig):
        return None
    size, labels = config.samples_per_device, config.labels_per_device
    if config.kind == "given":
        return _owners_problem(num_devices=num_devices, num_owners=num_owners)
    if num_samples == 0:
        keys = "data.train_samples data partition num_devices"
        return Conflict(keys, "there are no training samples to deal to devices", Say("raise train_samples"))
    if size is None and num_devices > num_samples:
        problem = f"{plural(num_devices, 'device')} cannot share {plural(num_samples, 'training sample')}"
        return Conflict(
            f"num_devices {_SHARES}",
            problem,
            Write({"num_devices": num_samples}, note="or less"),
            Say("samples_per_device and disjoint: false"),
        )
    if size is not None and size > num_samples:
        problem = f"samples_per_device {size} exceeds the {plural(num_samples, 'training sample')}"
        return Conflict(_SHARES, problem, Write({"": num_samples}, note="or less"))
    if size is not None and config.disjoint and num_devices * size > num_samples:
        most = num_samples // num_devices
        fewer = {"partition.samples_per_device": most} if most else {"num_devices": num_samples}
        problem = (
            f"{plural(num_devices, 'device')} of {plural(size, 'sample')} need {num_devices * size:,}, there are "
            f"{num_samples:,} training samples"
        )
        keys = _SHARES if most else f"num_devices {_SHARES}"
        return Conflict(keys, problem, Write(fewer), Write({"disjoint": False}))
    if labels is None:
        return None
    if labels > num_classes:
        problem = f"labels_per_device {labels} exceeds the {plural(num_classes, 'label')} of the set"
        return Conflict(_LABELS, problem, Write({"": num_classes}, note="or less"))
    if size is not None and size < labels:
        enough = Write({"partition.samples_per_device": labels}, note="or more")
        return Conflict(_SHARES, f"{size} samples_per_device cannot show {plural(labels, 'label')}", enough)
    if size is None and num_devices * labels < num_classes:
        return Conflict(
            _LABELS,
            f"{plural(num_devices, 'device')} of {plural(labels, 'label')} leave "
            f"{num_classes - num_devices * labels} of {num_classes} labels to nobody",
            Write({"partition.labels_per_device": -(-num_classes // num_devices)}, note="or more"),
            Say("samples_per_device to leave them out"),
        )
    if size is None and num_devices * labels > num_samples:
        problem = (
            f"{plural(num_devices, 'device')} of {plural(labels, 'label')} need {num_devices * labels:,} samples, "
            f"there are {num_samples:,}"
        )
        return Conflict(
            f"num_devices {_LABELS}",
            problem,
            Write({"num_devices": num_samples // labels}),
            Say("fewer labels_per_device"),
        )
    return None


def _owners_problem(*, num_devices: int, num_owners: int) -> Conflict | None:
    if not num_owners:
        problem = "partition given leaves samples with their owners, and the data name none"
        remedies = Write({"partition": "iid"}), Say("name the column of owners as data.owner")
        return Conflict("partition.kind partition data.owner data", problem, *remedies)
    if num_devices > num_owners:
        problem = f"{plural(num_devices, 'device')} have the samples of {plural(num_owners, 'owner')}"
        return Conflict("num_devices partition.kind partition", problem, Write({"num_devices": num_owners}))
    return None


def _deal_to_owners(owner: I64, *, num_devices: int, num_owners: int, generator: np.random.Generator) -> list[I64]:
    """The samples of every owner; of some of them, drawn at random, where there are fewer devices."""
    by_owner = np.split(np.argsort(owner, kind="stable"), np.cumsum(np.bincount(owner, minlength=num_owners))[:-1])
    there = np.flatnonzero([len(own) > 0 for own in by_owner])
    if len(there) < num_devices:
        raise LearningError(
            f"only {len(there)} of {num_owners} owners have samples among those to train on",
            "raise train_samples, or write fewer devices",
        )
    chosen = there if len(there) == num_devices else np.sort(generator.choice(there, num_devices, replace=False))
    return [by_owner[one].astype(np.int64) for one in chosen]


def _deal_at_random(
    num_samples: int, *, config: PartitionConfig, num_devices: int, generator: np.random.Generator
) -> list[I64]:
    size = config.samples_per_device
    if size is None:
        return np.array_split(generator.permutation(num_samples), num_devices)
    if config.disjoint:
        return list(generator.permutation(num_samples)[: num_devices * size].reshape(num_devices, size))
    return [generator.choice(num_samples, size, replace=False) for _ in range(num_devices)]
