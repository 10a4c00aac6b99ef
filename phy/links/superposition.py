"""Superposition over flat channels: all devices add up in the air, and the receiver sees one noisy sum."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.config import ImpairmentsConfig, LinkConfig
from phy.config.levels import sent_watts
from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.fading.gains import BlockGains
from phy.links.air_chain import AirChain, OnAir
from phy.links.antennas import CombinedTaps
from phy.links.jamming import on_air, own_amplitude
from phy.links.link import Superposition, check_payload
from phy.links.power import AmplitudeDecision, PowerControl, decide_sum, depends_on_payload
from phy.numerics.cache import LastResult


class SuperpositionLink:
    """Over-the-air aggregation in complex baseband, phases compensated by each device's channel estimate.

    `payload_bound` is the largest magnitude of an amplitude (1 for BPSK): the power constraint holds for
    the worst block, as in Zhang et al. 2022 (20). `chain` is the engine's.
    """

    def __init__(
        self, config: LinkConfig, *, num_devices: int, num_symbols: int, chain: AirChain, payload_bound: float = 1.0
    ) -> None:
        self.num_devices = num_devices
        self.num_symbols = num_symbols
        self.config = config
        self._chain = chain
        self._channel = FlatChannel(
            config,
            num_devices=num_devices,
            num_symbols=num_symbols,
            packet_symbols=8 * config.packet_size_bytes,
            measure=chain.measure_gains,
        )
        self._payload_power = payload_bound**2
        self._decide = PowerControl(max_power=config.max_power, payload_power=self._payload_power)
        self._by_payload = depends_on_payload(config)
        self._combined: tuple[tuple[object, ...], CombinedTaps] | None = None
        # Not a bound method: the link would keep itself and its arrays alive.
        self._airtime_s = LastResult(partial(_airtime, each_s=num_symbols * config.symbol_s))

    def superpose(
        self,
        payload: NDArray[Any],
        *,
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
        jammers: NDArray[np.bool_] | None = None,
        max_power: NDArray[np.float64] | None = None,
    ) -> Superposition:
        """See `AirUplink.superpose`. Raises LinkError for a wrong shape, and for a jammer with too much power."""
        num_trials, analog = len(context.trials), self.config.modulation == "analog"
        width = self.num_symbols if analog else -(-self.num_symbols // 8)
        check_payload(payload, expected=(num_trials, self.num_devices, width), dtype="fc" if analog else "u")
        combined = self._combine(context) if self.config.combines else None
        gains = combined.gains if combined is not None else self._channel.block_gains(context)
        gains = gains.without(context.silent)
        if self._by_payload or max_power is not None:
            decision = decide_sum(
                self.config, gains, payload, payload_power=self._payload_power, caps=caps, max_power=max_power
            )
        else:
            decision = self._decide(gains, caps)
        own = own_amplitude(
            payload, jammers, max_power=self.config.max_power, silent=context.silent, clipped=decision.clipped
        )
        impairments = self.config.impairments
        sent = OnAir(
            payload=payload,
            decision=decision,
            own=own,
            clipping_reference=clipping_reference(payload, gains, decision, impairments=impairments, own=own),
            combined=combined,
        )
        noise_gain = np.ones(num_trials) if combined is None else combined.noise_gain
        arrivals = self._chain.add_up(sent, self._channel, context=context)
        return Superposition(
            received=arrivals.received,
            num_active=arrivals.num_active,
            decision=decision,
            noise_power=self.config.channel.noise_power * noise_gain,
            airtime_s=self._airtime_s(on_air(decision, jammers)),
            energy_j=arrivals.energy_j * sent_watts(self.config, self.num_devices),
            arrival=None if combined is None else combined.arrival(decision.level, own),
        )

    def _combine(self, context: UplinkContext) -> CombinedTaps:
        """Channels behind the combiner, kept while neither they nor the devices on the air change."""
        round_index = 0 if self._channel.same_every_round else context.round_index
        which = (context.seed, context.trials, context.silent, round_index)
        if self._combined is None or self._combined[0] != which:
            self._combined = (which, self._chain.combine(self._channel, context))
        return self._combined[1]


def _airtime(sending: NDArray[np.bool_], *, each_s: float) -> NDArray[np.float64]:
    return sending.astype(float) * each_s


def clipping_reference(
    payload: NDArray[Any],
    gains: BlockGains,
    decision: AmplitudeDecision,
    *,
    impairments: ImpairmentsConfig,
    own: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Mean power of a weighted symbol of each device `[num_trials, num_devices]`, above which amplifiers clip.

    Weights and payload are independent: the mean of |w|^2 times that of the payload (bits: 1), times the level squared;
    of a jammer (`own` of `own_amplitude`) the square of its amplitude. Zeros where nothing clips.
    """
    if impairments.clipping_db is None:
        return np.zeros(payload.shape[:2], np.float32)
    bits = payload.dtype == np.uint8
    content = 1.0 if bits else np.mean(np.real(payload) ** 2 + np.imag(payload) ** 2, axis=2, dtype=np.float64)
    weighting = decision.level[:, None] ** 2 * gains.weight_power
    if own is not None:
        weighting = np.where(own > 0.0, own.astype(float) ** 2, weighting)
    return np.asarray(weighting * content, np.float32)
