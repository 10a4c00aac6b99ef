"""Counts of a link study: batch by batch on the radio, in its run folder, and as rates with intervals."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator, TypeAdapter
from pydantic_core import to_jsonable_python

from phy.measure.burstiness import Burstiness
from phy.measure.counts import LinkCounts
from phy.measure.monte_carlo import ClusteredCounts, LinkTally, RateEstimate, Stop, estimate_rates, estimate_ratio
from scenarios.engine.start import prepare_tensorflow
from scenarios.schema.consistency.link_axes import uses_in_turn
from scenarios.schema.errors import ScenarioError, told_by
from scenarios.store.rows import Batch, Row
from scenarios.store.store import Store, telling_damage
from scenarios.studies.link.level import AMOUNTS, COUNTS
from scenarios.studies.link.plan import LinkCurve, LinkPlan, LinkPoint

if TYPE_CHECKING:
    from phy.fading.block_taps import UplinkContext

_NOTHING = LinkTally()
_integers = partial(np.array, dtype=np.int64)


def _bursts(plain: Any) -> Burstiness | None:
    return None if plain is None else Burstiness(**{name: _integers(lists) for name, lists in plain.items()})


@dataclass(frozen=True, kw_only=True)
class MeasuredPoint:
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
    def nothing(cls, num_devices: int) -> MeasuredPoint:
        """Before the first batch."""
        counts, amounts = np.zeros((len(COUNTS), num_devices), np.int64), np.zeros((len(AMOUNTS), num_devices))
        tallies = (_NOTHING,) * (1 + num_devices)
        return cls(tallies=tallies, last=tallies, counts=counts, amounts=amounts)

    @classmethod
    def of(cls, found: LinkCounts, *, bursts: Burstiness | None, num_bits: int, seconds: float) -> MeasuredPoint:
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

    def __add__(self, batch: MeasuredPoint) -> MeasuredPoint:
        """One batch more. Amounts are added in the order of batches, so that they come out the same bit for bit."""
        bursts = [one.bursts for one in (self, batch) if one.bursts is not None]
        return MeasuredPoint(
            tallies=tuple(a + b for a, b in zip(self.tallies, batch.tallies, strict=True)),
            last=batch.tallies,
            earlier=self.tally,
            counts=self.counts + batch.counts,
            amounts=self.amounts + batch.amounts,
            bursts=bursts[0] + bursts[1] if len(bursts) > 1 else batch.bursts,
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
        arrived=ClusteredCounts.of(by_name["packets"] - by_name["packet_errors"], by_name["symbols"]),
        sent_bits=counts[0].size * num_bits,
        batches=1,
    )


def draw_payload(curve: LinkCurve, trials: Sequence[int]) -> tuple[NDArray[np.uint8], UplinkContext]:
    """Packed random bits `[num_trials, num_devices, num_bits / 8]` of transmissions, and the context of their draws."""
    from phy.fading.block_taps import UplinkContext
    from phy.numerics.random import Purpose, round_keys, uniform_words

    seed, num_bytes = curve.point.scenario.seed, curve.shape.num_bits // 8  # packets are whole bytes
    keys = round_keys(seed, tuple(trials), Purpose.PROBE_BITS, 0)
    words = uniform_words(keys, num_devices=curve.num_devices, num_words=-(-num_bytes // 4))
    payload = np.ascontiguousarray(np.ascontiguousarray(words).view(np.uint8)[..., :num_bytes])
    return payload, UplinkContext(seed=seed, trials=tuple(trials), round_index=0)


class PointRadio:
    """A compiled link at one level; batch b is a pure function of (seed, b).

    Transmission t of batch b is trial b T + t of the seed, T transmissions a batch, in its round 0: with its own
    fades, positions, noise and random payload whatever the coherence. All points of a study share these, so that
    curves are compared on common random numbers.
    """

    def __init__(self, curve: LinkCurve, point: LinkPoint) -> None:
        prepare_tensorflow()
        from phy.compile import compile_digital
        from phy.links.link import LinkError

        self._curve = curve
        try:
            self._uplink = compile_digital(point.link, num_devices=curve.num_devices, num_bits=curve.shape.num_bits)
        except LinkError as error:
            problem, remedy = told_by(error)
            problem = f"{problem} (on the curve {curve.label})"
            raise ScenarioError(problem=problem, remedy=remedy, key="link") from error

    def batch(self, number: int) -> MeasuredPoint:
        """Send batch `number`, packed random bits `[transmissions, num_devices, num_bits / 8]`, and count."""
        started, shape = time.perf_counter(), self._curve.shape
        trials = range(number * shape.transmissions, (number + 1) * shape.transmissions)
        payload, context = draw_payload(self._curve, trials)
        reception = self._uplink.send(payload, context=context, caps={})
        seconds = time.perf_counter() - started
        return MeasuredPoint.of(reception.counts, bursts=reception.bursts, num_bits=shape.num_bits, seconds=seconds)


_STOP: TypeAdapter[Stop | None] = TypeAdapter(Stop | None)
_MEASURED = TypeAdapter(MeasuredPoint)

ENOUGH_SILENCE = 1000
"""Packets (transmissions, where they err together) without an error that make higher values not worth their time."""


@dataclass(frozen=True, kw_only=True)
class PointResult:
    """Everything measured at a point of a curve so far; `stop` None: more will follow."""

    curve: LinkCurve
    point: LinkPoint
    measured: MeasuredPoint
    stop: Stop | None = None

    def rates(self, device: int | None = None) -> tuple[RateEstimate | None, RateEstimate | None]:
        """Bit and packet error rate over all devices, or of one; None where nothing was observed.

        One device has its rate as counted: no device of its own decided when to stop. Without an error the limits are
        those of what is independent on the curve.
        """
        row, stop = (0, self.stop) if device is None else (1 + device, None)
        tally, last = self.measured.tallies[row], self.measured.last[row]
        confidence, kind, unit = self.curve.measure.confidence, self.curve.independent, self.curve.unit
        return estimate_rates(tally, last=last, stop=stop, confidence=confidence, independent=kind, unit=unit)

    def throughput(self, device: int | None = None) -> tuple[float, float, float] | None:
        """(payload bits of packets without an error per channel use, lower, upper limit) over all devices, or of one.

        Channel uses are those of all attempts, pilots, prefixes and unused parts of slots included. None before two
        transmissions were measured, and where devices use the channel at once. Where nothing arrived, the upper limit
        follows from that of the share of packets that arrive.
        """
        tally, link = self.measured.tally_of(device), self.curve.link
        if not uses_in_turn(link) or tally.arrived.clusters < 2 or not tally.arrived.observations:
            return None
        bits = 8 * link.packet_size_bytes
        found, low, high = estimate_ratio(tally.arrived, confidence=self.curve.measure.confidence)
        if not tally.arrived.errors and (lost := self.rates(device)[1]) is not None:
            high = (1.0 - lost.low) * tally.packets.observations / tally.arrived.observations
        return bits * found, bits * low, bits * high

    @property
    def silent(self) -> bool:
        """True if no error was seen among all the bits that the rule allows, of enough independent packets.

        A point that time ended is not silent: how far it came depends on the machine.
        """
        bits, packets = self.measured.tally.bits, self.measured.tally.packets
        units = packets.clusters if self.curve.independent == "transmissions" else packets.observations
        ended = self.stop is not None and self.stop.reason == "max_bits"
        return ended and not bits.errors + packets.errors and units >= ENOUGH_SILENCE


Results = Sequence[Sequence[PointResult]]
"""Points of each curve of a plan that have a batch, in ascending order."""


class LinkStore(Store):
    """Run folder of a link study: each point is a task, stored again with all that was measured as it grows."""

    study = "link"


def write_point(store: Store, result: PointResult) -> None:
    """Store everything measured at a point so far."""
    measured, stop = result.measured, result.stop
    plain = to_jsonable_python(measured, fallback=np.ndarray.tolist)
    batch = Batch(
        ids=[result.point.point_id],
        numbers=[measured.tally.batches],
        seconds=measured.seconds,
        status="part" if stop is None else "done",
    )
    stopped = None if stop is None else asdict(stop)
    store.add(Row(batch=batch), {"physics": result.point.physics, "measured": plain, "stop": stopped})


def read_point(store: Store, curve: LinkCurve, point: LinkPoint) -> PointResult:
    """Return everything measured at a point so far; DamagedStoreError for counts that no link study wrote."""
    task = store.read_tasks([point.point_id]).get(point.point_id)
    if task is None:
        return PointResult(curve=curve, point=point, measured=MeasuredPoint.nothing(curve.num_devices))
    kept = store.read(task)
    with telling_damage(store.path):
        measured, stop = _MEASURED.validate_python(kept["measured"]), _STOP.validate_python(kept["stop"])
        return PointResult(curve=curve, point=point, measured=measured, stop=stop)


def read_results(store: Store, plan: LinkPlan) -> Results:
    """Return the points of each curve that have a batch."""
    found = [[read_point(store, curve, point) for point in curve.points] for curve in plan.curves]
    return [[one for one in points if one.measured.tally.batches] for points in found]
