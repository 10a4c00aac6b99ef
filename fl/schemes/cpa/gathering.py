"""The bits of a round as histograms, block after block of devices, and the update that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.config.scheme import keep_factor
from fl.schemes.coders.coder import Gathering, Known, Senders, joined_parts
from fl.schemes.cpa.codebooks import UNHEARD, add_signed_histograms, signed_histogram
from fl.schemes.cpa.radius import next_scales
from phy.numerics.random import Purpose

if TYPE_CHECKING:
    from fl.schemes.cpa.cpa import Cpa


class CpaGathering(Gathering):
    """Sums over devices, in groups of `Cpa.rows_at_once` that blocks do not cut: the rest waits.

    - `bins` `[stages, n, num_blocks]`: histograms of the points;
    - `dither` `[num_blocks, L]`: weighted sum of the heard devices' dither, in radii;
    - `heard` `[stages, num_blocks]`: the weight of those whose bit arrived.
    """

    def __init__(self, cpa: Cpa, senders: Senders) -> None:
        self._cpa, self._senders = cpa, senders
        self._key = senders.context.keys(Purpose.CODEBOOK)[0]
        divisor = np.maximum(senders.factor, SMALLEST_DEBIAS_FACTOR * keep_factor(cpa.config.epsilon))
        self._shares = senders.weights / divisor
        self._worth = (senders.weights * cpa.decode_scale / divisor).astype(np.float32)
        self._done = 0
        self._waiting: list[tuple[NDArray[np.uint8], Known]] = []
        stages, blocks = len(cpa.quantizers), cpa.num_blocks
        self._bins = np.zeros((stages, cpa.codebook.num_points, blocks))
        self._dither = np.zeros((blocks, cpa.dimension))
        self._heard = np.zeros((stages, blocks))

    def add(self, payload: NDArray[np.uint8], *, known: Known) -> None:
        self._waiting.append((payload, known))
        if sum(part.shape[1] for part, _ in self._waiting) >= self._cpa.rows_at_once:
            self._add_waiting(self._cpa.rows_at_once)

    def update(self) -> NDArray[np.float32]:
        """See `Gathering.update`: Lang et al. 2023 (14) and (17), the sum of points times their bins over all stages.

        A radius that follows the data follows from the histogram, whatever the decode is.
        """
        if self._waiting:
            self._add_waiting(1)
        cpa, heard = self._cpa, self._heard
        bins = self._bins / np.where(heard > 0.0, heard, 1.0)[:, None]
        dither = self._dither / np.where(heard[-1] > 0.0, heard[-1], 1.0)[:, None]
        if cpa.scales is not None:
            cpa.scales = self._next_scales(bins[0], cpa.scales)
        if cpa.config.decode == "unbiased":
            # A bit adds rho to every other bin; points sum to 0, so only thresholds see it.
            bins -= cpa.decode_scale * cpa.codebook.correlation
        if cpa.config.negative_bins == "zero":
            np.maximum(bins, 0.0, out=bins)
        bins *= (heard > 0.0)[:, None]
        total = -cpa.gain * dither
        for stage, quantizer in zip(bins, cpa.quantizers, strict=True):
            total += stage.T @ quantizer.points
        return (total.reshape(-1)[: cpa.num_values] * cpa.radius).astype(np.float32)

    def _next_scales(self, bins: NDArray[np.float64], scales: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scales of the next round from the first stage's bins before any threshold."""
        cpa, weights = self._cpa, self._senders.weights
        quantizer, rho = cpa.quantizers[0], cpa.codebook.correlation
        sizes = (quantizer.points**2).sum(axis=1)
        moment = (1.0 - rho) * (sizes**2).sum() + rho * sizes.sum() ** 2
        worth = np.sqrt((self._shares**2).sum()) / max(weights.sum(), 1e-300)
        return next_scales(
            scales,
            pieces=cpa.pieces,
            quantizer=quantizer,
            dither=cpa.quantizers[-1] if cpa.config.dither else None,
            gamma=cpa.config.gamma,
            power=(sizes @ bins * (1.0 - rho) / cpa.gain - rho * sizes.sum()) / (1.0 - rho),
            power_std=float(worth * np.sqrt(moment) / (1.0 - rho)),
            heard=self._heard[0] > 0.0,
        )

    def _add_waiting(self, multiple: int) -> None:
        """Add as many devices as there are whole multiples of."""
        payload, known = joined_parts(self._waiting, num_bits=self._cpa.num_bits)
        take = payload.shape[1] // multiple * multiple
        self._add(payload[0, :take], None if known is None else known[:take])
        self._waiting = (
            [(payload[:, take:].copy(), None if known is None else known[take:].copy())]
            if take < payload.shape[1]
            else []
        )

    def _add(self, payload: NDArray[np.uint8], known: Known) -> None:
        """Add packed bits `[K, num_bytes]` of the next K devices, `rows_at_once` at a time."""
        cpa, step, first = self._cpa, self._cpa.rows_at_once, self._done
        last = self._done = first + len(payload)
        known = None if known is None or known.all() else known
        together = known is None and len(cpa.quantizers) == 1 and not cpa.config.dither
        if together:
            add_signed_histograms(
                cpa.codebook,
                payload,
                worth=self._worth[first:last],
                key=self._key,
                devices=self._senders.devices[first:last],
                step=step,
                out=self._bins[0],
            )
        for at in range(0, len(payload), step):
            rows, mine = slice(at, at + step), slice(first + at, min(first + at + step, last))
            if together:
                self._heard += self._senders.weights[mine].sum()
            else:
                bits = np.unpackbits(payload[rows], axis=1, count=cpa.num_bits)
                self._add_unpacked(bits, None if known is None else known[rows], mine)

    def _add_unpacked(self, bits: NDArray[np.uint8], known: Known, mine: slice) -> None:
        """Add bits `[K, num_bits]` of the devices `mine`, of any stages and dither, with those that did not arrive."""
        cpa, devices, share = self._cpa, self._senders.devices[mine], self._senders.weights[mine]
        stages, blocks = len(cpa.quantizers), cpa.num_blocks
        if known is None or known.all():
            known = None
            self._heard += share.sum()
        else:
            bits[~known] = UNHEARD
            self._heard += (share @ known).reshape(stages, blocks)
        for stage in range(stages):
            received = bits[:, stage * blocks : (stage + 1) * blocks]
            self._bins[stage] += signed_histogram(
                cpa.codebook, received, worth=self._worth[mine], key=self._key, devices=devices, stage=stage
            )
        if cpa.config.dither:
            drawn = cpa.dither(key=self._key, devices=devices)
            here = np.broadcast_to(share[:, None], drawn.shape[:2])
            here = here if known is None else here * known[:, (stages - 1) * blocks :]
            self._dither += np.einsum("kb,kbl->bl", here, drawn)
