"""From the numbers of all devices to what the server holds of them: codec, protection, radio, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.bit_flips import count_differences
from fl.codecs import Codec
from fl.known_values import known_values
from fl.protection import Protection, RoundPlan
from phy.burstiness import Burstiness
from phy.channels import UplinkContext
from phy.compile import compile_digital
from phy.config import LinkConfig
from phy.link import DigitalUplink, round_airtime
from phy.measurement import LinkCounts
from phy.random import Purpose


@dataclass(frozen=True, kw_only=True)
class Upload:
    """What arrived of one round, for the K devices of the link.

    - `values` `[K, M]`: numbers as the server has them, of any value where not known;
    - `known` bool `[K, M]` or `[K, 1]`: what arrived and is believed; None: everything;
    - `counts`, `power_db`, `bursts`, `airtime_s`: as measured on the air, see `phy.link.Reception`;
    - `observed`: numbers per device `[K]` worth keeping: what the protection decided, `end_bits` and `end_errors`
      counted end to end on the own bits of the numbers that arrived, `clipped_values` beyond the codec's range.
    """

    values: NDArray[Any]
    known: NDArray[np.bool_] | None
    counts: LinkCounts
    power_db: NDArray[np.float64] | None
    bursts: Burstiness | None
    airtime_s: NDArray[np.float64] | None
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
        self._packet_bits = 8 * link.packet_size_bytes
        self._in_turn = link.multiplexing == "tdma"
        self._users = link.noma.group_size if link.access == "noma" else 1
        # A block cipher needs every bit of its last block, those that fill up the last byte among them.
        on_air = protection.air_bytes(-(-self._num_bits // 8))
        self.air_bits = self._num_bits if protection.block_bits == 1 else 8 * on_air
        self._uplink: DigitalUplink = compile_digital(link, num_devices=num_devices, num_bits=self.air_bits)

    def carry(self, values: NDArray[np.float32], *, devices: NDArray[np.int64], context: UplinkContext) -> Upload:
        """Send `values` `[K, M]` of `devices` `[K]`. Raises LearningError for NaN or infinity among them."""
        plan = self._protection.begin(self._uplink, context=context)
        noisy = self._protection.perturb(values, devices=devices, context=context)
        encoded = self._codec.encode(noisy[None], keys=context.keys(Purpose.ROUNDING))
        del noisy
        covered = self._protection.cover(encoded.payload, plan=plan, context=context)
        heard = self._uplink.send(covered, context=context, caps={})
        received = self._protection.uncover(heard.payload, num_bytes=encoded.payload.shape[-1], context=context)
        decoded = self._codec.decode(received, num_values=self._num_values)[0]
        known = self._known(heard.decision.active, heard.delivered)
        ends = self._end_to_end(encoded.payload, received, known, plan)
        decoded, known = believe(decoded, known, self._limit)
        return Upload(
            values=self._protection.recover(decoded, plan=plan),
            known=known,
            counts=heard.counts,
            power_db=heard.power_db,
            bursts=heard.bursts,
            airtime_s=heard.round_airtime_s,
            observed={**plan.observed, **ends, "clipped_values": encoded.clipped[0]},
        )

    def spent(self, upload: Upload, seat: NDArray[np.int64]) -> dict[str, float]:
        """Latency [s] and energy [J] of those who sent, `seat` among the devices of the link; empty without a radio."""
        if upload.airtime_s is None:
            return {}
        if len(seat) == 0:
            return {"airtime_s": 0.0, "energy_j": 0.0}
        sent_s = np.zeros_like(upload.counts.airtime_s)
        sent_s[:, seat] = upload.counts.airtime_s[:, seat]
        # Groups of NOMA share the air, and take turns with each other.
        of_group = sent_s.reshape(1, -1, self._users).max(axis=-1)
        airtime = round_airtime(of_group, one_after_another=self._in_turn)
        return {"airtime_s": float(airtime[0]), "energy_j": float(upload.counts.energy_j[0, seat].sum())}

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

    def _known(self, active: NDArray[np.bool_], delivered: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        if delivered is not None and not delivered.all():
            known = known_values(
                delivered & active[..., None],
                packet_bits=self._packet_bits,
                bits_per_value=self._codec.bits_per_value,
                num_values=self._num_values,
                block_bits=self._protection.block_bits,
            )
            return np.asarray(known[0])
        return None if active.all() else active[0][:, None]


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
