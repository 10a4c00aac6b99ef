"""Samples of each device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fl.base.errors import LearningError
from fl.data.data_set import PartitionConfig
from fl.data.partition.split import Partition, partition, partition_problem

LABELS = np.random.default_rng(7).choice(10, 6000, p=np.arange(5, 15) / 95)
"""Ten labels, the rarest on 1/19 and the most frequent on 3/19 of 6000 samples."""

KINDS: dict[str, dict[str, Any]] = {
    "iid": {"kind": "iid"},
    "labels": {"kind": "labels", "labels_per_device": 3},
    "dirichlet": {"kind": "dirichlet", "alpha": 0.3},
}


def dealt(
    num_devices: int,
    *,
    labels: NDArray[np.integer[Any]] = LABELS,
    num_classes: int = 10,
    seed: int = 1,
    **config: Any,
) -> Partition:
    return partition(
        labels,
        config=PartitionConfig(**config),
        num_devices=num_devices,
        num_classes=num_classes,
        generator=np.random.default_rng(seed),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_size_every_sample_has_one_owner(kind: str) -> None:
    devices = dealt(37, **KINDS[kind]).devices
    assert np.array_equal(np.sort(np.concatenate(devices)), np.arange(len(LABELS)))
    assert min(map(len, devices)) >= 1


@pytest.mark.parametrize("kind", KINDS)
def test_disjoint_devices_of_a_size_share_no_sample(kind: str) -> None:
    devices = dealt(37, samples_per_device=101, **KINDS[kind]).devices
    assert {len(device) for device in devices} == {101}
    assert len(np.unique(np.concatenate(devices))) == 37 * 101


@pytest.mark.parametrize("kind", KINDS)
def test_devices_that_draw_from_the_whole_set_overlap_but_hold_no_sample_twice(kind: str) -> None:
    devices = dealt(50, samples_per_device=300, disjoint=False, **KINDS[kind]).devices
    assert {len(np.unique(device)) for device in devices} == {300}
    assert len(np.unique(np.concatenate(devices))) < 50 * 300


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [None, 20])
def test_the_generator_alone_decides(kind: str, size: int | None) -> None:
    first, again, other = (dealt(20, samples_per_device=size, seed=seed, **KINDS[kind]) for seed in (3, 3, 4))
    assert all(map(np.array_equal, first.devices, again.devices))
    assert not all(map(np.array_equal, first.devices, other.devices))


def test_label_counts_are_those_of_a_plain_count() -> None:
    cut = dealt(9, **KINDS["dirichlet"])
    plain = [[sum(LABELS[index] == label for index in device) for label in range(10)] for device in cut.devices]
    assert np.array_equal(cut.label_counts(), plain)
    assert np.array_equal(cut.sizes, [len(device) for device in cut.devices])


def test_iid_sizes_differ_by_one_at_most() -> None:
    assert np.ptp(dealt(37, kind="iid").sizes) == 1
    assert np.ptp(dealt(40, kind="iid").sizes) == 0


@pytest.mark.parametrize("disjoint", [True, False])
def test_iid_devices_have_the_labels_of_the_whole_set(disjoint: bool) -> None:
    # Pearson's statistic over 10 labels has mean 9 and variance 18, less as a device draws no sample twice.
    counts = dealt(100, kind="iid", samples_per_device=50, disjoint=disjoint).label_counts()
    expected = 50 * np.bincount(LABELS) / len(LABELS)
    statistics = ((counts - expected) ** 2 / expected).sum(axis=1)
    drawn_once = (len(LABELS) - 50) / (len(LABELS) - 1)
    assert abs(statistics.mean() - 9 * drawn_once) < 4 * np.sqrt(18 / 100)
    assert (np.abs(counts.mean(axis=0) - expected) < 4 * np.sqrt(expected / 100)).all()


@pytest.mark.parametrize("size", [None, 31])
@pytest.mark.parametrize("labels_per_device", [1, 3, 10])
def test_a_device_has_as_many_labels_as_told(size: int | None, labels_per_device: int) -> None:
    cut = dealt(40, kind="labels", labels_per_device=labels_per_device, samples_per_device=size)
    assert ((cut.label_counts() > 0).sum(axis=1) == labels_per_device).all()


def test_the_labels_of_a_device_have_equal_parts_and_all_labels_equally_many_devices() -> None:
    counts = dealt(40, kind="labels", labels_per_device=3, samples_per_device=20).label_counts()
    assert {tuple(sorted(row[row > 0])) for row in counts} == {(6, 7, 7)}
    assert np.array_equal((counts > 0).sum(axis=0), np.full(10, 12))


def test_pairs_of_labels_are_drawn_by_lot() -> None:
    pairs = {tuple(np.flatnonzero(row)) for row in dealt(1000, kind="labels", labels_per_device=2).label_counts()}
    assert len(pairs) == 45


def test_a_rare_label_goes_to_as_many_devices_as_it_can_serve() -> None:
    labels = np.repeat([0, 1, 2], [10, 100, 100])  # room for 2, 20 and 20 parts of 5; 10 devices need 20 places
    counts = dealt(
        10, labels=labels, num_classes=3, kind="labels", labels_per_device=2, samples_per_device=10
    ).label_counts()
    assert np.array_equal((counts > 0).sum(axis=0), [2, 9, 9])
    assert set(counts[counts > 0]) == {5}


def test_labels_that_just_suffice_are_dealt_to_the_last_sample() -> None:
    labels = np.repeat(np.arange(4), 25)
    cut = dealt(10, labels=labels, num_classes=4, kind="labels", labels_per_device=2, samples_per_device=10)
    assert np.array_equal(np.sort(np.concatenate(cut.devices)), np.arange(100))


def test_shards_are_of_one_size_where_labels_are_not() -> None:
    labels = np.repeat([0, 1, 2], [100, 200, 500])
    counts = dealt(8, labels=labels, num_classes=3, kind="labels", labels_per_device=1).label_counts()
    assert np.array_equal((counts > 0).sum(axis=0), [1, 2, 5])
    assert set(counts[counts > 0]) == {100}


def test_labels_that_do_not_occur_are_given_to_nobody() -> None:
    cut = dealt(6, labels=2 * np.repeat([0, 1, 2], 40), num_classes=62, kind="labels", labels_per_device=2)
    assert np.array_equal(np.flatnonzero(cut.label_counts().sum(axis=0)), [0, 2, 4])


@pytest.mark.parametrize("alpha", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("disjoint", [True, False])
def test_proportions_have_the_moments_of_dirichlet_and_multinomial(alpha: float, disjoint: bool) -> None:
    """For s samples of C labels: mean s / C, variance s (1/C) (1 - 1/C) (s + C alpha) / (1 + C alpha)."""
    num_classes, size, num_devices = 5, 20, 2000
    labels = np.repeat(np.arange(num_classes), 20_000)  # so many that none runs out
    cut = dealt(
        num_devices,
        labels=labels,
        num_classes=num_classes,
        kind="dirichlet",
        alpha=alpha,
        samples_per_device=size,
        disjoint=disjoint,
    )
    counts = cut.label_counts().astype(np.float64)
    total = num_classes * alpha
    variance = size / num_classes * (1 - 1 / num_classes) * (size + total) / (1 + total)
    assert (np.abs(counts.mean(axis=0) - size / num_classes) < 4 * np.sqrt(variance / num_devices)).all()
    squares = (counts - size / num_classes) ** 2
    spread = squares.std(axis=0, ddof=1) / np.sqrt(num_devices)
    assert (np.abs(squares.mean(axis=0) - variance) < 4 * spread).all()


@pytest.mark.parametrize("alpha", [0.5, 5.0])
def test_shares_of_a_label_have_the_moments_of_dirichlet(alpha: float) -> None:
    """Each of K devices: mean 1/K, variance (1/K) (1 - 1/K) / (1 + K alpha); labels are independent."""
    num_classes, num_devices, each = 400, 10, 2000
    labels = np.repeat(np.arange(num_classes), each)
    counts = dealt(num_devices, labels=labels, num_classes=num_classes, kind="dirichlet", alpha=alpha).label_counts()
    shares = counts.T / each
    variance = (1 / num_devices) * (1 - 1 / num_devices) / (1 + num_devices * alpha)
    squares = (shares - 1 / num_devices) ** 2
    assert (np.abs(shares.mean(axis=0) - 1 / num_devices) < 4 * np.sqrt(variance / num_classes)).all()
    spread = squares.std(axis=0, ddof=1) / np.sqrt(num_classes)
    rounding = 1 / each**2  # whole samples: far below the spread
    assert rounding < 0.1 * spread.min()
    assert (np.abs(squares.mean(axis=0) - variance) < 4 * spread + rounding).all()


def test_a_small_alpha_leaves_no_device_empty() -> None:
    cut = dealt(500, kind="dirichlet", alpha=1e-3)
    assert cut.sizes.min() == 1
    assert cut.sizes.sum() == len(LABELS)


def test_labels_that_run_out_are_replaced() -> None:
    cut = dealt(10, kind="dirichlet", alpha=0.05, samples_per_device=600)  # all 6000 samples
    assert np.array_equal(cut.label_counts().sum(axis=0), np.bincount(LABELS))


IMPOSSIBLE = [
    (7000, {"kind": "iid"}, "7,000 devices cannot share 6,000 training samples; write num_devices: 6000 or less"),
    (7000, {"kind": "iid", "samples_per_device": 1}, "7,000 devices of 1 sample need 7,000, there are 6,000"),
    (
        100,
        {"kind": "dirichlet", "alpha": 1.0, "samples_per_device": 61},
        "write partition.samples_per_device: 60, or disjoint: false",
    ),
    (2, {"kind": "iid", "samples_per_device": 6001, "disjoint": False}, "6001 exceeds the 6,000 training samples"),
    (2, {"kind": "labels", "labels_per_device": 11}, "labels_per_device 11 exceeds the 10 labels"),
    (9, {"kind": "labels", "labels_per_device": 3, "samples_per_device": 2}, "2 samples_per_device cannot show 3"),
    (3, {"kind": "labels", "labels_per_device": 3}, "leave 1 of 10 labels to nobody"),
    (2500, {"kind": "labels", "labels_per_device": 3}, "need 7,500 samples, there are 6,000"),
]


@pytest.mark.parametrize(("num_devices", "config", "sentence"), IMPOSSIBLE)
def test_what_cannot_be_dealt_is_said_before_and_at_dealing(
    num_devices: int, config: dict[str, Any], sentence: str
) -> None:
    problem = partition_problem(
        PartitionConfig(**config), num_devices=num_devices, num_samples=len(LABELS), num_classes=10
    )
    assert problem is not None
    assert sentence in str(problem)
    with pytest.raises(LearningError) as caught:
        dealt(num_devices, **config)
    assert str(caught.value) == str(problem)


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_dealt_is_no_problem(kind: str) -> None:
    config = PartitionConfig(samples_per_device=60, **KINDS[kind])
    assert partition_problem(config, num_devices=100, num_samples=6000, num_classes=10) is None


@pytest.mark.parametrize(
    ("sizes", "config", "sentence"),
    [
        (
            (12, 102, 308),
            {"samples_per_device": 40},
            "10 devices of 40 samples with 2 labels need 20 parts of 20 samples with one label, their samples "
            "give 15; write disjoint: false, or fewer samples_per_device or num_devices",
        ),
        (
            (5, 100, 400),
            {"samples_per_device": 240, "disjoint": False},
            "20 parts of 120 samples with one label, their samples give 10; write fewer samples_per_device",
        ),
        (
            (0, 99, 160),
            {"samples_per_device": 21, "disjoint": True},
            "20 parts of 10 or 11 samples with one label, their samples give 19; write disjoint: false",
        ),
        (
            (90, 98, 120),  # parts of 9 suffice, then the ninth device finds its two odd samples in one label only
            {"samples_per_device": 29, "labels_per_device": 3},
            "30 parts of 9 or 10 samples with one label, some have fewer samples; write disjoint: false",
        ),
    ],
)
def test_labels_with_too_few_samples_are_one_sentence(
    sizes: tuple[int, ...], config: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(LearningError) as caught:
        dealt(
            10,
            labels=np.repeat(np.arange(3), sizes),
            num_classes=3,
            **{"kind": "labels", "labels_per_device": 2, **config},
        )
    assert sentence in str(caught.value)


def test_shards_that_samples_cannot_fill_are_one_sentence() -> None:
    labels = np.repeat([0, 1], [2, 60])
    with pytest.raises(LearningError, match="10 devices of 2 labels need 20 shards of one label, the samples give 12"):
        dealt(10, labels=labels, num_classes=2, kind="labels", labels_per_device=2)


def test_no_samples_at_all_are_one_sentence() -> None:
    with pytest.raises(LearningError, match="no training samples"):
        dealt(1, labels=np.empty(0, np.int64), kind="iid")
