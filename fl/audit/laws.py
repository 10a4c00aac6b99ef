"""What an attacker knows of a scheme: the score of what arrived, round by round.

With c = +-1 what arrived (0: nothing) and p the rate at which bits come wrong,

    CPA      sum over stages of c (v_1 - v_0) / 2 ln((1-p)/p), v the codeword at the points of the two worlds
    sign     c                           PRoBit   sum over the upload of c
    MVU      ln P(code | 1) / P(code | 0) of the private table
    Laplace  (|y + x| - |y - x|) / scale              JoPEQ    ln Pr(code | x, dither) / Pr(code | -x, dither)

or what grows with these.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fl.audit.uploads import Places, empty_model
from fl.codecs.packing import unpack
from fl.config.scheme import CpaScheme
from fl.schemes.cpa.codebooks import codewords
from fl.schemes.cpa.cpa_build import build_cpa
from fl.schemes.cpa.radius import first_scales
from fl.schemes.values.jopeq import JopeqCode
from fl.schemes.values.laplace import LaplaceCode
from fl.schemes.values.mvu import MvuCode
from fl.schemes.values.value_scheme import Part
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose
from privacy.mechanisms.additive_noise import laplace_scale

_LEAST_RATE = 1e-9

Heard = NDArray[np.int8]
"""Bits `[games, bits per game]` that arrived, as +-1, 0 where nothing did."""


class Law(Protocol):
    """What the attacker knows of one scheme."""

    def score(
        self, heard: Heard, *, places: Places, context: UplinkContext, payload: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores `[games]` of a round, and what to learn from `[games, features]`."""
        ...


class CpaLaw:
    """The codewords, and dither, that the shared seed gives away."""

    def __init__(self, config: CpaScheme, *, num_values: int, ends: tuple[float, float]) -> None:
        self._config, self._num_values, self._ends = config, num_values, ends

    def score(
        self, heard: Heard, *, places: Places, context: UplinkContext, payload: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `Law.score`."""
        del payload
        cpa = build_cpa(
            self._config,
            num_values=self._num_values,
            pieces=empty_model(self._num_values).pieces,
            round_index=context.round_index,
            scales=first_scales(1) if self._config.radius == "scaled" else None,
        )
        key, devices = context.keys(Purpose.CODEBOOK)[0], places.audited
        blocks = places.places // cpa.dimension
        levels = [
            list(cpa.levels(np.full((len(devices), self._num_values), end, np.float32), key=key, devices=devices))
            for end in self._ends
        ]
        rate = max(cpa.flip_target or 0.0, _LEAST_RATE)
        parts = []
        for stage in range(len(cpa.quantizers)):
            words = codewords(cpa.codebook, key=key, devices=devices, num_blocks=cpa.num_blocks, stage=stage)
            null, other = (
                np.take_along_axis(words, levels[world][stage][..., None].astype(np.int64), axis=2)[..., 0]
                for world in (0, 1)
            )
            differ = (other.astype(np.float64) - null)[:, blocks].ravel() / 2.0
            parts.append(heard[:, stage] * differ)
        features = np.stack(parts, axis=1)
        return features.sum(axis=1) * math.log1p(-rate) - features.sum(axis=1) * math.log(rate), features


class OutsiderLaw:
    """Without the seed a bit of a balanced or fair codeword says nothing; two bits say whether they are alike."""

    def __init__(self) -> None:
        self._first: NDArray[np.float64] | None = None

    def score(
        self, heard: Heard, *, places: Places, context: UplinkContext, payload: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `Law.score`: in every round after the first, whether bits are unlike those of the first."""
        del places, payload
        bits = heard.astype(np.float64)
        if context.round_index == 0 or self._first is None:
            self._first = bits
            return np.zeros(len(bits)), np.zeros_like(bits)
        unlike = -bits * self._first
        return unlike.sum(axis=1), unlike


class SignLaw:
    """Bits that are more often +1 in the alternative."""

    def score(
        self, heard: Heard, *, places: Places, context: UplinkContext, payload: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `Law.score`."""
        del places, context, payload
        total = heard.sum(axis=1, dtype=np.float64)
        return total, total[:, None]


class ValueLaw:
    """Codes of numbers, read one by one."""

    def __init__(self, code: MvuCode | LaplaceCode | JopeqCode, *, num_values: int, far: float) -> None:
        self._code, self._num_values, self._far = code, num_values, far

    def score(
        self, heard: Heard, *, places: Places, context: UplinkContext, payload: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """See `Law.score`."""
        code = self._code
        blocks = places.places // code.block
        rows = payload[0, places.audited]
        codes = unpack(rows, bits=code.bits_per_block, num_values=-(-self._num_values // code.block))
        part = Part(devices=places.audited, first=0, context=context)
        read = code.to_values(codes, part=part).reshape(len(rows), -1, code.block)[:, blocks].reshape(-1, code.block)
        with np.errstate(invalid="ignore"):
            score = self._ratio(codes[:, blocks].ravel().astype(np.int64), np.asarray(read, np.float64))
        arrived = (heard != 0).all(axis=1)
        features = np.nan_to_num(np.clip(read, -1e3, 1e3), nan=0.0).mean(axis=1)
        return np.where(arrived, np.nan_to_num(score), 0.0), np.where(arrived, features, 0.0)[:, None]

    def _ratio(self, codes: NDArray[np.int64], read: NDArray[np.float64]) -> NDArray[np.float64]:
        """ln of the law at the upper end over that at the lower one."""
        code = self._code
        if isinstance(code, MvuCode):
            table = code.table.probabilities
            return np.asarray(np.log(table[-1] / table[0])[codes])
        with np.errstate(invalid="ignore", over="ignore"):
            if isinstance(code, LaplaceCode):
                scale = laplace_scale(code.epsilon, width=2.0)
                return np.asarray((np.abs(read[:, 0] + self._far) - np.abs(read[:, 0] - self._far)) / scale)
        if code.dimension == 2:
            return np.asarray(read.sum(axis=1))
        points = code.quantizer.points[:, 0]
        known = np.minimum(codes, len(points) - 1)
        dither = points[known] - read[:, 0]
        edges = np.concatenate([[-np.inf], (points[1:] + points[:-1]) / 2.0, [np.inf]])
        low, high = edges[known] - dither, edges[known + 1] - dither
        scale = math.sqrt(code.noise_variance / 2.0)
        other, null = (_laplace_between((low - end) / scale, (high - end) / scale) for end in (self._far, -self._far))
        return np.log(np.maximum(other, 1e-300)) - np.log(np.maximum(null, 1e-300))


def _laplace_between(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pr(low < n < high) of Laplace noise of scale 1, from whichever tail keeps the digits."""
    flip = low > 0.0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    below = np.where(b <= 0.0, 0.5 * np.exp(np.minimum(b, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(b, 0.0)))
    return np.asarray(below - 0.5 * np.exp(np.minimum(a, 0.0)))
