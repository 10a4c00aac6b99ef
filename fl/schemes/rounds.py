"""Schemes from round to round: those that follow learning, and those that are the same in every round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fl.checkpoints import State, kept_array
from fl.config.scheme import CpaScheme, ProbitScheme
from fl.models.federated import Piece
from fl.schemes.base import Aggregator, Scheme, Senders, aggregated
from fl.schemes.cpa.cpa import CpaAggregator
from fl.schemes.cpa.cpa_build import build_cpa
from fl.schemes.cpa.cpa_theory import anonymity
from fl.schemes.cpa.radius import first_scales, next_scales
from fl.schemes.probit.probit import build_probit
from fl.schemes.stochastic_bits import SignAggregator
from phy.fading.block_taps import UplinkContext

G = TypeVar("G", bound=Aggregator)


class SchemeRounds(Scheme, Protocol):
    """A scheme that is told when a round begins, and may adapt to what the server learnt in the last one."""

    def begin(self, context: UplinkContext, *, credited: NDArray[np.float64]) -> None:
        """Begin a round; `credited` `[S]`: lower limits of the senders' bit error rates."""
        ...

    def encode_rows(
        self, updates: NDArray[np.float32], *, rows: slice, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """`encode` for the senders `rows` of those of the round."""
        ...

    def told(self) -> Mapping[str, float]:
        """Return the numbers that the scheme reports of this round."""
        ...

    @property
    def facts(self) -> Mapping[str, float]:
        """Numbers that hold for every round."""
        ...

    def state(self) -> State:
        """Return what the next round begins with, see `fl.checkpoints`."""
        ...

    def restore(self, state: State) -> None:
        """Go on from there. Raises LearningError for the state of another scheme."""
        ...


class EveryRound:
    """A scheme that is the same in every round."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    @property
    def num_bits(self) -> int:
        """See `Scheme`."""
        return self._scheme.num_bits

    @property
    def in_blocks(self) -> bool:
        """See `Scheme`."""
        return self._scheme.in_blocks

    @property
    def flip_target(self) -> float | None:
        """See `Scheme`."""
        return self._scheme.flip_target

    def begin(self, context: UplinkContext, *, credited: NDArray[np.float64]) -> None:
        """See `SchemeRounds.begin`."""
        del context, credited

    def told(self) -> Mapping[str, float]:
        """See `SchemeRounds.told`."""
        return {}

    @property
    def facts(self) -> Mapping[str, float]:
        """See `SchemeRounds.facts`."""
        return {}

    def encode(
        self, updates: NDArray[np.float32], *, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """See `Scheme.encode`."""
        return self._scheme.encode(updates, devices=devices, context=context)

    def encode_rows(
        self, updates: NDArray[np.float32], *, rows: slice, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """See `SchemeRounds.encode_rows`."""
        del rows
        return self.encode(updates, devices=devices, context=context)

    def aggregate(self, payload: NDArray[np.uint8], senders: Senders) -> NDArray[np.float32]:
        """See `Scheme.aggregate`."""
        return aggregated(self, payload, senders)

    def aggregator(self, senders: Senders) -> Aggregator:
        """See `Scheme.aggregator`."""
        return self._scheme.aggregator(senders)

    def state(self) -> State:
        """See `SchemeRounds.state`."""
        return {}

    def restore(self, state: State) -> None:
        """See `SchemeRounds.restore`."""


class _Learning(Generic[G]):
    """An `Aggregator` that ends in `learn`; `arrived` gets the share of each sender's bits that came."""

    def __init__(
        self,
        aggregator: G,
        learn: Callable[[G], NDArray[np.float32]],
        *,
        arrived: list[NDArray[np.float64]] | None = None,
    ) -> None:
        self._aggregator, self._learn, self._arrived = aggregator, learn, arrived

    def add(self, payload: NDArray[np.uint8], *, known: NDArray[np.bool_] | None) -> None:
        """See `Aggregator.add`."""
        if self._arrived is not None:
            self._arrived.append(np.ones(payload.shape[1]) if known is None else known.mean(axis=1))
        self._aggregator.add(payload, known=known)

    def update(self) -> NDArray[np.float32]:
        """See `Aggregator.update`."""
        return self._learn(self._aggregator)


class CpaRounds(EveryRound):
    """CPA whose radius decays, or follows what the server received."""

    def __init__(self, config: CpaScheme, *, num_values: int, pieces: Sequence[Piece]) -> None:
        self._config, self._num_values, self._pieces = config, num_values, pieces
        self._scales = first_scales(len(pieces)) if config.radius == "scaled" else None
        self._cpa = build_cpa(config, num_values=num_values, pieces=pieces, scales=self._scales)
        super().__init__(self._cpa)

    @property
    def facts(self) -> Mapping[str, float]:
        """See `SchemeRounds.facts`: how many points a bit leaves possible for its block, `cpa.cpa_theory`."""
        found = anonymity(self._cpa.codebook, stages=len(self._cpa.quantizers))
        return {
            "k_anonymity": float(found.least),
            "anonymity": found.expected,
            "anonymity_printed": found.printed,
        }

    def begin(self, context: UplinkContext, *, credited: NDArray[np.float64]) -> None:
        """See `SchemeRounds.begin`."""
        del credited
        if self._config.radius != "fixed":
            self._cpa = build_cpa(
                self._config,
                num_values=self._num_values,
                pieces=self._pieces,
                round_index=context.round_index,
                scales=self._scales,
            )
            self._scheme = self._cpa

    def aggregator(self, senders: Senders) -> Aggregator:
        """See `Scheme.aggregator`; the next round's scales follow from the histogram."""
        return _Learning(self._cpa.aggregator(senders), self._learn)

    def _learn(self, aggregator: CpaAggregator) -> NDArray[np.float32]:
        histogram = aggregator.histogram()
        if self._scales is not None:
            self._scales = next_scales(
                histogram, cpa=self._cpa, pieces=self._pieces, scales=self._scales, gamma=self._config.gamma
            )
        return self._cpa.update(histogram)

    def state(self) -> State:
        """See `SchemeRounds.state`: the scales of the next round."""
        return {} if self._scales is None else {"scales": self._scales}

    def restore(self, state: State) -> None:
        """See `SchemeRounds.restore`."""
        if self._scales is not None:
            self._scales = kept_array(state, "scales", like=self._scales)


class ProbitRounds(EveryRound):
    """PRoBit whose b follows learning, and is smaller where the channel is known to flip bits."""

    def __init__(self, config: ProbitScheme, *, num_values: int) -> None:
        self._config = config
        self._next = self._now = build_probit(config, num_values=num_values)
        super().__init__(self._now)

    def begin(self, context: UplinkContext, *, credited: NDArray[np.float64]) -> None:
        """See `SchemeRounds.begin`."""
        del context
        native = self._config.channel == "native" and self._config.epsilon is not None
        self._now = self._next.over_channel(credited) if native else self._next
        self._scheme = self._now

    def told(self) -> Mapping[str, float]:
        """See `SchemeRounds.told`."""
        return {"b": self._now.b}

    def encode_rows(
        self, updates: NDArray[np.float32], *, rows: slice, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """See `SchemeRounds.encode_rows`."""
        return self._now.of(rows).encode(updates, devices=devices, context=context)

    def aggregator(self, senders: Senders) -> Aggregator:
        """See `Scheme.aggregator`; the next round's b follows from the estimate."""
        arrived: list[NDArray[np.float64]] = []

        def learn(aggregator: SignAggregator) -> NDArray[np.float32]:
            estimate, shares = aggregator.update(), np.concatenate(arrived)
            weights, factor = senders.weights, senders.factor
            self._next = self._now.after(estimate, weights=weights, factor=factor, arrived=shares)
            return estimate

        return _Learning(self._now.aggregator(senders), learn, arrived=arrived)

    def state(self) -> State:
        """See `SchemeRounds.state`: b of the next round."""
        return {"b": float(self._next.b)}

    def restore(self, state: State) -> None:
        """See `SchemeRounds.restore`."""
        self._next = replace(self._next, b=float(state["b"]))
