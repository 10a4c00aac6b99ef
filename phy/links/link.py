"""Interfaces of an uplink, and what a round over it returns.

- `DigitalUplink.send(payload, context=...) -> Reception`: packed bits of all devices in, received packed bits and
  measured counts out, each device on its own resource. `probe` measures known bits over the same channel realisation.
- `AirUplink.superpose(payload, context=...) -> Superposition`: all devices add up in the air.

`phy.compile` builds an uplink from a `LinkConfig`. A compiled call has one fixed shape, so TensorFlow traces nothing
after the first chunk. Links that differ in numbers only (SNR, gains, noise power) share their compiled code.

Learning and privacy pass `caps`: upper limits on the receive amplitude A by name, one number for all trials or one per
trial. An infinite cap does not bind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.config.conflict import RemediedError
from phy.fading.block_taps import UplinkContext
from phy.links.power import AmplitudeDecision
from phy.measure.burstiness import Burstiness
from phy.measure.counts import LinkCounts


class LinkError(RemediedError):
    """Invalid use or state of a link; the message has the value, what is allowed and a remedy."""


@dataclass(frozen=True, kw_only=True)
class Reception:
    """Result of one round of orthogonal access or NOMA.

    - `payload` `[num_trials, num_devices, num_bytes]` uint8: received packed bits, padding zero, all
      zero for silent devices;
    - `counts`: bits, errors and energies, measured on exactly these bits;
    - `decision`: levels, amplitudes and silent devices;
    - `delivered` `[num_trials, num_devices, num_packets]` bool: packets that the receiver keeps. Bits of all other
      packets and of silent devices are zero in `payload` and known to be missing. None: all packets of active devices;
    - `power_db` `[num_trials, num_devices]`: transmit power over N0 of each device under closed-loop control, or None;
    - `bursts`: error pattern within packets, runs and symbol labels, or None without a radio;
    - `round_airtime_s` `[num_trials]`: latency of the round [s], see `round_airtime`, or None without a radio;
    - `mcs` `[num_trials, num_devices]` int64: index of the MCS that each device sent with, None where all have one.
    """

    payload: NDArray[np.uint8]
    counts: LinkCounts
    decision: AmplitudeDecision
    delivered: NDArray[np.bool_] | None = None
    power_db: NDArray[np.float64] | None = None
    bursts: Burstiness | None = None
    round_airtime_s: NDArray[np.float64] | None = None
    mcs: NDArray[np.int64] | None = None


@dataclass(frozen=True, kw_only=True)
class Superposition:
    """Result of one round of superposition.

    - `received` `[num_trials, num_symbols]` complex64: y = sum_k h_k A w_k x_k + z, z of variance N0 per
      real dimension;
    - `num_active` `[num_trials, num_symbols]` or `[num_trials, 1]` int64: devices on the air per symbol;
    - `noise_power` `[num_trials]`: variance of z per real dimension, mean over symbols [W];
    - `decision`: the receiver divides by `decision.scale`, the mean receive amplitude A unless the link says mmse;
    - `airtime_s`, `energy_j` `[num_trials, num_devices]`: time on the air [s] and transmit energy [J] of each device,
      as in `LinkCounts`, or None without a radio;
    - `arrival` `[num_trials, num_devices]` complex128: h_k A w_k behind the combiner of several antennas, estimation
      errors included, where it holds for the round; else None.
    """

    received: NDArray[np.complex64]
    num_active: NDArray[np.int64]
    decision: AmplitudeDecision
    noise_power: NDArray[np.float64]
    airtime_s: NDArray[np.float64] | None = None
    energy_j: NDArray[np.float64] | None = None
    arrival: NDArray[np.complex128] | None = None


def round_airtime(airtime_s: NDArray[np.float64], *, one_after_another: bool) -> NDArray[np.float64]:
    """Latency of a round `[num_trials]` from the airtime of each device `[num_trials, num_devices]` [s].

    The airtimes of devices that take turns (TDMA) add up. Of devices that send at once (OFDMA, NOMA, superposition)
    the longest airtime counts.
    """
    # NumPy adds rows in the same order for any batch only if a row is contiguous in memory.
    rows = np.ascontiguousarray(airtime_s)
    return np.asarray(rows.sum(axis=1) if one_after_another else rows.max(axis=1))


def known_bits(delivered: NDArray[np.bool_], *, packet_bits: int, num_bits: int) -> NDArray[np.bool_]:
    """Mask `[..., num_bits]` of the bits in delivered packets, from the mask of packets `[..., num_packets]`.

    Every packet carries `packet_bits` bits, the last one the rest. Raises LinkError for another number of packets.
    """
    num_packets = -(-num_bits // packet_bits)
    if delivered.shape[-1] != num_packets:
        raise LinkError(
            f"{delivered.shape[-1]} packets were reported for {num_bits} bits in packets of "
            f"{packet_bits} bits, which are {num_packets}",
            "report every packet of the payload",
        )
    return np.repeat(delivered, packet_bits, axis=-1)[..., :num_bits]


def known_values(
    delivered: NDArray[np.bool_], *, packet_bits: int, bits_per_value: int, num_values: int, block_bits: int = 1
) -> NDArray[np.bool_]:
    """True where every packet that carries bits of a value was delivered, `[..., num_values]`.

    `delivered` `[..., num_packets]` as in `Reception`; every packet carries `packet_bits` bits of the
    payload but the last, which carries the rest. Bits stand value by value, so that a value may lie across packets.
    `block_bits` stand or fall together, as in a block of a cipher: what is missing of one takes all of it, and the
    payload is filled up to whole blocks.
    """
    num_packets = -(-(-(-num_values * bits_per_value // block_bits) * block_bits) // packet_bits)
    first_bits = np.arange(num_values, dtype=np.int64) * bits_per_value
    first = first_bits // block_bits * block_bits // packet_bits
    last = (((first_bits + bits_per_value - 1) // block_bits + 1) * block_bits - 1) // packet_bits
    known = np.repeat(delivered, np.bincount(first, minlength=num_packets), axis=-1)
    (across,) = np.nonzero(first != last)
    lost_before = np.zeros((*delivered.shape[:-1], num_packets + 1), np.int64)
    np.cumsum(~delivered, axis=-1, out=lost_before[..., 1:])
    known[..., across] = lost_before[..., last[across] + 1] == lost_before[..., first[across]]
    return known


class DigitalUplink(Protocol):
    """Orthogonal access: every device is received on its own."""

    num_devices: int
    num_bits: int
    parted: bool
    """True if devices do not affect each other, so that they may be sent in parts."""

    def send(
        self,
        payload: NDArray[np.uint8],
        *,
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
        first_device: int | None = None,
    ) -> Reception:
        """Carry packed bits `[num_trials, num_devices, ceil(num_bits / 8)]` uint8 of all devices.

        With `first_device` the payload holds some devices only, that one and those after it. The reception is then of
        these devices, with their own latency; power control has all devices in view. Raises LinkError for a payload
        of another shape, and for some devices only where the link is not `parted`.
        """
        ...

    def probe(
        self, num_bits: int, *, context: UplinkContext, caps: Mapping[str, ArrayLike], again: bool = False
    ) -> LinkCounts:
        """Counts on at least `num_bits` known bits per device over the channel that `send` meets in this round.

        Over a channel that is the same in every round, a later call returns the counts of the first probe unless
        `again` is set. Repeated counts are the evidence of one probe.
        """
        ...

    def state(self) -> Mapping[str, Any]:
        """State that later rounds depend on, nested numbers and arrays by name; empty for a stateless link."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a value of `state`. Raises LinkError for the state of another link."""
        ...


