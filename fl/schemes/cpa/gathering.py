"""Sums of the bits of a round into histograms, block after block of devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fl.schemes.coders.coder import Gathering, Known, Senders, joined_parts
from phy.numerics.random import Purpose

if TYPE_CHECKING:
    from fl.schemes.cpa.cpa import Cpa


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """What the server makes of the bits before it becomes an update.

    - `bins` per stage `[n, num_blocks]` float64: shares of the points, as the decode has them, zeros where asked for;
    - `dither` `[num_blocks, L]`: the weighted mean of the heard devices' dither, in radii; zeros without;
    - `heard` `[stages, num_blocks]`: the weight of those whose bit arrived;
    - `power` `[num_blocks]`: unbiased estimate of the weighted mean of ||q||^2 over devices, first stage, in squared
      radii, whatever the decode is; its standard deviation is at most `power_std`.
    """

    bins: tuple[NDArray[np.float64], ...]
    dither: NDArray[np.float64]
    heard: NDArray[np.float64]
    power: NDArray[np.float64]
    power_std: float


@dataclass(frozen=True, kw_only=True)
class Sums:
    """`Histogram` while bits come in: sums over devices, not yet divided by who was heard."""

    bins: NDArray[np.float64]
    dither: NDArray[np.float64]
    heard: NDArray[np.float64]


class CpaGathering(Gathering):
    """Sums run over groups of devices that blocks do not cut: the rest waits."""

    def __init__(self, cpa: Cpa, senders: Senders) -> None:
        self._cpa, self._senders = cpa, senders
        self._worth, self._key = cpa.worth(senders), senders.context.keys(Purpose.CODEBOOK)[0]
        self._done = 0
        self._waiting: list[tuple[NDArray[np.uint8], Known]] = []
        stages, blocks = len(cpa.quantizers), cpa.num_blocks
        self._sums = Sums(
            bins=np.zeros((stages, cpa.codebook.num_points, blocks)),
            dither=np.zeros((blocks, cpa.dimension)),
            heard=np.zeros((stages, blocks)),
        )

    def add(self, payload: NDArray[np.uint8], *, known: Known) -> None:
        """See `Gathering.add`."""
        self._waiting.append((payload, known))
        if sum(part.shape[1] for part, _ in self._waiting) >= self._cpa.rows_at_once:
            self._add_waiting(self._cpa.rows_at_once)

    def update(self) -> NDArray[np.float32]:
        """See `Gathering.update`."""
        histogram = self.histogram()
        self._cpa.learn(histogram)
        return self._cpa.update(histogram)

    def histogram(self) -> Histogram:
        """What the server has once all have been added."""
        if self._waiting:
            self._add_waiting(1)
        return self._cpa.finished(self._sums, self._senders)

    def _add_waiting(self, multiple: int) -> None:
        """Add as many as there are whole multiples of."""
        payload, known = joined_parts(self._waiting, num_bits=self._cpa.num_bits)
        there = payload.shape[1]
        take = there // multiple * multiple
        mine = slice(self._done, self._done + take)
        self._cpa.add(
            self._sums,
            payload[0, :take],
            devices=self._senders.devices[mine],
            share=self._senders.weights[mine],
            worth=self._worth[mine],
            known=None if known is None else known[:take],
            key=self._key,
        )
        self._done = mine.stop
        rest = slice(take, there)
        self._waiting = (
            [(payload[:, rest].copy(), None if known is None else known[rest].copy())] if take < there else []
        )
