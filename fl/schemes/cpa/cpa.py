"""Compressed private aggregation, Lang et al. 2023: one bit per block and stage, a histogram at the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.checkpoints import State, kept_array
from fl.config.scheme import keep_factor
from fl.schemes.coders.coder import (
    Coder,
    Known,
    Senders,
    checked_updates,
    refuse_infinite,
    shaped_updates,
)
from fl.schemes.coders.quantizers import Quantizer, ScalarQuantizer, Vectors, build_quantizer
from fl.schemes.coders.stochastic_bits import received_signs
from fl.schemes.cpa.codebooks import (
    MOST_POINTS,
    MOST_SCALAR_POINTS,
    UNHEARD,
    Codebook,
    add_signed_histograms,
    codeword_bits,
    codewords,
    encode_scalar,
    shared_uniforms,
    signed_histogram,
)
from fl.schemes.cpa.cpa_theory import anonymity, decode_scale, gain
from fl.schemes.cpa.gathering import CpaGathering, Histogram, Sums
from fl.schemes.cpa.radius import Placed, first_scales, next_scales, radius_of
from fl.tasks.base import LearningError
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose

if TYPE_CHECKING:
    from fl.schemes.cpa.scheme import CpaScheme

_CELLS_IN_A_ROW = 1 << 20
_MOST_ROWS = 1024


class Cpa(Coder):
    """The coder of CPA. Numbers are quantised in units of `radius` `[M]`; points lie within 1.

    Stage s + 1 quantises what stage s left over, within half the spacing of s (the lattice shrinks as it is: nested and
    self-similar): for L = 1 the cell itself, for the hexagon all but its corners at spacing / sqrt(3), which go to the
    edge. Bits run stage by stage, block by block; 1 stands for +1. The last block is padded with zeros.
    Randomized response at `epsilon` acts on every bit, so that a block spends `epsilon` once per stage.

    Dither is one vector per device and block, uniform over the cell of the last stage; the device adds it before it
    quantises, the server takes off its weighted mean times the gain. Both draw it from the shared seed.

    `scales` `[len(pieces)]` of a scaled radius are public: the server finds them by `radius.next_scales` from what it
    received and sends them down with the model; no device sends any. Raises LearningError as `radius.radius_of`, the
    quantisers and the codebook do.
    """

    def __init__(
        self,
        config: CpaScheme,
        *,
        num_values: int,
        pieces: Sequence[Placed] = (),
        round_index: int = 0,
        scales: NDArray[np.float64] | None = None,
    ) -> None:
        self.config, self.num_values, self._pieces = config, num_values, pieces
        self._scales = first_scales(len(pieces)) if scales is None and config.radius == "scaled" else scales
        self.radius = self._radius(round_index)
        quantizers: list[Quantizer] = []
        reach = 1.0
        for _ in range(config.stages):
            quantizers.append(
                build_quantizer(gamma=reach, rate_bits=config.rate_bits, form=config.form, dimension=config.dimension)
            )
            reach = quantizers[-1].spacing / 2.0
        num_points = len(quantizers[0].points)
        if num_points > MOST_POINTS:
            raise LearningError(
                f"a hexagonal lattice of rate_bits {config.rate_bits} has {num_points} points in its ball, and "
                f"codewords have at most {MOST_POINTS} entries; write rate_bits: 4 or less, or dimension: 1"
            )
        self.quantizers = tuple(quantizers)
        self.codebook = Codebook(num_points=num_points, balanced=config.codewords == "balanced")

    def _radius(self, round_index: int) -> NDArray[np.float32]:
        return radius_of(
            self.config,
            num_values=self.num_values,
            pieces=self._pieces,
            round_index=round_index,
            scales=self._scales,
        )

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
        """One bit per block and stage."""
        return len(self.quantizers) * self.num_blocks

    @property
    def gain(self) -> float:
        """What the update is of the mean of quantised updates, in expectation: see `fl.schemes.cpa.cpa_theory.gain`."""
        return gain(self.codebook, decode=self.config.decode, epsilon=self.config.epsilon)

    @property
    def facts(self) -> Mapping[str, float]:
        """See `Coder.facts`: how many points a bit leaves possible for its block, `cpa.cpa_theory`."""
        found = anonymity(self.codebook, stages=len(self.quantizers))
        return {
            "k_anonymity": float(found.least),
            "anonymity": found.expected,
            "anonymity_printed": found.printed,
        }

    def begin(self, context: UplinkContext, *, devices: NDArray[np.int64], flip_rate: NDArray[np.float64]) -> None:
        """See `Coder.begin`: the radius of this round."""
        if self.config.radius != "fixed":
            self.radius = self._radius(context.round_index)

    def encode(
        self, updates: NDArray[np.float32], *, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """See `Coder.encode`."""
        updates = shaped_updates(updates, devices=devices, num_values=self.num_values)
        key, blocks = context.keys(Purpose.CODEBOOK)[0], self.num_blocks
        only = self.quantizers[0]
        few = self.codebook.num_points <= MOST_SCALAR_POINTS
        if few and isinstance(only, ScalarQuantizer) and len(self.quantizers) == 1 and not self.config.dither:
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
        if self.config.dither:
            rest += self._dither(key=key, devices=devices)
        for quantizer in self.quantizers:
            levels = quantizer.indices(rest)
            yield levels
            if quantizer is not self.quantizers[-1]:
                rest -= np.take(quantizer.points.astype(np.float32), levels, axis=0)

    def gather(self, senders: Senders) -> CpaGathering:
        """See `Coder.gather`; `factor` is kept above `SMALLEST_DEBIAS_FACTOR` times tanh(eps/2).

        The decode as coded does not undo randomized response, but does undo what `factor` holds beyond tanh(eps/2).
        The scales of the next round follow from the histogram.
        """
        return CpaGathering(self, senders)

    def aggregate(self, payload: NDArray[np.uint8], senders: Senders) -> NDArray[np.float32]:
        """See `Coder.aggregate`."""
        self._check(payload, senders)
        return super().aggregate(payload, senders)

    def read(self, payload: NDArray[np.uint8], senders: Senders) -> NDArray[np.float32]:
        """See `Coder.read`: points of the codewords with their signs, Lang et al. 2023 (13), (14) and (17)."""
        signs, known = received_signs(payload, senders, num_bits=self.num_bits), senders.known
        devices, blocks = senders.devices, self.num_blocks
        key = senders.context.keys(Purpose.CODEBOOK)[0]
        scale = self._decode_scale
        total = np.zeros((len(devices), blocks, self.dimension))
        for stage, quantizer in enumerate(self.quantizers):
            mine = slice(stage * blocks, (stage + 1) * blocks)
            words = codewords(self.codebook, key=key, devices=devices, num_blocks=blocks, stage=stage)
            bins = scale * signs[:, mine, None] * words
            if self.config.decode == "unbiased":
                bins -= scale * self.codebook.correlation
            if self.config.negative_bins == "zero":
                np.maximum(bins, 0.0, out=bins)
            if known is not None:
                bins *= known[:, mine, None]
            total += bins @ quantizer.points
        if self.config.dither:
            drawn = self._dither(key=key, devices=devices)
            total -= self.gain * (drawn if known is None else drawn * known[:, -blocks:, None])
        return np.asarray(total.reshape(len(devices), -1)[:, : self.num_values] * self.radius, np.float32)

    def learn(self, histogram: Histogram) -> None:
        """Find the scales of the next round."""
        if self.config.radius == "scaled" and self._scales is not None:
            self._scales = next_scales(
                histogram, cpa=self, pieces=self._pieces, scales=self._scales, gamma=self.config.gamma
            )

    def state(self) -> State:
        """See `Coder.state`: the scales of the next round."""
        return {} if self._scales is None else {"scales": self._scales}

    def restore(self, state: State) -> None:
        """See `Coder.restore`."""
        if self._scales is not None:
            self._scales = kept_array(state, "scales", like=self._scales)

    @property
    def _decode_scale(self) -> float:
        return decode_scale(self.codebook, decode=self.config.decode, epsilon=self.config.epsilon)

    def finished(self, sums: Sums, senders: Senders) -> Histogram:
        """The histogram of the sums over all senders."""
        scale = self._decode_scale
        heard = sums.heard
        bins = sums.bins / np.where(heard > 0.0, heard, 1.0)[:, None]
        dither = sums.dither / np.where(heard[-1] > 0.0, heard[-1], 1.0)[:, None]
        power, power_std = self._power(bins[0], weights=senders.weights, factor=senders.factor)
        if self.config.decode == "unbiased":
            # A bit adds rho to every other bin; points sum to 0, so only thresholds see it.
            bins -= scale * self.codebook.correlation
        if self.config.negative_bins == "zero":
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
        return np.maximum(factor, SMALLEST_DEBIAS_FACTOR * keep_factor(self.config.epsilon))

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
        scale = self._decode_scale
        return (senders.weights * scale / self._divisor(senders.factor)).astype(np.float32)

    def add(
        self,
        sums: Sums,
        payload: NDArray[np.uint8],
        *,
        devices: NDArray[np.int64],
        share: NDArray[np.float64],
        worth: NDArray[np.float32],
        known: Known,
        key: NDArray[np.uint32],
    ) -> None:
        """Add packed bits `[K, num_bytes]` to the sums, `rows_at_once` devices at a time."""
        known = None if known is None or known.all() else known
        if known is None and len(self.quantizers) == 1 and not self.config.dither:
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
        known: Known,
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
        if self.config.dither:
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
