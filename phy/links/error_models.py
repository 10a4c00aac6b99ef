"""Error models that papers use in place of the radio, with the interfaces of an uplink.

- `error_free`: received equals sent;
- `iid`: independent flips at the rate *measured* by a probe of this device's channel in this round;
- `iid-mean`: independent flips at one rate, measured by probes of all devices in many rounds;
- `analytic`: independent flips at the closed-form rate, averaged over the fading (which inversion removes).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.config.delays import line_of_sight_k
from phy.fading.block_taps import UplinkContext
from phy.fading.gains import arrival_gains
from phy.links.link import Forgetful, LinkError, Reception, Superposition, check_part, check_payload
from phy.links.packets.link import ChainOver, PacketLink
from phy.links.power import AmplitudeDecision
from phy.measure import theory
from phy.measure.burstiness import measure_bursts
from phy.measure.counts import LinkCounts, count_errors, empty_counts, mask_padding
from phy.numerics.random import Purpose, uniform_words

if TYPE_CHECKING:
    from phy.links.orthogonal import OrthogonalLink

_Probed = tuple[int, tuple[int, ...], tuple[tuple[str, bytes], ...]]
"""Seed, trials and caps of a probe."""

_FLIPS_PER_CALL = 1 << 22

MEAN_ROUNDS = 256
"""Rounds that are probed for the one rate of `iid-mean`. Over Rayleigh fades of a whole round and 20 devices, rates
near 0.003 have a standard deviation of ten times their mean, which leaves a standard error of 14 %."""


def unit_decision(num_trials: int, num_devices: int) -> AmplitudeDecision:
    """Power control without a radio: amplitude 1, no limit, all devices active."""
    ones = np.ones(num_trials)
    return AmplitudeDecision(
        level=ones,
        amplitude=ones,
        peak_amplitude=ones,
        limit=np.full(num_trials, -1),
        limit_names=(),
        active=np.ones((num_trials, num_devices), bool),
    )


class ErrorFreeUplink(Forgetful):
    """Orthogonal access without a radio: received equals sent."""

    def __init__(self, config: LinkConfig, *, num_devices: int, num_bits: int) -> None:
        self.parted = True
        self.num_devices = num_devices
        self.num_bits = num_bits
        self._packet_bytes = config.packet_size_bytes

    def _counts(self, num_trials: int, num_bits: int, *, num_devices: int | None = None) -> LinkCounts:
        none = empty_counts(num_trials, self.num_devices if num_devices is None else num_devices)
        num_packets = -(-num_bits // (8 * self._packet_bytes))
        return replace(none, bits=none.bits + num_bits, packets=none.packets + num_packets)

    def send(
        self,
        payload: NDArray[np.uint8],
        *,
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
        first_device: int | None = None,
    ) -> Reception:
        """See `DigitalUplink.send`; caps have no amplitude to act on."""
        del caps
        num_trials = len(context.trials)
        check_part(payload, first_device=first_device, uplink=self, num_trials=num_trials)
        return Reception(
            payload=mask_padding(payload, self.num_bits),
            counts=self._counts(num_trials, self.num_bits, num_devices=payload.shape[1]),
            decision=unit_decision(num_trials, payload.shape[1]),
        )

    def probe(
        self, num_bits: int, *, context: UplinkContext, caps: Mapping[str, ArrayLike], again: bool = False
    ) -> LinkCounts:
        """No errors in `num_bits` known bits."""
        del caps, again
        return self._counts(len(context.trials), num_bits)


class NoiselessAir:
    """Superposition without a radio: the exact sum, amplitude 1, no noise."""

    def __init__(self, config: LinkConfig, *, num_devices: int, num_symbols: int) -> None:
        self.num_devices = num_devices
        self.num_symbols = num_symbols
        self._analog = config.modulation == "analog"

    def superpose(
        self,
        payload: NDArray[Any],
        *,
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
        jammers: NDArray[np.bool_] | None = None,
        max_power: NDArray[np.float64] | None = None,
    ) -> Superposition:
        """See `AirUplink.superpose`; caps and powers have nothing to act on. Raises LinkError for jammers."""
        del caps, max_power
        if jammers is not None:
            raise LinkError("without a radio there is no full power to jam at", "use error model measured")
        num_trials = len(context.trials)
        width = self.num_symbols if self._analog else -(-self.num_symbols // 8)
        check_payload(payload, expected=(num_trials, self.num_devices, width), dtype="fc" if self._analog else "u")
        if not self._analog:
            payload = 1.0 - 2.0 * np.unpackbits(payload, axis=-1, count=self.num_symbols)
        decision = unit_decision(num_trials, self.num_devices)
        if context.silent:
            decision.active[:, list(context.silent)] = False
            payload = np.where(decision.active[..., None], payload, 0.0)
        return Superposition(
            received=payload.sum(axis=1).astype(np.complex64),
            num_active=decision.active.sum(axis=1, keepdims=True),
            decision=decision,
            noise_power=np.zeros(num_trials),
        )


class IndependentFlips:
    """Orthogonal access whose bits flip independently, at a rate that is probed or has a closed form.

    The wrapped link provides power control and, for `iid`, a probe at least as long as the payload, so that both see
    the same fades. The one rate of `iid-mean` is that of all devices of a trial over `MEAN_ROUNDS` rounds, the first
    ones whatever the round. The closed form of `analytic` is that of the uncoded constellation at the mean Es/N0, as in
    papers; it includes neither coding nor OFDM.

    Under packet policy accept all bits are kept. Under the others a packet in error is one that the flips themselves
    put in error: the payload takes the packet link's own path through check sums and attempts, on the chain that
    `chain_over` returns.
    """

    def __init__(self, link: OrthogonalLink | PacketLink, *, chain_over: ChainOver) -> None:
        self.parted = False
        self.num_devices = link.num_devices
        self.num_bits = link.num_bits
        self._link = link
        self._model = link.config.error_model
        self._chain_over = chain_over
        self._mean: tuple[_Probed, NDArray[np.float64]] | None = None
        self._bits_per_symbol = BITS_PER_SYMBOL[link.config.modulation]

    def probe(
        self, num_bits: int, *, context: UplinkContext, caps: Mapping[str, ArrayLike], again: bool = False
    ) -> LinkCounts:
        """Counts of the radio's own probe for `iid`, of independent flips of known bits for the other models."""
        if self._model == "iid":
            return self._link.probe(num_bits, context=context, caps=caps, again=again)
        decision = self._link.decide(context, caps)
        rate = self._rate(decision, context, caps)
        nothing = np.zeros((len(context.trials), self.num_devices, -(-num_bits // 8)), np.uint8)
        return self._flip(nothing, num_bits, Purpose.PROBE_NOISE, context, decision, rate)[1]

    def send(
        self,
        payload: NDArray[np.uint8],
        *,
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
        first_device: int | None = None,
    ) -> Reception:
        """See `DigitalUplink.send`. Raises LinkError for a payload of another shape."""
        check_part(payload, first_device=first_device, uplink=self, num_trials=len(context.trials))
        decision = self._link.decide(context, caps)
        rate = self._rate(decision, context, caps)
        if isinstance(self._link, PacketLink) and self._link.config.packets.policy != "accept":
            return self._link.send_flipped(
                payload, error_rate=rate, chain_over=self._chain_over, context=context, caps=caps
            )
        received, counts = self._flip(payload, self.num_bits, Purpose.BIT_FLIPS, context, decision, rate)
        bursts = measure_bursts(
            payload,
            received,
            num_bits=self.num_bits,
            packet_bits=8 * self._link.config.packet_size_bytes,
            bits_per_symbol=self._bits_per_symbol,
            present=decision.active,
        )
        return Reception(payload=received, counts=counts, decision=decision, bursts=bursts)

    def state(self) -> Mapping[str, Any]:
        """See `DigitalUplink.state`: the state of the wrapped link."""
        return self._link.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `DigitalUplink.restore`."""
        self._link.restore(state)

    def _rate(
        self, decision: AmplitudeDecision, context: UplinkContext, caps: Mapping[str, ArrayLike]
    ) -> NDArray[np.float64]:
        """Rate at which bits of each device flip in this round, `[num_trials, num_devices]`."""
        if self._model == "analytic":
            return self._closed_form(decision, context)
        if self._model == "iid-mean":
            return np.repeat(self._mean_rate(context, caps)[:, None], self.num_devices, axis=1)
        bits = max(self._link.config.probe_bits, self.num_bits)
        counts = self._link.probe(bits, context=context, caps=caps)
        return np.nan_to_num(counts.bit_error_rate)

    def _mean_rate(self, context: UplinkContext, caps: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
        """Wrong bits over bits of all devices in the probes of `MEAN_ROUNDS` rounds, `[num_trials]`; kept."""
        which = (context.seed, context.trials, tuple((name, np.asarray(cap).tobytes()) for name, cap in caps.items()))
        if self._mean is None or self._mean[0] != which:
            errors, bits = np.zeros((2, len(context.trials)), np.int64)
            for number in range(MEAN_ROUNDS):
                where = replace(context, round_index=number, silent=())
                counts = self._link.probe(self._link.config.probe_bits, context=where, caps=caps)
                errors += counts.bit_errors.sum(axis=1)
                bits += counts.bits.sum(axis=1)
            self._mean = (which, errors / np.maximum(bits, 1))
        return self._mean[1]

    def _closed_form(self, decision: AmplitudeDecision, context: UplinkContext) -> NDArray[np.float64]:
        """Error rate per device `[num_trials, num_devices]` from `phy.measure.theory`."""
        config = self._link.config
        channel = config.channel
        complex_noise_power = 2.0 * channel.noise_power
        if config.control.constant:
            gains = arrival_gains(config, num_devices=self.num_devices, seed=context.seed, trials=context.trials)
            arriving = decision.level[:, None] * gains.astype(float)
        else:
            arriving = np.repeat(decision.level[:, None], self.num_devices, axis=1)
        esno = arriving**2 / complex_noise_power
        antennas = config.receiver.num_antennas
        if not channel.fades or not config.control.constant:
            return theory.awgn_bit_error_rate(esno * antennas, bits_per_symbol=self._bits_per_symbol)
        distinct, where = np.unique(esno, return_inverse=True)
        rates = theory.fading_bit_error_rate(
            distinct,
            bits_per_symbol=self._bits_per_symbol,
            mgf=partial(theory.rician_mgf, k=line_of_sight_k(channel.model)) if channel.selective else channel.law.mgf,
            num_antennas=antennas,
        )
        return rates[where].reshape(esno.shape)

    def _flip(
        self,
        payload: NDArray[np.uint8],
        num_bits: int,
        purpose: Purpose,
        context: UplinkContext,
        decision: AmplitudeDecision,
        rate: NDArray[np.float64],
    ) -> tuple[NDArray[np.uint8], LinkCounts]:
        active = decision.active
        threshold = np.minimum(np.round(rate * 2.0**32), 2.0**32 - 1).astype(np.uint32)[..., None]
        keys = context.keys(purpose)
        sent = mask_padding(payload, num_bits)
        received = np.empty_like(sent)
        per_call = max(_FLIPS_PER_CALL // active.size // 8 * 8, 8)
        for first in range(0, num_bits, per_call):
            count = min(per_call, num_bits - first)
            words = uniform_words(keys, num_devices=self.num_devices, num_words=count, first_pair=first // 2)
            flips = np.packbits(words < threshold, axis=-1)
            part = slice(first // 8, first // 8 + flips.shape[-1])
            received[..., part] = sent[..., part] ^ flips
        received *= active[..., None].astype(np.uint8)
        on_air = active.astype(np.int64)
        bit_errors, packet_errors, num_packets = count_errors(
            sent, received, num_bits=num_bits, packet_bytes=self._link.config.packet_size_bytes
        )
        counts = replace(
            empty_counts(*active.shape),
            bits=on_air * num_bits,
            bit_errors=bit_errors * on_air,
            packets=on_air * num_packets,
            packet_errors=packet_errors * on_air,
        )
        return received, counts
