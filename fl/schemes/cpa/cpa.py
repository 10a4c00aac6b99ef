"""Compressed private aggregation, Lang et al. 2023: one bit per block and stage, a histogram at the server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.schemes.base import Senders, checked_updates, joined_parts, refuse_infinite, shaped_updates
from fl.schemes.cpa.codebooks import (
    MOST_SCALAR_POINTS,
    UNHEARD,
    Codebook,
    add_signed_histograms,
    codeword_bits,
    encode_scalar,
    shared_uniforms,
    signed_histogram,
)
from fl.schemes.cpa.cpa_theory import Decode, decode_scale, flip_target, gain, keep_factor
from fl.schemes.quantizers import Quantizer, ScalarQuantizer, Vectors
from fl.tasks.base import LearningError
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose

_CELLS_IN_A_ROW = 1 << 20
_MOST_ROWS = 1024


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


@dataclass(frozen=True, kw_only=True)
class Cpa:
    """A `fl.schemes.base.Scheme`. Numbers are quantised in units of `radius` `[M]`; points lie within 1.

    Stage s + 1 quantises what stage s left over, within half the spacing of s (the lattice shrinks as it is: nested and
    self-similar): for L = 1 the cell itself, for the hexagon all but its corners at spacing / sqrt(3), which go to the
    edge. Bits run stage by stage, block by block; 1 stands for +1. The last block is padded with zeros.
    Randomized response at `epsilon` acts on every bit, so that a block spends `epsilon` once per stage.

    Dither is one vector per device and block, uniform over the cell of the last stage; the device adds it before it
    quantises, the server takes off its weighted mean times the gain. Both draw it from the shared seed.
    """

    quantizers: tuple[Quantizer, ...]
    codebook: Codebook
    radius: NDArray[np.float32]
    epsilon: float | None
    decode: Decode
    negative_bins: Literal["keep", "zero"]
    dither: bool

    @property
    def num_values(self) -> int:
        """M."""
        return len(self.radius)

    @property
    def dimension(self) -> int:
        """L, numbers per block."""
        return self.quantizers[0].dimension

    @property
    def num_blocks(self) -> int:
        """ceil(M / L)."""
        return -(-self.num_values // self.dimension)

    @property
    def num_bits(self) -> int:
        """See `Scheme`: one bit per block and stage."""
        return len(self.quantizers) * self.num_blocks

    @property
    def in_blocks(self) -> bool:
        """See `Scheme`."""
        return True

    @property
    def flip_target(self) -> float | None:
        """See `Scheme`."""
        return flip_target(self.epsilon)

    @property
    def gain(self) -> float:
        """What the update is of the mean of quantised updates, in expectation: see `fl.schemes.cpa.cpa_theory.gain`."""
        return gain(self.codebook, decode=self.decode, epsilon=self.epsilon)

    def encode(
        self, updates: NDArray[np.float32], *, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """See `Scheme.encode`."""
        updates = shaped_updates(updates, devices=devices, num_values=self.num_values)
        key, blocks = context.keys(Purpose.CODEBOOK)[0], self.num_blocks
        only = self.quantizers[0]
        few = self.codebook.num_points <= MOST_SCALAR_POINTS
        if few and isinstance(only, ScalarQuantizer) and len(self.quantizers) == 1 and not self.dither:
            packed, finite = encode_scalar(only, self.codebook, updates, radius=self.radius, key=key, devices=devices)
            refuse_infinite(finite, devices=devices)
            return packed[None]
        updates = checked_updates(updates, devices=devices, num_values=self.num_values)
        payload = np.empty((1, len(devices), -(-self.num_bits // 8)), np.uint8)
        for rows in self._rows(len(devices)):
            bits = np.empty((rows.stop - rows.start, self.num_bits), np.uint8)
            for stage, levels in enumerate(self.levels(updates[rows], key=key, devices=devices[rows])):
                bits[:, stage * blocks : (stage + 1) * blocks] = codeword_bits(
                    self.codebook, levels, key=key, devices=devices[rows], stage=stage
                )
            payload[0, rows] = np.packbits(bits, axis=1)
        return payload

    def levels(
        self, updates: NDArray[np.float32], *, key: NDArray[np.uint32], devices: NDArray[np.int64]
    ) -> Iterator[NDArray[np.uint16]]:
        """Numbers of the points, `[K, num_blocks]`, that updates `[K, M]` go to, stage by stage."""
        rest = self._blocks(updates)
        if self.dither:
            rest += self._dither(key=key, devices=devices)
        for quantizer in self.quantizers:
            levels = quantizer.indices(rest)
            yield levels
            if quantizer is not self.quantizers[-1]:
                rest -= np.take(quantizer.points.astype(np.float32), levels, axis=0)

    def aggregate(self, payload: NDArray[np.uint8], senders: Senders) -> NDArray[np.float32]:
        """See `Scheme.aggregate`; `factor` is kept above `SMALLEST_DEBIAS_FACTOR` times tanh(eps/2).

        The decode as coded does not undo randomized response, but does undo what `factor` holds beyond tanh(eps/2).
        """
        return self.update(self.histogram(payload, senders))

    def histogram(self, payload: NDArray[np.uint8], senders: Senders) -> Histogram:
        """Lang et al. 2023 (12) and (13), over the devices heard; arguments as in `aggregate`."""
        self._check(payload, senders)
        aggregator = self.aggregator(senders)
        aggregator.add(payload, known=senders.known)
        return aggregator.histogram()

    def aggregator(self, senders: Senders) -> CpaAggregator:
        """See `Scheme.aggregator`."""
        return CpaAggregator(self, senders)

    def finished(self, sums: Sums, senders: Senders) -> Histogram:
        """The histogram of the sums over all senders."""
        scale = decode_scale(self.codebook, decode=self.decode, epsilon=self.epsilon)
        heard = sums.heard
        bins = sums.bins / np.where(heard > 0.0, heard, 1.0)[:, None]
        dither = sums.dither / np.where(heard[-1] > 0.0, heard[-1], 1.0)[:, None]
        power, power_std = self._power(bins[0], weights=senders.weights, factor=senders.factor)
        if self.decode == "unbiased":
            # A bit adds rho to every other bin; points sum to 0, so only thresholds see it.
            bins -= scale * self.codebook.correlation
        if self.negative_bins == "zero":
            np.maximum(bins, 0.0, out=bins)
        bins *= (heard > 0.0)[:, None]
        return Histogram(bins=tuple(bins), dither=dither, heard=heard, power=power, power_std=power_std)

    def update(self, histogram: Histogram) -> NDArray[np.float32]:
        """(14) and (17): the sum of points times their bins over all stages, `[M]` float32."""
        total = -self.gain * histogram.dither
        for bins, quantizer in zip(histogram.bins, self.quantizers, strict=True):
            total += bins.T @ quantizer.points
        return (total.reshape(-1)[: self.num_values] * self.radius).astype(np.float32)

    def _power(
        self, bins: NDArray[np.float64], *, weights: NDArray[np.float64], factor: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float]:
        """`Histogram.power` and `Histogram.power_std` from the first stage's bins before any threshold."""
        rho = self.codebook.correlation
        sizes = (self.quantizers[0].points ** 2).sum(axis=1)
        power = (sizes @ bins * (1.0 - rho) / self.gain - rho * sizes.sum()) / (1.0 - rho)
        worth = np.sqrt(((weights / self._divisor(factor)) ** 2).sum()) / max(weights.sum(), 1e-300)
        moment = (1.0 - rho) * (sizes**2).sum() + rho * sizes.sum() ** 2
        return power, float(worth * np.sqrt(moment) / (1.0 - rho))

    def _divisor(self, factor: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(factor, SMALLEST_DEBIAS_FACTOR * keep_factor(self.epsilon))

    def _blocks(self, updates: NDArray[np.float32]) -> NDArray[np.float32]:
        """`[K, num_blocks, L]` in units of the radius."""
        size = self.num_blocks * self.dimension
        out = np.zeros((len(updates), size), np.float32)
        np.divide(updates, self.radius, out=out[:, : self.num_values])
        return out.reshape(len(updates), self.num_blocks, self.dimension)

    def _dither(self, *, key: NDArray[np.uint32], devices: NDArray[np.int64]) -> Vectors:
        drawn = shared_uniforms(key=key, devices=devices, num_blocks=self.num_blocks, dimension=self.dimension)
        return self.quantizers[-1].dither(drawn)

    @property
    def rows_at_once(self) -> int:
        """Devices that are worked on together: a power of two that depends on the number of bits alone."""
        fit = min(max(_CELLS_IN_A_ROW // max(self.num_bits, 1), 1), _MOST_ROWS)
        return 1 << (fit.bit_length() - 1)

    def _rows(self, count: int) -> Iterator[slice]:
        for first in range(0, count, self.rows_at_once):
            yield slice(first, min(first + self.rows_at_once, count))

    def worth(self, senders: Senders) -> NDArray[np.float32]:
        """What a bit of each sender adds to a bin, `[K]`."""
        scale = decode_scale(self.codebook, decode=self.decode, epsilon=self.epsilon)
        return (senders.weights * scale / self._divisor(senders.factor)).astype(np.float32)

    def add(
        self,
        sums: Sums,
        payload: NDArray[np.uint8],
        *,
        devices: NDArray[np.int64],
        share: NDArray[np.float64],
        worth: NDArray[np.float32],
        known: NDArray[np.bool_] | None,
        key: NDArray[np.uint32],
    ) -> None:
        """Add packed bits `[K, num_bytes]` to the sums, `rows_at_once` devices at a time."""
        known = None if known is None or known.all() else known
        if known is None and len(self.quantizers) == 1 and not self.dither:
            add_signed_histograms(
                self.codebook, payload, worth=worth, key=key, devices=devices, step=self.rows_at_once, out=sums.bins[0]
            )
            for rows in self._rows(len(devices)):
                sums.heard[:] += share[rows].sum()
            return
        for rows in self._rows(len(devices)):
            self._add_unpacked(
                sums,
                np.unpackbits(payload[rows], axis=1, count=self.num_bits),
                devices=devices[rows],
                share=share[rows],
                worth=worth[rows],
                known=None if known is None else known[rows],
                key=key,
            )

    def _add_unpacked(
        self,
        sums: Sums,
        bits: NDArray[np.uint8],
        *,
        devices: NDArray[np.int64],
        share: NDArray[np.float64],
        worth: NDArray[np.float32],
        known: NDArray[np.bool_] | None,
        key: NDArray[np.uint32],
    ) -> None:
        """`add` for bits `[K, num_bits]`, of any stages and dither, with those that did not arrive."""
        stages, blocks = len(self.quantizers), self.num_blocks
        if known is None or known.all():
            known = None
            sums.heard[:] += share.sum()
        else:
            bits[~known] = UNHEARD
            sums.heard[:] += (share @ known).reshape(stages, blocks)
        for stage in range(stages):
            sums.bins[stage] += signed_histogram(
                self.codebook,
                bits[:, stage * blocks : (stage + 1) * blocks],
                worth=worth,
                key=key,
                devices=devices,
                stage=stage,
            )
        if self.dither:
            drawn = self._dither(key=key, devices=devices)
            here = np.broadcast_to(share[:, None], drawn.shape[:2])
            here = here if known is None else here * known[:, (stages - 1) * blocks :]
            sums.dither[:] += np.einsum("kb,kbl->bl", here, drawn)

    def _check(self, payload: NDArray[np.uint8], senders: Senders) -> None:
        count, known = len(senders.devices), senders.known
        expected = (1, count, -(-self.num_bits // 8))
        weights, factor = senders.weights, senders.factor
        if payload.shape != expected or weights.shape != (count,) or factor.shape != (count,):
            raise LearningError(
                f"a payload {payload.shape} with weights {weights.shape} and factors {factor.shape} does not fit "
                f"{count} devices of {self.num_bits} bits; it must be {expected}, with one weight and factor per device"
            )
        if known is not None and known.shape != (count, self.num_bits):
            raise LearningError(
                f"what is known of the bits has shape {known.shape}; it must be {(count, self.num_bits)}"
            )


class CpaAggregator:
    """A `fl.schemes.base.Aggregator`. Sums run over groups of devices that blocks do not cut: the rest waits."""

    def __init__(self, cpa: Cpa, senders: Senders) -> None:
        self._cpa, self._senders = cpa, senders
        self._worth, self._key = cpa.worth(senders), senders.context.keys(Purpose.CODEBOOK)[0]
        self._done = 0
        self._waiting: list[tuple[NDArray[np.uint8], NDArray[np.bool_] | None]] = []
        stages, blocks = len(cpa.quantizers), cpa.num_blocks
        self._sums = Sums(
            bins=np.zeros((stages, cpa.codebook.num_points, blocks)),
            dither=np.zeros((blocks, cpa.dimension)),
            heard=np.zeros((stages, blocks)),
        )

    def add(self, payload: NDArray[np.uint8], *, known: NDArray[np.bool_] | None) -> None:
        """See `Aggregator.add`."""
        self._waiting.append((payload, known))
        if sum(part.shape[1] for part, _ in self._waiting) >= self._cpa.rows_at_once:
            self._add_waiting(self._cpa.rows_at_once)

    def update(self) -> NDArray[np.float32]:
        """See `Aggregator.update`."""
        return self._cpa.update(self.histogram())

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
