"""From the numbers of all devices to what the server holds of them: codec, protection, radio, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.checkpoints import State
from fl.codecs import Codec
from fl.codecs.known_values import known_values
from fl.tasks.base import LearningError
from fl.uplink.bit_flips import count_differences
from fl.uplink.protection import Protection, RoundPlan
from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from phy.links.link import DigitalUplink, PartedUplink, Reception, join_receptions, round_airtime
from phy.numerics.random import Purpose

Tamper = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
"""Packed bits on their way to packed bits on the air, as attackers would have them."""


@dataclass(frozen=True, kw_only=True)
class Upload:
    """What arrived of one round, for the K devices of the link.

    - `values` `[K, M]`: numbers as the server has them, of any value where not known;
    - `known` bool `[K, M]` or `[K, 1]`: what arrived and is believed; None: everything;
    - `heard`: as measured on the air;
    - `observed`: numbers per device `[K]` worth keeping: what the protection decided, `end_bits` and `end_errors`
      counted end to end on the own bits of the numbers that arrived, `clipped_values` beyond the codec's range.
    """

    values: NDArray[Any]
    known: NDArray[np.bool_] | None
    heard: Reception
    observed: Mapping[str, NDArray[Any]]


def digital_link(link: LinkConfig) -> LinkConfig:
    """The link with access and modulation named: orthogonal QPSK where they are left to us."""
    resolved = link.resolve_mcs()
    return resolved.model_copy(
        update={
            "access": "orthogonal" if link.access == "auto" else link.access,
            "modulation": "qpsk" if resolved.modulation == "auto" else resolved.modulation,
        }
    )


class BitPipe:
    """Packed bits of all devices through protection and radio, and what the round cost."""

    def __init__(self, link: LinkConfig, *, protection: Protection, num_devices: int, num_bits: int) -> None:
        self.protection, self.num_bits = protection, num_bits
        self.packet_bits = 8 * link.packet_size_bytes
        self._in_turn = link.multiplexing == "tdma"
        self._users = link.noma.group_size if link.access == "noma" else 1
        # A block cipher needs every bit of its last block, those that fill up the last byte among them.
        on_air = protection.air_bytes(-(-num_bits // 8))
        self.air_bits = num_bits if protection.block_bits == 1 else 8 * on_air
        self._uplink: DigitalUplink = compile_digital(link, num_devices=num_devices, num_bits=self.air_bits)
        # Asked once: whether an object has all that a protocol names takes as long as a small round.
        self._parted = self._uplink if isinstance(self._uplink, PartedUplink) else None

    def state(self) -> State:
        """What the radio keeps from round to round; protections keep nothing."""
        return self._uplink.state()

    def restore(self, state: State) -> None:
        """Go on from there. Raises LinkError for the state of another link."""
        self._uplink.restore(state)

    def begin(self, context: UplinkContext) -> RoundPlan:
        """What the protection decides for this round."""
        return self.protection.begin(self._uplink, context=context)

    def carry(
        self,
        payload: NDArray[np.uint8],
        *,
        plan: RoundPlan,
        context: UplinkContext,
        tamper: Tamper = lambda bits: bits,
    ) -> tuple[NDArray[np.uint8], Reception]:
        """What the server has of `payload` `[1, K, num_bytes]`; `tamper` is what attackers do to protected bits."""
        covered = tamper(self.protection.cover(payload, plan=plan, context=context))
        heard = self._uplink.send(covered, context=context, caps={})
        return self.protection.uncover(heard.payload, num_bytes=payload.shape[-1], context=context), heard

    @property
    def in_parts(self) -> bool:
        """Whether devices may be sent for part by part: nobody's bits depend on who else sends."""
        return self._parted is not None and self.protection.block_bits == 1

    def carry_part(
        self,
        payload: NDArray[np.uint8],
        *,
        first_device: int,
        plan: RoundPlan,
        context: UplinkContext,
        tamper: Tamper = lambda bits: bits,
    ) -> tuple[NDArray[np.uint8], Reception]:
        """`carry` for the devices from `first_device` on; `plan` is that of all.

        Raises LearningError unless `in_parts`.
        """
        if self._parted is None:
            raise LearningError("devices of this link depend on each other; send all of them at once")
        part = plan.of(slice(first_device, first_device + payload.shape[1]))
        covered = tamper(self.protection.cover(payload, plan=part, context=context))
        heard = self._parted.send_part(covered, first_device=first_device, context=context, caps={})
        return self.protection.uncover(heard.payload, num_bytes=payload.shape[-1], context=context), heard

    def joined(self, parts: Sequence[Reception]) -> Reception:
        """What parts told of, in the order of the devices; the payload is left out where there are several."""
        return parts[0] if len(parts) == 1 else join_receptions(parts, one_after_another=self._in_turn)

    def known(self, heard: Reception, *, bits_per_value: int) -> NDArray[np.bool_] | None:
        """Which values of so many bits arrived, bool `[K, num_values]` or `[K, 1]`; None: all."""
        active = heard.decision.active
        if heard.delivered is not None and not heard.delivered.all():
            known = known_values(
                heard.delivered & active[..., None],
                packet_bits=self.packet_bits,
                bits_per_value=bits_per_value,
                num_values=self.num_bits // bits_per_value,
                block_bits=self.protection.block_bits,
            )
            return np.asarray(known[0])
        return None if active.all() else active[0][:, None]

    def spent(self, heard: Reception, seat: NDArray[np.int64]) -> dict[str, float]:
        """Latency [s] and energy [J] of those who sent, `seat` among the devices of the link; empty without a radio."""
        if heard.round_airtime_s is None:
            return {}
        if len(seat) == 0:
            return {"airtime_s": 0.0, "energy_j": 0.0}
        sent_s = np.zeros_like(heard.counts.airtime_s)
        sent_s[:, seat] = heard.counts.airtime_s[:, seat]
        # Groups of NOMA share the air, and take turns with each other.
        of_group = sent_s.reshape(1, -1, self._users).max(axis=-1)
        airtime = round_airtime(of_group, one_after_another=self._in_turn)
        return {"airtime_s": float(airtime[0]), "energy_j": float(heard.counts.energy_j[0, seat].sum())}


