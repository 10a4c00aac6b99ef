"""Transport of bits and numbers of all devices to the server: codec, protection, radio, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32, I64, U8, Bools
from fl.base.errors import of_shape
from fl.schemes.codecs.codec import Codec
from fl.uplink.protection import Protection, RoundPlan
from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import DigitalUplink, Reception, join_receptions, known_values, round_airtime
from phy.measure.counts import count_differences
from phy.numerics.random import Purpose

BitAttack = Callable[[U8], U8]
"""Packed bits `[1, K, num_bytes]` to what is sent in their place."""


class Upload(NamedTuple):
    """What the server has of the numbers of `K` devices.

    - `values` `[K, M]` float32: the numbers, of any value where not known;
    - `known` `[K, M]` or `[K, 1]` bool: which of them arrived and are believed; None: all;
    - `reception`: what the link measured;
    - `observed`: numbers per device `[K]` that the round reports: what the protection decided, `end_bits` and
      `end_errors` end to end on the bits of the numbers that arrived, `clipped_values` beyond the codec's range.
    """

    values: NDArray[Any]
    known: Bools | None
    reception: Reception
    observed: dict[str, NDArray[Any]]


class BitTransport:
    """Packed bits of all devices through protection and radio, and what the round cost."""

    def __init__(self, link: LinkConfig, *, protection: Protection, num_devices: int, num_bits: int) -> None:
        self.protection, self.num_bits = protection, num_bits
        self.packet_bits = 8 * link.packet_size_bytes
        self._in_turn = link.multiplexing == "tdma"
        self._users = link.noma.group_size if link.access == "noma" else 1
        # A block cipher needs every bit of its last block, those that fill up the last byte among them.
        on_air = protection.air_bytes(-(-num_bits // 8))
        self.air_bits = num_bits if protection.block_bits == 1 else 8 * on_air
        self.link: DigitalUplink = compile_digital(link, num_devices=num_devices, num_bits=self.air_bits)
        # Devices may be sent for part by part where nobody's bits depend on who else sends.
        self.parted = self.link.parted and protection.block_bits == 1

    def begin(self, context: UplinkContext) -> RoundPlan:
        """Return what the protection decides for this round."""
        return self.protection.begin(self.link, context=context)

    def send(
        self,
        payload: U8,
        *,
        plan: RoundPlan,
        context: UplinkContext,
        attack: BitAttack | None = None,
        first_device: int | None = None,
        at: I64 | None = None,
    ) -> tuple[U8, Reception]:
        """Return what the server has of `payload` `[1, K, num_bytes]`, and the reception of the protected bits.

        `attack` changes the protected bits. With `first_device`, for a transport that is `parted`, the payload is of
        that device and those after it; `plan` is that of all. With `at` `[K]` payload and plan are of these devices of
        the link, ascending, and the reception is that of all.
        """
        if first_device is not None:
            plan = plan.of(slice(first_device, first_device + payload.shape[1]))
        covered = self.protection.cover(payload, plan=plan, context=context)
        sent = covered if attack is None else attack(covered)
        if at is not None:
            whole = np.zeros((1, self.link.num_devices, sent.shape[-1]), np.uint8)
            whole[:, at] = sent
            sent = whole
        reception = self.link.send(sent, context=context, caps={}, first_device=first_device)
        received = reception.payload if at is None else reception.payload[:, at]
        return self.protection.uncover(received, num_bytes=payload.shape[-1], context=context), reception

    def joined(self, parts: Sequence[Reception]) -> Reception:
        """Return the receptions of parts as one, in the order of the devices; of several the payload is left out."""
        return parts[0] if len(parts) == 1 else join_receptions(parts, one_after_another=self._in_turn)

    def known(self, reception: Reception, *, bits_per_value: int) -> Bools | None:
        """Which values of so many bits arrived, bool `[K, num_values]` or `[K, 1]`; None: all."""
        active = reception.decision.active
        if reception.delivered is not None and not reception.delivered.all():
            known = known_values(
                reception.delivered & active[..., None],
                packet_bits=self.packet_bits,
                bits_per_value=bits_per_value,
                num_values=self.num_bits // bits_per_value,
                block_bits=self.protection.block_bits,
            )
            return np.asarray(known[0])
        return None if active.all() else active[0][:, None]

    def spent(self, reception: Reception, at: I64) -> dict[str, float]:
        """Latency [s] and energy [J] of the senders with index `at`; empty without a radio."""
        if reception.round_airtime_s is None:
            return {}
        if len(at) == 0:
            return {"airtime_s": 0.0, "energy_j": 0.0}
        sent_s = np.zeros_like(reception.counts.airtime_s)
        sent_s[:, at] = reception.counts.airtime_s[:, at]
        # Groups of NOMA share the air, and take turns with each other.
        of_group = sent_s.reshape(1, -1, self._users).max(axis=-1)
        airtime = round_airtime(of_group, one_after_another=self._in_turn)
        return {"airtime_s": float(airtime[0]), "energy_j": float(reception.counts.energy_j[0, at].sum())}


class NumberTransport:
    """One direction of the radio for vectors of `num_values` numbers of `num_devices` devices."""

    def __init__(
        self,
        link: LinkConfig,
        *,
        codec: Codec,
        protection: Protection,
        num_devices: int,
        num_values: int,
        receiver_limit: float | None,
    ) -> None:
        self._codec, self._protection = codec, protection
        self._num_values, self._limit = num_values, receiver_limit
        self._num_bits = num_values * codec.bits_per_value
        self.bits = BitTransport(link, protection=protection, num_devices=num_devices, num_bits=self._num_bits)

    def send(
        self,
        values: F32,
        *,
        devices: I64,
        context: UplinkContext,
        attack: BitAttack | None = None,
        admit: Callable[[I64], None] = lambda _: None,
        at: I64 | None = None,
    ) -> Upload:
        """Send `values` `[K, M]` of `devices` `[K]`, and return what the server has of them.

        `admit` receives how many values of each device the codec clips, `[K]`, and may raise before anything is sent.
        With `at` `[K]` these are the devices of the link with these numbers, ascending, and what the link and the
        round report is of all its devices. Raises LearningError for NaN or infinity among the values.
        """
        whole = plan = self.bits.begin(context)
        if at is not None:
            plan = whole.rows(at)
        noisy = self._protection.perturb(values, devices=devices, context=context)
        encoded = self._codec.encode(noisy[None], keys=context.keys(Purpose.ROUNDING))
        stored = (1, len(noisy), -(-self._num_bits // 8))
        of_shape(encoded.payload, stored, whose=f"codec {self._codec.name}")
        del noisy
        admit(encoded.clipped[0])
        received, reception = self.bits.send(encoded.payload, plan=plan, context=context, attack=attack, at=at)
        decoded = self._codec.decode(received, num_values=self._num_values)[0]
        mine = reception if at is None else _of_devices(reception, at)
        known = self.bits.known(mine, bits_per_value=self._codec.bits_per_value)
        ends = {**self._end_to_end(encoded.payload, received, known, plan), "clipped_values": encoded.clipped[0]}
        decoded, known = believe(decoded, known, self._limit)
        if at is not None:
            count = self.bits.link.num_devices
            ends = {name: np.bincount(at, values, count).astype(values.dtype) for name, values in ends.items()}
        observed = {**whole.observed, **ends}
        return Upload(self._protection.recover(decoded, plan=plan), known, reception, observed)

    def _end_to_end(self, sent: U8, received: U8, known: Bools | None, plan: RoundPlan) -> dict[str, I64]:
        """Bits of the numbers that arrived, and those of them wrong in the end; nothing where the radio alone flips."""
        if plan.flip_probability is None:
            return {}
        errors = count_differences(sent, received, num_bits=self._num_bits)[0]
        if known is None:
            return {"end_bits": np.full(len(errors), self._num_bits, np.int64), "end_errors": errors}
        arrived = np.broadcast_to(known, (len(known), self._num_values)).sum(axis=1, dtype=np.int64)
        for device in np.flatnonzero(arrived < self._num_values):
            held = np.packbits(np.broadcast_to(known[device, :, None], (known.shape[1], self._codec.bits_per_value)))
            errors[device] = (
                np.bitwise_count((sent[0, device] ^ received[0, device]) & held).sum() if arrived[device] else 0
            )
        return {"end_bits": arrived * self._codec.bits_per_value, "end_errors": errors}


def _of_devices(reception: Reception, at: I64) -> Reception:
    """Return what of a reception says which packets of the devices `at` arrived."""
    delivered = None if reception.delivered is None else reception.delivered[:, at]
    active = replace(reception.decision, active=reception.decision.active[:, at])
    return replace(reception, delivered=delivered, decision=active)


def believe(values: NDArray[Any], known: Bools | None, limit: float | None) -> tuple[NDArray[Any], Bools | None]:
    """Values and what is known of them once those that are not finite or beyond `limit` count as missing."""
    if limit is None:
        return values, known
    with np.errstate(invalid="ignore"):
        plausible = np.abs(values) <= limit  # False for NaN
    if plausible.all():
        return values, known
    return np.where(plausible, values, 0), plausible if known is None else plausible & known
