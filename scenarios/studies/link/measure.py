"""Counts of a sweep point of a link study: batch by batch on the radio, and summed over batches."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator

from phy.measure.burstiness import Burstiness
from phy.measure.counts import LinkCounts
from phy.measure.monte_carlo import ClusteredCounts, LinkTally
from scenarios.engine.start import prepare_tensorflow
from scenarios.schema.errors import ScenarioError

if TYPE_CHECKING:
    from scenarios.studies.link.plan import Curve, LinkPoint

COUNTS = (
    *("bits", "bit_errors", "packets", "packet_errors", "dropped", "retransmissions"),
    *("raw_bits", "raw_bit_errors", "symbols"),
)
"""Fields of `LinkCounts` kept per device."""

AMOUNTS = ("transmit_energy", "signal_energy", "noise_energy", "airtime_s", "energy_j")
"""The others, energies and airtime."""

_NOTHING = LinkTally()
_integers = partial(np.array, dtype=np.int64)


def _bursts(plain: Any) -> Burstiness | None:
    return None if plain is None else Burstiness(**{name: _integers(lists) for name, lists in plain.items()})


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One batch of a point, or all batches so far; pydantic reads it from plain JSON.

    `tallies` over all devices, then of each; `last`: those of the last batch alone; `earlier`: over all devices before
    it. `counts` `[len(COUNTS), num_devices]` and `amounts` `[len(AMOUNTS), num_devices]` are sums.
    """

    tallies: tuple[LinkTally, ...]
    last: tuple[LinkTally, ...]
    earlier: LinkTally = _NOTHING
    counts: Annotated[NDArray[np.int64], PlainValidator(_integers)]
    amounts: Annotated[NDArray[np.float64], PlainValidator(partial(np.array, dtype=float))]
    bursts: Annotated[Burstiness | None, PlainValidator(_bursts)] = None
    seconds: float = 0.0

    @classmethod
    def nothing(cls, num_devices: int) -> Measured:
        """Before the first batch."""
        counts, amounts = np.zeros((len(COUNTS), num_devices), np.int64), np.zeros((len(AMOUNTS), num_devices))
        tallies = (_NOTHING,) * (1 + num_devices)
        return cls(tallies=tallies, last=tallies, counts=counts, amounts=amounts)

    @classmethod
    def of(cls, found: LinkCounts, *, bursts: Burstiness | None, num_bits: int, seconds: float) -> Measured:
        """One batch that took `seconds`, of `num_bits` payload bits per transmission and device."""
        counts = np.stack([getattr(found, name) for name in COUNTS]).astype(np.int64)
        devices = (_tally(counts[:, :, one : one + 1], num_bits) for one in range(counts.shape[2]))
        tallies = (_tally(counts, num_bits), *devices)
        return cls(
            tallies=tallies,
            last=tallies,
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
            tallies=tuple(a + b for a, b in zip(self.tallies, batch.tallies, strict=True)),
            last=batch.tallies,
            earlier=self.tally,
            counts=self.counts + batch.counts,
            amounts=self.amounts + batch.amounts,
            bursts=bursts,
            seconds=self.seconds + batch.seconds,
        )

    @property
    def tally(self) -> LinkTally:
        """Counts over all devices."""
        return self.tallies[0]

    def tally_of(self, device: int | None) -> LinkTally:
        """Counts of one device, over all for None."""
        return self.tallies[0 if device is None else 1 + device]

    def of_device(self, device: int | None) -> dict[str, Any]:
        """`COUNTS` and `AMOUNTS` of one device, or summed over all for None, by name."""
        chosen = slice(None) if device is None else slice(device, device + 1)
        counts = dict(zip(COUNTS, self.counts[:, chosen], strict=True))
        amounts = dict(zip(AMOUNTS, self.amounts[:, chosen], strict=True))
        return {name: values.sum().item() for name, values in (*counts.items(), *amounts.items())}


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


class PointRadio:
    """A compiled link at one level; batch b is a pure function of (seed, b).

    Transmission t of batch b is trial b T + t of the seed, T transmissions a batch, in its round 0: with its own
    fades, positions, noise and random payload whatever the coherence. All points of a study share these, so that
    curves are compared on common random numbers.
    """

    def __init__(self, curve: Curve, point: LinkPoint) -> None:
        prepare_tensorflow()
        from phy.compile import compile_digital
        from phy.links.link import LinkError

        self._curve, self._seed = curve, curve.point.scenario.seed
        try:
            self._uplink = compile_digital(point.link, num_devices=curve.num_devices, num_bits=curve.shape.num_bits)
        except LinkError as error:
            problem, _, remedy = str(error).partition("; ")
            raise ScenarioError(
                problem=f"{problem} (on the curve {curve.label})", remedy=remedy or "choose another link", key="link"
            ) from error

    def batch(self, number: int) -> Measured:
        """Send batch `number`, packed random bits `[transmissions, num_devices, num_bits / 8]`, and count."""
        from phy.fading.block_taps import UplinkContext
        from phy.numerics.random import Purpose, round_keys, uniform_words

        started, shape = time.perf_counter(), self._curve.shape
        trials = tuple(range(number * shape.transmissions, (number + 1) * shape.transmissions))
        num_bytes = shape.num_bits // 8  # packets are whole bytes
        keys = round_keys(self._seed, trials, Purpose.PROBE_BITS, 0)
        words = uniform_words(keys, num_devices=self._curve.num_devices, num_words=-(-num_bytes // 4))
        payload = np.ascontiguousarray(np.ascontiguousarray(words).view(np.uint8)[..., :num_bytes])
        context = UplinkContext(seed=self._seed, trials=trials, round_index=0)
        reception = self._uplink.send(payload, context=context, caps={})
        seconds = time.perf_counter() - started
        return Measured.of(reception.counts, bursts=reception.bursts, num_bits=shape.num_bits, seconds=seconds)