class Exchange:
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
        self.pipe = BitPipe(link, protection=protection, num_devices=num_devices, num_bits=self._num_bits)

    def carry(
        self,
        values: NDArray[np.float32],
        *,
        devices: NDArray[np.int64],
        context: UplinkContext,
        tamper: Tamper = lambda bits: bits,
        admit: Callable[[NDArray[np.int64]], None] = lambda _: None,
    ) -> Upload:
        """Send `values` `[K, M]` of `devices` `[K]`. Raises LearningError for NaN or infinity among them.

        `admit` is shown how many values of each device the codec clips, `[K]`, and may raise before anything is sent.
        """
        plan = self.pipe.begin(context)
        noisy = self._protection.perturb(values, devices=devices, context=context)
        encoded = self._codec.encode(noisy[None], keys=context.keys(Purpose.ROUNDING))
        del noisy
        admit(encoded.clipped[0])
        received, heard = self.pipe.carry(encoded.payload, plan=plan, context=context, tamper=tamper)
        decoded = self._codec.decode(received, num_values=self._num_values)[0]
        known = self.pipe.known(heard, bits_per_value=self._codec.bits_per_value)
        ends = self._end_to_end(encoded.payload, received, known, plan)
        decoded, known = believe(decoded, known, self._limit)
        return Upload(
            values=self._protection.recover(decoded, plan=plan),
            known=known,
            heard=heard,
            observed={**plan.observed, **ends, "clipped_values": encoded.clipped[0]},
        )

    def _end_to_end(
        self,
        sent: NDArray[np.uint8],
        received: NDArray[np.uint8],
        known: NDArray[np.bool_] | None,
        plan: RoundPlan,
    ) -> dict[str, NDArray[np.int64]]:
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


def believe(
    values: NDArray[Any], known: NDArray[np.bool_] | None, limit: float | None
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Values and what is known of them once those that are not finite or beyond `limit` count as missing."""
    if limit is None:
        return values, known
    with np.errstate(invalid="ignore"):
        plausible = np.abs(values) <= limit  # False for NaN
    if plausible.all():
        return values, known
    return np.where(plausible, values, 0), plausible if known is None else plausible & known
