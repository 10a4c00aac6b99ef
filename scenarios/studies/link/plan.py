"""A scenario's sweep as curves, and every value on the axis as a point with an identity of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log10
from typing import Any, NamedTuple

from fl.base.words import plural
from phy.config import LinkConfig
from phy.links.airtime import packets_of_a_run, packets_share_luck
from phy.measure.monte_carlo import Independent
from scenarios.plan.identity import (
    EXECUTION_MODE,
    canonical_json,
    identity_of,
    leave_out_later_of_link,
    without_minus_zero,
)
from scenarios.plan.plan import Reading, expand
from scenarios.plan.points import Point, swept_keys
from scenarios.report.settings import said
from scenarios.schema.consistency.link_axes import Budget, nominal_rate, packet_plan, sent_rate
from scenarios.schema.consistency.link_studies import find_link_conflicts, measure_of, resolve_link
from scenarios.schema.consistency.unused import unused_keys
from scenarios.schema.errors import ScenarioError, mapping
from scenarios.schema.labels.labels import setting_label
from scenarios.schema.loader import LoadedScenario, unswept
from scenarios.schema.schema import SCHEMA_VERSION, MeasureConfig, Scenario
from scenarios.schema.sweep import blocks_of, groups_of

MAX_CURVES = 1000
MAX_RATE_LOSS_DB = 0.25
"""Beyond this the rate that a packet really has deserves a warning."""
BATCH_BITS = 1 << 20
"""Payload bits of all devices in one batch: some 10 to 100 ms of the uncoded link on two cores."""
PACKET_BATCH_BITS = 1 << 18
"""The same for links with coding, OFDM or NOMA, which are slower."""
USUAL_EXPANSION = 8
"""Bits on the air per payload bit up to which a batch is bounded by its payload alone."""
MAX_TRANSMISSIONS = 256


class BatchShape(NamedTuple):
    """`transmissions` per batch, the clusters of the intervals, each of `num_bits` payload bits of every device."""

    transmissions: int
    num_bits: int


@dataclass(frozen=True, kw_only=True)
class LinkPoint:
    """One value on the axis of one curve; `physics` is everything that determines its counts."""

    value_db: float
    esno_db: float
    link: LinkConfig
    point_id: str
    physics: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class LinkCurve:
    """One sweep point: a link, measured at every value in ascending order."""

    label: str
    point: Point

    @property
    def link(self) -> LinkConfig:
        """The link, whose power is that of no point in particular."""
        return self.point.scenario.link

    @property
    def measure(self) -> MeasureConfig:
        """The section `measure` of the scenario."""
        return measure_of(self.point.scenario)

    @property
    def num_devices(self) -> int:
        """Number of devices on the link."""
        return self.measure.num_devices

    @cached_property
    def budget(self) -> Budget:
        """Factors between the axes."""
        return Budget.of(self.link, num_devices=self.num_devices, ebno=self.measure.ebno)

    @cached_property
    def shape(self) -> BatchShape:
        """Size of a batch."""
        return batch_shape(self.measure, self.link)

    @cached_property
    def points(self) -> tuple[LinkPoint, ...]:
        """All values on the axis, in ascending order."""
        over, points = self.measure.over, []
        for value_db in self.measure.levels:
            link = self.at_power(self.budget.snr_max_db(value_db, over))
            physics, esno_db = self.physics(link), self.budget.esno_db(value_db, over)
            point_id = identity_of(physics)
            points.append(LinkPoint(value_db=value_db, esno_db=esno_db, link=link, physics=physics, point_id=point_id))
        return tuple(points)

    @property
    def independent(self) -> Independent:
        """Smallest unit that errs independently on this link; a larger one where devices or packets share a draw.

        Bits where an uncoded link meets the same channel always, or a new one at every symbol: of NOMA those of
        different symbols, see `unit`.
        """
        link = self.link
        constant = not link.channel.fades and not link.csi_error_variance
        if self._symbol_by_symbol:
            return "bits"
        shared = (link.access == "noma" and self.num_devices > 1) or not link.impairments.none
        shared = shared or packets_share_luck(link)
        if shared or link.channel.cell is not None or link.channel.traced:  # devices of a trace share its snapshots
            return "transmissions"
        if link.plain and (constant or link.channel.coherence == "symbol"):
            return "bits"
        return "packets" if constant or link.channel.coherence in ("symbol", "packet") else "transmissions"

    @property
    def unit(self) -> tuple[int, int]:
        """Bits, and packets, that one draw of the noise serves: of NOMA those of a group in a symbol, else one."""
        users = self.link.noma.group_size
        return (users * self.link.bits_per_symbol, users) if self._symbol_by_symbol else (1, 1)

    @property
    def _symbol_by_symbol(self) -> bool:
        """True for uncoded NOMA over a constant channel, where symbols of a group err independently of the next."""
        link = self.link
        constant = not link.channel.fades and not link.csi_error_variance and link.channel.cell is None
        alone = link.model_copy(update={"access": "orthogonal"})
        return link.access == "noma" and self.num_devices > 1 and constant and link.impairments.none and alone.plain

    def physics(self, link: LinkConfig) -> dict[str, Any]:
        """Return all that determines the counts of batch after batch over `link` at its power, as plain JSON data.

        The value on the axis is in it as the power: one link measured over Eb/N0 and over Es/N0 shares its points.
        """
        dumped = link.model_dump(mode="json")
        leave_out_later_of_link(dumped)
        return {
            "schema_version": SCHEMA_VERSION,
            "execution_mode": EXECUTION_MODE,
            "kind": "link",
            "seed": self.point.scenario.seed,
            "num_devices": self.num_devices,
            "transmissions": self.shape.transmissions,
            "num_bits": self.shape.num_bits,
            "link": without_minus_zero(dumped),
        }

    def at_power(self, strongest_db: float) -> LinkConfig:
        """The link with another transmit power of its strongest device; listed powers keep their ratios."""
        listed = self.link.power.snr_max_db
        moved: float | tuple[float, ...] = strongest_db
        if isinstance(listed, tuple):
            moved = tuple(strongest_db + (one - max(listed)) for one in listed)
        power = self.link.power.model_copy(update={"snr_max_db": moved})
        return self.link.model_copy(update={"power": power})


@dataclass(frozen=True, kw_only=True)
class LinkPlan:
    """All curves of a scenario."""

    curves: tuple[LinkCurve, ...]
    swept_paths: tuple[str, ...]
    measure: MeasureConfig
    seed: int

    @property
    def num_points(self) -> int:
        """Points of all curves."""
        return sum(len(curve.points) for curve in self.curves)


def expand_link(loaded: LoadedScenario) -> LinkPlan:
    """Return the curves of a scenario with a `measure:` section; sweeps of learning and privacy are ignored.

    Raises ScenarioError without such a section, and wherever a link cannot be measured.
    """
    if loaded.scenario.measure is None:
        raise ScenarioError(
            problem="phyloop link needs a measure: section, and this scenario has none",
            remedy="add for example measure: {over: ebno_db, values: {start: 0, stop: 12, step: 2}}, "
            "or use phyloop run",
            file=loaded.source,
        )
    loaded = of_link(loaded)
    for at in swept_keys(loaded.document.get("sweep")):
        if at[-1] in ("link.power.snr_max_db", "link.power") and not _compares_devices(loaded):
            problem = "the transmit power follows from measure.values, so sweeping it would change nothing"
            remedy = "leave it out of the sweep, or sweep link.power.policy"
            raise loaded.error(at, problem, remedy, key=str(at[-1]))
    plan = expand(loaded, LINK)
    if len(plan.points) > MAX_CURVES:
        problem = f"{len(plan.points)} curves, more than {MAX_CURVES}"
        raise loaded.error(("sweep",), problem, "shorten the lists, or zip them")
    labels = [_label(point, plan.swept_paths) for point in plan.points]
    if len(set(labels)) < len(labels):  # settings that are said alike
        labels = [f"{number}: {label}" for number, label in enumerate(labels, start=1)]
    return LinkPlan(
        curves=tuple(LinkCurve(point=point, label=label) for point, label in zip(plan.points, labels, strict=True)),
        swept_paths=plan.swept_paths,
        measure=measure_of(loaded.scenario),
        seed=plan.seed,
    )


def of_link(loaded: LoadedScenario) -> LoadedScenario:
    """Return the scenario without sweeps of learning and privacy, and of the power in one that learns as well."""
    both = "learning" in loaded.document
    moves = both and not _compares_devices(loaded)
    return unswept(loaded, ["learning", "privacy", *(["link.power.snr_max_db"] if moves else [])])


def _compares_devices(loaded: LoadedScenario) -> bool:
    """Return True if a sweep of the power holds lists, whose ratios the axis keeps."""
    blocks = blocks_of(loaded.document.get("sweep")).items()
    groups = (mapping(group) for at, block in blocks for _, group in groups_of(block, at))
    swept = [group.get("link.power.snr_max_db") for group in groups]
    return any(isinstance(one, list) for values in swept if isinstance(values, list) for one in values)


def _label(point: Point, paths: tuple[str, ...]) -> str:
    """Return the label of a curve: the user's own, or all that the sweep set."""
    if "label" in point.settings and point.scenario.label:
        return setting_label("label", point.scenario.label)
    parts = [said(point, path) for path in paths if path in point.settings]
    return ", ".join(filter(None, parts)) or said(point, "link.modulation")