class Forgetful:
    """State of a link whose rounds do not depend on each other."""

    def state(self) -> Mapping[str, Any]:
        """See `DigitalUplink.state`."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """See `DigitalUplink.restore`."""


class AirUplink(Protocol):
    """Superposition: the receiver sees the sum of all devices."""

    num_devices: int
    num_symbols: int

    def superpose(
        self,
        payload: NDArray[Any],
        *,
        context: UplinkContext,
        caps: Mapping[str, ArrayLike],
        jammers: NDArray[np.bool_] | None = None,
        max_power: NDArray[np.float64] | None = None,
    ) -> Superposition:
        """Carry packed bits (BPSK) or amplitudes `[num_trials, num_devices, num_symbols]` float or complex.

        `jammers` `[num_trials, num_devices]`: devices that ignore power policy, cutoff and caps. Each sends its
        payload, of mean power at most 1, at amplitude sqrt(P0) in every symbol. It compensates the phase by its own
        channel estimate, which disturbs the sum most at that power. The receiver does not know the jammers: `decision`
        and `num_active` count them as honest devices.

        `max_power` `[num_trials, num_devices]`: mean transmit power that a device may not exceed in this round, beside
        P0 [W]; not of jammers.
        """
        ...


def check_part(payload: NDArray[Any], *, first_device: int | None, uplink: DigitalUplink, num_trials: int) -> int:
    """Return the first device of a payload of all devices (`first_device` None) or of some of them.

    Raises LinkError for a payload of another shape, or of devices that the link does not have or send apart.
    """
    devices = uplink.num_devices if first_device is None else payload.shape[1] if payload.ndim == 3 else 0
    first = first_device or 0
    if first < 0 or first + devices > uplink.num_devices:
        raise LinkError(
            f"{devices} devices from number {first} on are more than the {uplink.num_devices} of the link",
            "send part by part, each device once",
        )
    if first_device is not None and not uplink.parted:
        raise LinkError("devices of this link depend on each other", "send all of them at once")
    check_payload(payload, expected=(num_trials, devices, -(-uplink.num_bits // 8)), dtype="u")
    return first


def join_receptions(parts: Sequence[Reception], *, one_after_another: bool) -> Reception:
    """Join the receptions of consecutive devices, without their payloads.

    `one_after_another` as in `round_airtime`.
    """
    first, counts = parts[0], LinkCounts.join([part.counts for part in parts])
    decided = np.concatenate([part.decision.active for part in parts], axis=1)
    bursts = [part.bursts for part in parts if part.bursts is not None]
    return Reception(
        payload=np.zeros((len(first.payload), 0, first.payload.shape[-1]), np.uint8),
        counts=counts,
        decision=replace(first.decision, active=decided),
        bursts=Burstiness.join(bursts) if bursts else None,
        round_airtime_s=None
        if first.round_airtime_s is None
        else round_airtime(counts.airtime_s, one_after_another=one_after_another),
    )


def check_payload(payload: NDArray[Any], *, expected: tuple[int, int, int], dtype: str) -> None:
    """Raise LinkError unless the payload has the compiled shape and kind (`u`: packed bits, `fc`: amplitudes)."""
    if payload.shape != expected or payload.dtype.kind not in dtype or (dtype == "u" and payload.dtype != np.uint8):
        wanted = "packed bits, uint8" if dtype == "u" else "amplitudes, float or complex"
        raise LinkError(
            f"payload is {payload.dtype} {payload.shape}, the link was compiled for {wanted} {expected}",
            "compile a link for this shape",
        )
