"""Label proportions by Dirichlet draws: small alpha, few labels per device; large alpha, all alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fl.config.data import PartitionConfig
from fl.partition.label_shards import draw_counts

Indices = NDArray[np.int64]


def deal_by_dirichlet(
    by_label: Sequence[Indices], *, config: PartitionConfig, num_devices: int, generator: np.random.Generator
) -> tuple[list[Indices], int]:
    """Samples of each device, and how many of them carry another label than drawn; `by_label[c]` are those of label c.

    With `samples_per_device` s: p_n ~ Dirichlet(alpha, ..., alpha) over the labels that occur, and Multinomial(s, p_n)
    samples (Hsu et al. 2019). Where a label has run out, or a device has all of it, the rest is drawn from the labels
    left, by their share in p_n. Devices draw in turn, so where K s is close to N the last ones get what remains.

    Without s: the samples of each label are dealt by proportions ~ Dirichlet(alpha, ..., alpha) over the devices
    (Yurochkin et al. 2019); a device left without any takes one from the largest.
    """
    alpha, size = config.alpha, config.samples_per_device
    assert alpha is not None  # checked by the config
    stock = np.array([len(samples) for samples in by_label], np.int64)
    displaced = 0
    if size is None:
        counts = _deal_labels(stock, alpha=alpha, num_devices=num_devices, generator=generator)
    else:
        counts = np.zeros((num_devices, len(stock)), np.int64)
        present = np.flatnonzero(stock)
        shares = np.zeros((num_devices, len(stock)))
        shares[:, present] = generator.dirichlet(np.full(len(present), alpha), num_devices)
        left = stock.copy()
        for device in range(num_devices):
            counts[device], moved = _draw(shares[device], size=size, left=left, generator=generator)
            displaced += moved
            if config.disjoint:
                left -= counts[device]
    return draw_counts(by_label, counts, disjoint=config.disjoint, generator=generator), displaced


def _draw(
    share: NDArray[np.float64], *, size: int, left: NDArray[np.int64], generator: np.random.Generator
) -> tuple[NDArray[np.int64], int]:
    """Labels of `size` samples by `share`, none above what is `left`; and how many had to change their label."""
    counts = generator.multinomial(size, share / share.sum())
    drawn = np.minimum(counts, left)
    displaced = size - int(drawn.sum())
    while (short := size - int(drawn.sum())) > 0:
        room = left - drawn
        weight = np.where(room > 0, share, 0.0)
        if weight.sum() <= 0.0:  # alpha so small that the labels left have no share at all
            weight = room.astype(np.float64)
        drawn = np.minimum(drawn + generator.multinomial(short, weight / weight.sum()), left)
    return drawn, displaced


def _deal_labels(
    stock: NDArray[np.int64], *, alpha: float, num_devices: int, generator: np.random.Generator
) -> NDArray[np.int64]:
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
