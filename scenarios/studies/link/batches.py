"""Counts of one batch of a link study, and their sum over the batches of a point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phy.measure.burstiness import Burstiness
from phy.measure.monte_carlo import ClusteredCounts, LinkTally

if TYPE_CHECKING:
    from phy.measure.counts import LinkCounts
    from scenarios.studies.link.plan import BatchShape

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
"""Fields of `LinkCounts` kept per transmission and device."""

AMOUNTS = ("transmit_energy", "signal_energy", "noise_energy", "airtime_s", "energy_j")
"""Fields kept per device, summed over the transmissions of a batch."""

_TALLIES = ("tally", "earlier", "last")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One batch: `counts` `[len(COUNTS), transmissions, num_devices]` int64, `amounts` `[len(AMOUNTS), num_devices]`.

    `seconds` is the time it took; `bursts` per device, or None where the link does not observe them.
    """

    number: int
    seconds: float
    counts: NDArray[np.int64]
    amounts: NDArray[np.float64]
    bursts: Burstiness | None


def batch_of(counts: LinkCounts, *, number: int, seconds: float, bursts: Burstiness | None) -> Batch:
    """Batch of one reception."""
    return Batch(
        number=number,
        seconds=seconds,
        counts=np.stack([getattr(counts, name) for name in COUNTS]).astype(np.int64),
        amounts=np.stack([getattr(counts, name).sum(axis=0) for name in AMOUNTS]),
        bursts=None if bursts is None else bursts.over_trials(),
    )


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All batches of a point so far.

    `tally` over all devices and `devices` one by one; `earlier` is the tally before the batch `last`, `last_devices`;
    `counts` `[len(COUNTS), num_devices]` and `amounts` `[len(AMOUNTS), num_devices]` are sums.
    """

    tally: LinkTally
    earlier: LinkTally
    last: LinkTally
    devices: tuple[LinkTally, ...]
    last_devices: tuple[LinkTally, ...]
    counts: NDArray[np.int64]
    amounts: NDArray[np.float64]
    bursts: Burstiness | None = None
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

    def with_batch(self, batch: Batch, shape: BatchShape) -> Measured:
        """One batch more. Amounts are added in the order of batches, so that they come out the same bit for bit."""
        columns = tuple(
            _tally(batch.counts[:, :, device : device + 1], shape) for device in range(batch.counts.shape[2])
        )
        all_devices = columns[0] if len(columns) == 1 else _tally(batch.counts, shape)
        bursts = batch.bursts
        if self.bursts is not None and bursts is not None:
            bursts = self.bursts + bursts
        return Measured(
            tally=self.tally + all_devices,
            earlier=self.tally,
            last=all_devices,
            devices=tuple(a + b for a, b in zip(self.devices, columns, strict=True)),
            last_devices=columns,
            counts=self.counts + batch.counts.sum(axis=1),
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


def _tally(counts: NDArray[np.int64], shape: BatchShape) -> LinkTally:
    """Clusters are transmissions: what devices of one transmission share (noise under NOMA) stays inside."""
    by_name = dict(zip(COUNTS, counts.sum(axis=2), strict=True))
    return LinkTally(
        bits=ClusteredCounts.of(by_name["bit_errors"], by_name["bits"]),
        packets=ClusteredCounts.of(by_name["packet_errors"], by_name["packets"]),
        sent_bits=counts.shape[2] * shape.transmissions * shape.num_bits,
        batches=1,
    )


def as_plain(measured: Measured) -> dict[str, Any]:
    """Everything measured, as plain JSON; the counts are exact, and JSON keeps every bit of a float."""
    return {
        "tallies": [asdict(getattr(measured, name)) for name in _TALLIES],
        "devices": [asdict(tally) for tally in measured.devices],
        "last_devices": [asdict(tally) for tally in measured.last_devices],
        "counts": measured.counts.tolist(),
        "amounts": measured.amounts.tolist(),
        "bursts": None
        if measured.bursts is None
        else {field.name: getattr(measured.bursts, field.name).tolist() for field in fields(Burstiness)},
        "seconds": measured.seconds,
    }


def from_plain(plain: Mapping[str, Any], *, num_devices: int) -> Measured:
    """The inverse of `as_plain`. Raises ValueError, TypeError or LookupError for anything else."""
    counts, amounts = np.array(plain["counts"]), np.array(plain["amounts"], np.float64)
    devices, last_devices = (tuple(map(_tally_from, plain[name])) for name in ("devices", "last_devices"))
    shapes = (counts.shape, amounts.shape, (len(devices), len(last_devices)))
    if shapes != ((len(COUNTS), num_devices), (len(AMOUNTS), num_devices), (num_devices, num_devices)):
        raise ValueError(f"counts of another link than one with {num_devices} devices")
    if counts.dtype != np.int64 or not isinstance(plain["seconds"], float):
        raise ValueError("counts and seconds that are no numbers")
    bursts = plain["bursts"]
    return Measured(
        **dict(zip(_TALLIES, map(_tally_from, plain["tallies"]), strict=True)),
        devices=devices,
        last_devices=last_devices,
        counts=counts,
        amounts=amounts,
        bursts=None if bursts is None else Burstiness(**{name: np.array(bursts[name], np.int64) for name in bursts}),
        seconds=plain["seconds"],
    )


def _tally_from(plain: Mapping[str, Any]) -> LinkTally:
    parts = {name: ClusteredCounts(**plain[name]) for name in ("bits", "packets")}
    tally = LinkTally(**{**plain, **parts})
    numbers = [tally.sent_bits, tally.batches, *(number for one in parts.values() for number in astuple(one))]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("a count that is no natural number")
    return tally
