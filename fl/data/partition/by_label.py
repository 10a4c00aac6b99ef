"""Samples dealt by their labels: a few labels for each device, or shares of labels by Dirichlet draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fl.base.arrays import F64, I64, Bools
from fl.base.errors import LearningError
from fl.base.words import plural
from fl.data.data_set import PartitionConfig


def deal_by_labels(
    by_label: Sequence[I64], *, config: PartitionConfig, num_devices: int, generator: np.random.Generator
) -> list[I64]:
    """Every device has `labels_per_device` L different labels; `by_label[c]` are the samples of label c.

    With `samples_per_device` s, each label is on as equally many devices as its samples allow; of each of its labels a
    device has floor(s / L) samples, and one more of s mod L of them. Without s, labels are cut into K L shards, more
    for a label with more samples (McMahan et al. 2017, section 3). LearningError if labels have too few samples.
    """
    L, size = config.labels_per_device, config.samples_per_device
    assert L is not None  # checked by the config
    stock = np.array([len(samples) for samples in by_label], np.int64)
    if size is None:
        held = _assign(_shards(stock, num_devices=num_devices, slots=num_devices * L), L, num_devices, generator)
        counts = np.zeros(held.shape, np.int64)
        for label, samples in enumerate(by_label):
            owners = generator.permutation(np.flatnonzero(held[:, label]))
            if owners.size:
                each, extra = divmod(len(samples), len(owners))
                counts[owners, label] = each
                counts[owners[:extra], label] += 1
        return _draw_counts(by_label, counts, disjoint=True, generator=generator)
    base = size // L
    if config.disjoint:
        room = np.minimum(stock // base, num_devices)
    else:
        room = np.where(stock >= -(-size // L), num_devices, 0)
    if room.sum() < num_devices * L:
        raise _too_few(config, num_devices=num_devices, parts=int(room.sum()))
    held = _assign(_level(room, slots=num_devices * L, generator=generator), L, num_devices, generator)
    counts = np.where(held, base, 0)
    left = stock - counts.sum(axis=0)
    for device in range(num_devices) if size % L else ():
        own = generator.permutation(np.flatnonzero(held[device]))
        if config.disjoint:
            own = own[np.argsort(-left[own], kind="stable")]
        more = own[: size % L]
        if config.disjoint and left[more].min() < 1:
            raise _too_few(config, num_devices=num_devices, parts=None)
        counts[device, more] += 1
        left[more] -= 1
    return _draw_counts(by_label, counts, disjoint=config.disjoint, generator=generator)


def deal_by_dirichlet(
    by_label: Sequence[I64], *, config: PartitionConfig, num_devices: int, generator: np.random.Generator
) -> list[I64]:
    """Samples of each device; `by_label[c]` are those of label c.

    With `samples_per_device` s: p_n ~ Dirichlet(alpha, ..., alpha) over the labels that occur, and Multinomial(s, p_n)
    samples (Hsu et al. 2019). Where a label has run out, the rest is drawn from the labels left, by their share in p_n.

    Without s: the samples of each label are dealt by proportions ~ Dirichlet(alpha, ..., alpha) over the devices
    (Yurochkin et al. 2019); a device left without any takes one from the largest.
    """
    alpha, size = config.alpha, config.samples_per_device
    assert alpha is not None  # checked by the config
    stock = np.array([len(samples) for samples in by_label], np.int64)
    if size is None:
        counts = _deal_labels(stock, alpha=alpha, num_devices=num_devices, generator=generator)
    else:
        counts = np.zeros((num_devices, len(stock)), np.int64)
        present = np.flatnonzero(stock)
        shares = np.zeros((num_devices, len(stock)))
        shares[:, present] = generator.dirichlet(np.full(len(present), alpha), num_devices)
        left = stock.copy()
        for device in range(num_devices):
            counts[device] = _draw_labels(shares[device], size=size, left=left, generator=generator)
            if config.disjoint:
                left -= counts[device]
    return _draw_counts(by_label, counts, disjoint=config.disjoint, generator=generator)


def _draw_counts(by_label: Sequence[I64], counts: I64, *, disjoint: bool, generator: np.random.Generator) -> list[I64]:
    """Random samples for each device, `counts[n, c]` of label c; a device never holds one twice."""
    parts: list[list[I64]] = [[] for _ in counts]
    for label, samples in enumerate(by_label):
        takers = np.flatnonzero(counts[:, label])
        if disjoint:
            ends = np.cumsum(counts[takers, label])
            taken = np.split(generator.permutation(samples), ends)[:-1]
        else:
            taken = [generator.choice(samples, counts[device, label], replace=False) for device in takers]
        for device, part in zip(takers, taken, strict=True):
            parts[device].append(part)
    return [generator.permutation(np.concatenate(part)) for part in parts]


def _level(room: I64, *, slots: int, generator: np.random.Generator) -> I64:
    """`slots` shared over labels as equally as their `room` allows, what is left over by lot."""
    low, high = 0, int(room.max())
    while low < high:  # the highest level that does not use more than there are
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(room, middle).sum() <= slots else (low, middle - 1)
    given = np.minimum(room, low)
    lucky = generator.permutation(np.flatnonzero(room > low))[: slots - int(given.sum())]
    given[lucky] += 1
    return given


def _shards(stock: I64, *, num_devices: int, slots: int) -> I64:
    """Shards of each label, `slots` in all: one for each label that occurs, then one more where shards are largest."""
    given = (stock > 0).astype(np.int64)
    room = np.minimum(stock, num_devices)
    if room.sum() < slots:
        raise LearningError(
            f"{plural(num_devices, 'device')} of {plural(slots // num_devices, 'label')} need "
            f"{plural(slots, 'shard')} of one label, the samples give {int(room.sum())}",
            f"write num_devices: {int(room.sum()) * num_devices // slots}, or fewer labels_per_device",
        )
    label = np.repeat(np.arange(len(stock)), np.maximum(room - 1, 0))
    order = np.lexsort((label, -stock[label] / np.concatenate([np.arange(1, most) for most in room])))
    more = label[order[: slots - int(given.sum())]]
    return given + np.bincount(more, minlength=len(stock))


def _assign(places: I64, labels_per_device: int, num_devices: int, generator: np.random.Generator) -> Bools:
    """Which device holds which label, bool `[K, C]`; label c is on `places[c]` <= K devices, `places` sum to K L.

    Each device takes the labels with the most places left, ties by lot. That never gets stuck: with n devices to come
    no label ever has more than n places left, and the places left are n L.
    """
    left = places.copy()
    held = np.zeros((num_devices, len(places)), np.bool_)
    for device in range(num_devices):
        order = generator.permutation(len(places))
        chosen = order[np.argsort(-left[order], kind="stable")[:labels_per_device]]
        held[device, chosen] = True
        left[chosen] -= 1
    return held[generator.permutation(num_devices)]


def _too_few(config: PartitionConfig, *, num_devices: int, parts: int | None) -> LearningError:
    L, size = config.labels_per_device or 0, config.samples_per_device or 0
    each = f"{size // L}" if size % L == 0 else f"{size // L} or {size // L + 1}"
    limit = "some have fewer samples" if parts is None else f"their samples give {parts}"
    fewer = "fewer samples_per_device or num_devices"
    remedy = f"write disjoint: false, or {fewer}" if config.disjoint else f"write {fewer}"
    return LearningError(
        f"{plural(num_devices, 'device')} of {plural(size, 'sample')} with {plural(L, 'label')} need "
        f"{num_devices * L} parts of {each} samples with one label, {limit}",
        remedy,
    )


def _draw_labels(share: F64, *, size: int, left: I64, generator: np.random.Generator) -> I64:
    """Labels of `size` samples by `share`, none above what is `left`."""
    counts = generator.multinomial(size, share / share.sum())
    drawn = np.minimum(counts, left)
    while (short := size - int(drawn.sum())) > 0:
        room = left - drawn
        weight = np.where(room > 0, share, 0.0)
        if weight.sum() <= 0.0:  # alpha so small that the labels left have no share at all
            weight = room.astype(np.float64)
        drawn = np.minimum(drawn + generator.multinomial(short, weight / weight.sum()), left)
    return drawn


def _deal_labels(stock: I64, *, alpha: float, num_devices: int, generator: np.random.Generator) -> I64:
    """Samples of each label per device `[K, C]`; every column sums to `stock`, every row to 1 at least."""
    shares = generator.dirichlet(np.full(num_devices, alpha), len(stock))
    ends = np.rint(np.cumsum(shares, axis=1) * stock[:, None]).astype(np.int64)
    ends[:, -1] = stock
    counts = np.ascontiguousarray(np.diff(ends, axis=1, prepend=0).T)
    sizes = counts.sum(axis=1)
    for device in np.flatnonzero(sizes == 0):
        donor = int(np.argmax(sizes))
        label = generator.choice(len(stock), p=counts[donor] / sizes[donor])
        counts[donor, label] -= 1
        counts[device, label] += 1
        sizes[donor] -= 1
        sizes[device] += 1
    return counts
