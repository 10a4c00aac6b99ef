"""Counts of a point of a link study: of one batch, and summed over batches."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from phy.measure.burstiness import Burstiness
from phy.measure.monte_carlo import ClusteredCounts, LinkTally

if TYPE_CHECKING:
    from phy.measure.counts import LinkCounts

COUNTS = (
    "bits",
    "bit_errors",
    "packets",
    "packet_errors",
    "dropped",
    "retransmissions",
    "raw_bits",
    "raw_bit_errors",
    "symbols",
)
"""Fields of `LinkCounts` kept per device."""

AMOUNTS = ("transmit_energy", "signal_energy", "noise_energy", "airtime_s", "energy_j")
"""The others, energies and airtime."""


def _integers(lists: Any) -> NDArray[np.int64]:
    if (array := np.array(lists)).dtype != np.int64:
        raise ValueError("counts that are no numbers")
    return array


def _bursts(plain: Any) -> Burstiness | None:
    return None if plain is None else Burstiness(**{name: _integers(lists) for name, lists in plain.items()})


_Integers = Annotated[NDArray[np.int64], PlainValidator(_integers), PlainSerializer(np.ndarray.tolist)]
_Floats = Annotated[
    NDArray[np.float64], PlainValidator(lambda lists: np.array(lists, float)), PlainSerializer(np.ndarray.tolist)
]
_Bursts = Annotated[
    Burstiness | None,
    PlainValidator(_bursts),
    PlainSerializer(lambda one: None if one is None else {name: lists.tolist() for name, lists in vars(one).items()}),
]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One batch of a point, or all batches so far.

    `tally` over all devices and `devices` one by one; `earlier` is the tally before the batch `last`, `last_devices`;
    `counts` `[len(COUNTS), num_devices]` and `amounts` `[len(AMOUNTS), num_devices]` are sums.
    """

    tally: LinkTally
    earlier: LinkTally
    last: LinkTally
    devices: tuple[LinkTally, ...]
    last_devices: tuple[LinkTally, ...]
    counts: _Integers
    amounts: _Floats
    bursts: _Bursts = None
    seconds: float = 0.0

    @classmethod
    def nothing(cls, num_devices: int) -> Measured:
        """Before the first batch."""
        return cls(
            tally=LinkTally(),
            earlier=LinkTally(),
            last=LinkTally(),
            devices=(LinkTally(),) * num_devices,
            last_devices=(LinkTally(),) * num_devices,
            counts=np.zeros((len(COUNTS), num_devices), np.int64),
            amounts=np.zeros((len(AMOUNTS), num_devices)),
        )

    @classmethod
    def of(cls, found: LinkCounts, *, bursts: Burstiness | None, num_bits: int, seconds: float) -> Measured:
        """One batch that took `seconds`, of `num_bits` payload bits per transmission and device."""
        counts = np.stack([getattr(found, name) for name in COUNTS]).astype(np.int64)
        devices = tuple(_tally(counts[:, :, one : one + 1], num_bits) for one in range(counts.shape[2]))
        tally = devices[0] if len(devices) == 1 else _tally(counts, num_bits)
        return cls(
            tally=tally,
            earlier=LinkTally(),
            last=tally,
            devices=devices,
            last_devices=devices,
            counts=counts.sum(axis=1),
            amounts=np.stack([getattr(found, name).sum(axis=0) for name in AMOUNTS]),
            bursts=None if bursts is None else bursts.over_trials(),
            seconds=seconds,
        )

    def __add__(self, batch: Measured) -> Measured:
        """One batch more. Amounts are added in the order of batches, so that they come out the same bit for bit."""
        bursts = batch.bursts
        if self.bursts is not None and bursts is not None:
            bursts = self.bursts + bursts
        return Measured(
            tally=self.tally + batch.tally,
            earlier=self.tally,
            last=batch.tally,
            devices=tuple(a + b for a, b in zip(self.devices, batch.devices, strict=True)),
            last_devices=batch.devices,
            counts=self.counts + batch.counts,
            amounts=self.amounts + batch.amounts,
            bursts=bursts,
            seconds=self.seconds + batch.seconds,
        )

    def count(self, name: str) -> NDArray[np.int64]:
        """One of `COUNTS`, per device."""
        return np.asarray(self.counts[COUNTS.index(name)])

    def amount(self, name: str) -> NDArray[np.float64]:
        """One of `AMOUNTS`, per device."""
        return np.asarray(self.amounts[AMOUNTS.index(name)])


def _tally(counts: NDArray[np.int64], num_bits: int) -> LinkTally:
    """Tally of `[len(COUNTS), transmissions, num_devices]`.

    Clusters are transmissions: what devices of one transmission share (noise under NOMA) stays inside.
    """
    by_name = dict(zip(COUNTS, counts.sum(axis=2), strict=True))
    return LinkTally(
        bits=ClusteredCounts.of(by_name["bit_errors"], by_name["bits"]),
        packets=ClusteredCounts.of(by_name["packet_errors"], by_name["packets"]),
        sent_bits=counts[0].size * num_bits,
        batches=1,
    )


_MEASURED = TypeAdapter(Measured)


def as_plain(measured: Measured) -> dict[str, Any]:
    """Return everything measured as plain JSON; the counts are exact, and JSON keeps every bit of a float."""
    return dict(_MEASURED.dump_python(measured, mode="json"))


def from_plain(plain: Any, *, num_devices: int) -> Measured:
    """Return what `as_plain` was made of. Raises ValueError, TypeError or LookupError for anything else."""
    measured = _MEASURED.validate_python(plain)
    devices, last = measured.devices, measured.last_devices
    shapes = (measured.counts.shape, measured.amounts.shape, len(devices), len(last))
    if shapes != ((len(COUNTS), num_devices), (len(AMOUNTS), num_devices), num_devices, num_devices):
        raise ValueError(f"counts of another link than one with {num_devices} devices")
    tallies = (measured.tally, measured.earlier, measured.last, *devices, *last)
    counts = ((one.sent_bits, one.batches, *astuple(one.bits), *astuple(one.packets)) for one in tallies)
    if any(number < 0 for some in counts for number in some):
        raise ValueError("a count below zero")
    return measured