def batch_shape(measure: MeasureConfig, link: LinkConfig) -> BatchShape:
    """Whole packets in as many transmissions as possible, for transmissions are what is independent."""
    packet_bits = 8 * link.packet_size_bytes
    if measure.bits_per_batch == "auto":
        per_device = (BATCH_BITS if link.plain else PACKET_BATCH_BITS) // measure.num_devices
        if not link.plain:
            # Tiny packets in long code blocks are mostly filler: what they cost is what is decoded.
            coded_bits = packet_plan(link).coded_bits
            packet_bits_charged = max(packet_bits, coded_bits / USUAL_EXPANSION)
            per_device = int(per_device * packet_bits / packet_bits_charged)
        packets = max(per_device // packet_bits, 1)
    else:
        packets = -(-measure.bits_per_batch // packet_bits)
    # Packets that share slots are sent together.
    of_run = packets_of_a_run(link)
    runs = -(-packets // of_run)
    transmissions = min(runs, MAX_TRANSMISSIONS)
    return BatchShape(transmissions=transmissions, num_bits=-(-runs // transmissions) * of_run * packet_bits)


def rate_warning(curve: LinkCurve) -> str | None:
    """Return a warning where Eb/N0 at the nominal rate is far from that of the bits carried, else None."""
    if curve.measure.over != "ebno_db" or curve.measure.ebno == "sent":
        return None
    nominal, carried = nominal_rate(curve.link), sent_rate(curve.link)
    loss_db = 10.0 * log10(nominal / carried)
    if loss_db <= MAX_RATE_LOSS_DB:
        return None
    return (
        f"measure.ebno nominal charges the code rate {nominal:.4g}, but packets of "
        f"{plural(curve.link.packet_size_bytes, 'byte')} carry {carried:.4g} payload bits per bit on the "
        f"air (check sum, tail, filler and padding), so their Eb/N0 is {loss_db:.2f} dB higher than the "
        "axis says; write ebno: sent, or send larger packets"
    )


def _curve_physics(scenario: Scenario) -> str:
    curve = LinkCurve(label="", point=Point(index=0, settings={}, scenario=resolve_link(scenario)))
    return canonical_json(curve.physics(curve.at_power(0.0)))


LINK = Reading(conflicts=find_link_conflicts, resolve=resolve_link, physics=_curve_physics)
"""Rules of a link study for `expand`."""


def study_warnings(plan: LinkPlan) -> list[str]:
    """Return each warning about the links of a plan once."""
    from phy.links.warnings import link_warnings

    of_links = [sentence for curve in plan.curves for sentence in link_warnings(curve.link)]
    rates = map(rate_warning, plan.curves)
    unused = unused_keys(curve.point.scenario for curve in plan.curves)
    return list(dict.fromkeys([*of_links, *_range_meant(plan.measure), *filter(None, rates), *unused]))


def _range_meant(measure: MeasureConfig) -> Iterator[str]:
    """Yield a warning for three values that are not in ascending order, but may be start, stop and step."""
    match measure.values:
        case (start, stop, step) if start < stop and 0.0 < step < stop:
            meant = f"{{start: {start:g}, stop: {stop:g}, step: {step:g}}}"
            yield (
                f"measure.values: the list has {start:g}, {stop:g} and {step:g} dB alone; for all of {start:g} to "
                f"{stop:g} dB in steps of {step:g} write measure.values: {meant}, or the list in ascending order"
            )
