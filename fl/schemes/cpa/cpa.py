"""Compressed private aggregation, Lang et al. 2023: one bit per block and stage, a histogram at the server; its law."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32, F64, I64, U8, U32, Reals
from fl.models.federated import Piece
from fl.schemes.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.schemes.coders.coder import Coder, Gathering, Known, Senders, checked_updates, joined_parts, refuse_infinite
from fl.schemes.coders.law import Law, ReceivedGames, Scores
from fl.schemes.coders.quantizers import Quantizer, ScalarQuantizer
from fl.schemes.coders.stochastic_bits import received_signs
from fl.schemes.cpa.codebooks import UNHEARD, Codewords, shared_uniforms
from fl.schemes.cpa.cpa_theory import FIRST_SCALE, anonymity, decode_scale, gain, next_scales
from fl.schemes.scheme import flip_target, keep_factor
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose
from phy.numerics.workers import spans

if TYPE_CHECKING:
    from fl.schemes.cpa.scheme import CpaScheme

_CELLS_IN_A_ROW = 1 << 20
_MOST_ROWS = 1024
_LEAST_RATE = 1e-9


class Cpa(Coder):
    """The coder of CPA. Numbers are quantised in units of `radius` `[M]`; points lie within 1.

    Stage s + 1 quantises what stage s left over, within half the spacing of s (the lattice shrinks as it is: nested and
    self-similar): for L = 1 the cell itself, for the hexagon all but its corners at spacing / sqrt(3), which go to the
    edge. Bits run stage by stage, block by block; 1 stands for +1. The last block is padded with zeros.
    Randomized response at `epsilon` acts on every bit, so that a block spends `epsilon` once per stage.

    Dither is one vector per device and block, uniform over the cell of the last stage; the device adds it before it
    quantises, the server takes off its weighted mean times the gain. Both draw it from the shared seed.

    Stages may differ in their number of points, and then have codebooks, decode scales and gains of their own; that of
    the last stage is the dither's.

    `scales` `[len(pieces)]` of a scaled radius are public: the server finds them by `radius.next_scales`.
    """

    kept = ("scales",)

    def __init__(self, config: CpaScheme, *, num_values: int, pieces: Sequence[Piece] = ()) -> None:
        self.config, self.num_values, self.pieces = config, num_values, pieces
        self.scales = np.full(len(pieces), FIRST_SCALE) if config.radius == "scaled" else None
        self.radius = self._radius(0)
        self.quantizers: list[Quantizer] = []
        reach = 1.0
        for rate_bits in config.rates:
            self.quantizers.append(config.quantizer(reach, rate_bits=rate_bits))
            reach = self.quantizers[-1].spacing / 2.0
        self.codebooks = [config.codebook(rate_bits) for rate_bits in config.rates]
        self.dimension = config.dimension
        self.num_blocks = -(-num_values // config.dimension)
        self.num_bits = config.upload_bits(num_values)
        decode, epsilon = config.decode, config.epsilon
        self.decode_scales = [decode_scale(one, decode=decode, epsilon=epsilon) for one in self.codebooks]
        self.gains = [gain(one, decode=decode, epsilon=epsilon) for one in self.codebooks]

    def _radius(self, round_index: int) -> F32:
        """Radius `[num_values]`: gamma, gamma gamma_decay^round (`decaying`), or gamma times the tensor's scale."""
        radius = np.full(self.num_values, self.config.gamma_in(round_index), np.float32)
        if self.scales is not None:
            for piece, scale in zip(self.pieces, self.scales, strict=True):
                radius[piece.place] *= np.float32(scale)
        return radius

    @property
    def facts(self) -> Mapping[str, float]:
        """See `Coder.facts`: how many points a bit leaves possible for its block."""
        found = anonymity(self.codebooks)
        return {"k_anonymity": float(found.least), "anonymity": found.expected, "anonymity_printed": found.printed}

    def begin(self, context: UplinkContext, *, devices: I64, flip_rate: F64) -> None:
        if self.config.radius != "fixed":
            self.radius = self._radius(context.round_index)

    def encode(self, updates: F32, *, devices: I64, context: UplinkContext) -> U8:
        key, first = context.keys(Purpose.CODEBOOK)[0], self.quantizers[0]
        if isinstance(first, ScalarQuantizer) and len(self.quantizers) == 1 and not self.config.dither:
            words = self.codewords(key=key, devices=devices)
            packed, finite = words.payload(updates, quantizer=first, radius=self.radius)
            refuse_infinite(finite, devices=devices)
            return packed[None]
        updates = checked_updates(updates, devices=devices, num_values=self.num_values)
        payload = np.empty((1, len(devices), -(-self.num_bits // 8)), np.uint8)
        for at in range(0, len(devices), self.rows_at_once):
            rows = slice(at, at + self.rows_at_once)
            levels = self.levels(updates[rows], key=key, devices=devices[rows])
            of_stage = partial(self.codewords, key=key, devices=devices[rows])
            bits = [of_stage(stage=stage).bits(one) for stage, one in enumerate(levels)]
            payload[0, rows] = np.packbits(np.concatenate(bits, axis=1), axis=1)
        return payload

    def levels(self, updates: F32, *, key: U32, devices: I64) -> Iterator[NDArray[np.uint16]]:
        """Numbers of the points, `[K, num_blocks]`, that updates `[K, M]` go to, stage by stage."""
        padded = np.zeros((len(updates), self.num_blocks * self.dimension), np.float32)
        np.divide(updates, self.radius, out=padded[:, : self.num_values])
        rest = padded.reshape(len(updates), self.num_blocks, self.dimension)
        if self.config.dither:
            rest += self.dither(key=key, devices=devices)
        for quantizer in self.quantizers:
            levels = quantizer.indices(rest)
            yield levels
            if quantizer is not self.quantizers[-1]:
                rest -= np.take(quantizer.points.astype(np.float32), levels, axis=0)

    def codewords(self, *, key: U32, devices: I64, stage: int = 0) -> Codewords:
        """Codewords of some devices in one stage."""
        return Codewords(codebook=self.codebooks[stage], key=key, devices=devices, stage=stage)

    def dither(self, *, key: U32, devices: I64) -> Reals:
        """Dither of some devices, `[K, num_blocks, L]`."""
        drawn = shared_uniforms(key=key, devices=devices, num_blocks=self.num_blocks, dimension=self.dimension)
        return self.quantizers[-1].dither(drawn)

    def gather(self, senders: Senders) -> CpaGathering:
        """See `Coder.gather`; `factor` is kept above `SMALLEST_DEBIAS_FACTOR` times tanh(eps/2).

        The decode as coded does not undo randomized response, but does undo what `factor` holds beyond tanh(eps/2).
        """
        return CpaGathering(self, senders)

    def read(self, payload: U8, senders: Senders) -> F32:
        """See `Coder.read`: points of the codewords with their signs, Lang et al. 2023 (13), (14) and (17)."""
        signs, known = received_signs(payload, senders, num_bits=self.num_bits), senders.known
        devices, blocks = senders.devices, self.num_blocks
        key = senders.context.keys(Purpose.CODEBOOK)[0]
        total = np.zeros((len(devices), blocks, self.dimension))
        for stage, quantizer in enumerate(self.quantizers):
            mine = slice(stage * blocks, (stage + 1) * blocks)
            words = self.codewords(key=key, devices=devices, stage=stage).entries(blocks)
            bins = self.decode_scales[stage] * signs[:, mine, None] * words
            if self.config.decode == "unbiased":
                bins -= self.decode_scales[stage] * self.codebooks[stage].correlation
            if self.config.negative_bins == "zero":
                np.maximum(bins, 0.0, out=bins)
            if known is not None:
                bins *= known[:, mine, None]
            total += bins @ quantizer.points
        if self.config.dither:
            drawn = self.dither(key=key, devices=devices)
            total -= self.gains[-1] * (drawn if known is None else drawn * known[:, -blocks:, None])
        return np.asarray(total.reshape(len(devices), -1)[:, : self.num_values] * self.radius, np.float32)

    @property
    def rows_at_once(self) -> int:
        """Devices that are worked on together: a power of two that depends on the number of bits alone."""
        fit = min(max(_CELLS_IN_A_ROW // self.num_bits, 1), _MOST_ROWS)
        return 1 << (fit.bit_length() - 1)


class CpaGathering(Gathering):
    """Sums over devices, in groups of `Cpa.rows_at_once` that blocks do not cut: the rest waits.

    - `bins`, one `[n, num_blocks]` per stage: histograms of the points;
    - `dither` `[num_blocks, L]`: weighted sum of the heard devices' dither, in radii;
    - `heard` `[stages, num_blocks]`: the weight of those whose bit arrived.
    """

    def __init__(self, cpa: Cpa, senders: Senders) -> None:
        self._cpa, self._senders = cpa, senders
        self._key = senders.context.keys(Purpose.CODEBOOK)[0]
        divisor = np.maximum(senders.factor, SMALLEST_DEBIAS_FACTOR * keep_factor(cpa.config.epsilon))
        self._shares = senders.weights / divisor
        self._worth = [(senders.weights * scale / divisor).astype(np.float32) for scale in cpa.decode_scales]
        self._done = 0
        self._waiting: list[tuple[U8, Known]] = []
        stages, blocks = len(cpa.quantizers), cpa.num_blocks
        self._bins = [np.zeros((codebook.num_points, blocks)) for codebook in cpa.codebooks]
        self._dither = np.zeros((blocks, cpa.dimension))
        self._heard = np.zeros((stages, blocks))

    def add(self, payload: U8, *, known: Known) -> None:
        self._waiting.append((payload, known))
        if sum(part.shape[1] for part, _ in self._waiting) >= self._cpa.rows_at_once:
            self._add_waiting(self._cpa.rows_at_once)

    def update(self) -> F32:
        """See `Gathering.update`: Lang et al. 2023 (14) and (17), the sum of points times their bins over all stages.

        A radius that follows the data follows from the histogram, whatever the decode is.
        """
        if self._waiting:
            self._add_waiting(1)
        cpa, heard = self._cpa, self._heard
        bins = [one / np.where(own > 0.0, own, 1.0) for one, own in zip(self._bins, heard, strict=True)]
        dither = self._dither / np.where(heard[-1] > 0.0, heard[-1], 1.0)[:, None]
        if cpa.scales is not None:
            cpa.scales = self._next_scales(bins[0], cpa.scales)
        total = -cpa.gains[-1] * dither
        for stage, (counts, quantizer) in enumerate(zip(bins, cpa.quantizers, strict=True)):
            if cpa.config.decode == "unbiased":
                # A bit adds rho to every other bin; points sum to 0, so only thresholds see it.
                counts -= cpa.decode_scales[stage] * cpa.codebooks[stage].correlation
            if cpa.config.negative_bins == "zero":
                np.maximum(counts, 0.0, out=counts)
            counts *= heard[stage] > 0.0
            total += counts.T @ quantizer.points
        return (total.reshape(-1)[: cpa.num_values] * cpa.radius).astype(np.float32)

    def _next_scales(self, bins: F64, scales: F64) -> F64:
        """Scales of the next round from the first stage's bins before any threshold."""
        cpa, weights = self._cpa, self._senders.weights
        quantizer, rho = cpa.quantizers[0], cpa.codebooks[0].correlation
        sizes = (quantizer.points**2).sum(axis=1)
        moment = (1.0 - rho) * (sizes**2).sum() + rho * sizes.sum() ** 2
        worth = np.sqrt((self._shares**2).sum()) / max(weights.sum(), 1e-300)
        return next_scales(
            scales,
            pieces=cpa.pieces,
            quantizer=quantizer,
            dither=cpa.quantizers[-1] if cpa.config.dither else None,
            gamma=cpa.config.gamma,
            power=(sizes @ bins * (1.0 - rho) / cpa.gains[0] - rho * sizes.sum()) / (1.0 - rho),
            power_std=float(worth * np.sqrt(moment) / (1.0 - rho)),
            heard=self._heard[0] > 0.0,
        )

    def _add_waiting(self, multiple: int) -> None:
        """Add as many devices as there are whole multiples of, `rows_at_once` at a time."""
        payload, known = joined_parts(self._waiting, num_bits=self._cpa.num_bits)
        take = payload.shape[1] // multiple * multiple
        for rows in spans(take, step=self._cpa.rows_at_once):
            bits = np.unpackbits(payload[0, rows], axis=1, count=self._cpa.num_bits)
            self._add(bits, None if known is None else known[rows])
        rest = payload[:, take:].copy(), None if known is None else known[take:].copy()
        self._waiting = [rest] if take < payload.shape[1] else []

    def _add(self, bits: U8, known: Known) -> None:
        """Add bits `[K, num_bits]` of the next K devices."""
        cpa, mine = self._cpa, slice(self._done, self._done + len(bits))
        self._done, devices, share = mine.stop, self._senders.devices[mine], self._senders.weights[mine]
        stages, blocks = len(cpa.quantizers), cpa.num_blocks
        if known is None or known.all():
            known = None
            self._heard += share.sum()
        else:
            bits[~known] = UNHEARD
            self._heard += (share @ known).reshape(stages, blocks)
        for stage in range(stages):
            own = slice(stage * blocks, (stage + 1) * blocks)
            words = cpa.codewords(key=self._key, devices=devices, stage=stage)
            heard = None if known is None else known[:, own]
            words.add_histogram(bits[:, own], heard=heard, worth=self._worth[stage][mine], out=self._bins[stage])
        if cpa.config.dither:
            drawn = cpa.dither(key=self._key, devices=devices)
            here = np.broadcast_to(share[:, None], drawn.shape[:2])
            here = here if known is None else here * known[:, (stages - 1) * blocks :]
            self._dither += np.einsum("kb,kbl->bl", here, drawn)


@dataclass(frozen=True, kw_only=True)
class CpaLaw(Law):
    """L = sum over stages of c (v_1 - v_0) / 2 ln((1-p)/p), v the codeword at the points of the two worlds.

    c = +-1 is the received bit, 0 where nothing was received; p the rate of wrong bits.
    """

    def score(self, received: ReceivedGames) -> Scores:
        places, context, cpa = received.places, received.context, cast(Cpa, received.coder)
        key, devices = context.keys(Purpose.CODEBOOK)[0], places.audited
        blocks = places.places // cpa.dimension
        levels = [
            list(cpa.levels(np.full((len(devices), places.num_values), end, np.float32), key=key, devices=devices))
            for end in (-self.far, self.far)
        ]
        rate = max(flip_target(self.epsilon) or 0.0, _LEAST_RATE)
        parts = []
        for stage in range(len(cpa.quantizers)):
            words = cpa.codewords(key=key, devices=devices, stage=stage).entries(cpa.num_blocks)
            null, other = (
                np.take_along_axis(words, levels[world][stage][..., None].astype(np.int64), axis=2)[..., 0]
                for world in (0, 1)
            )
            differ = (other.astype(np.float64) - null)[:, blocks].ravel() / 2.0
            parts.append(received.bits[:, stage] * differ)
        features = np.stack(parts, axis=1)
        return features.sum(axis=1) * math.log1p(-rate) - features.sum(axis=1) * math.log(rate), features
