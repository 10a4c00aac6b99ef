"""Conflicts of rounds that take time: what cannot be late, and what nobody knows of those who are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Protocol

from fl.base.words import plural
from fl.schemes.scheme import Scheme
from fl.uplink.participation import ParticipationConfig
from fl.uplink.timing import TimingConfig
from phy.config import LinkConfig
from phy.config.conflict import Conflict, LeaveOut, Remedy, Say, Write
from phy.config.mcs import is_by_device
from phy.links.airtime import upload_airtime_s
from privacy.config import Mechanism

_PART = "learning.timing"


class TimedLearning(Protocol):
    """Federated averaging as far as time matters to it; its configuration, which imports this module."""

    sums: ClassVar[bool]

    @property
    def timing(self) -> TimingConfig | None:
        """Section `timing`."""

    @property
    def participation(self) -> ParticipationConfig:
        """Section `participation`."""

    @property
    def aggregation(self) -> Scheme:
        """The scheme."""

    @property
    def num_devices(self) -> int:
        """Number of devices."""

    @property
    def num_drawn(self) -> int | None:
        """Devices of a round, None for all."""

    @property
    def upload(self) -> str:
        """Models or updates."""

    @property
    def personal(self) -> object:
        """Section `personal`, or None."""

    @property
    def convergence_bound(self) -> bool:
        """True if the bound is followed."""

    def payload_bits(self) -> int | None:
        """Return the bits of an upload, where they are known."""


def timing_conflicts(config: TimedLearning, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
    """Yield what does not go with `learning.timing`."""
    timing = config.timing
    if timing is None:
        return
    if not config.sums:  # learning happens elsewhere
        yield Conflict(_PART, "timing is for devices whose training is simulated", LeaveOut("timing"))
        return
    found = list(_of_itself(config, timing))
    yield from found or _of_link(config, timing, link=link)
    yield from _of_budgets(link=link, privacy=privacy)
    if config.convergence_bound:
        problem = "the convergence bound holds where everybody who is drawn is in time"
        yield Conflict(f"learning.convergence_bound {_PART}", problem, LeaveOut("convergence_bound"))
    if timing.keeps:
        yield from _of_late_ones(config, link=link, privacy=privacy)


def _of_itself(config: TimedLearning, timing: TimingConfig) -> Iterator[Conflict]:
    """Yield keys of the section that contradict each other, or the devices."""
    taking_part = config.num_drawn or config.num_devices
    for key in ("shift_s_per_sample", "mean_s_per_sample"):
        seconds = getattr(timing.compute, key)
        if isinstance(seconds, tuple) and len(seconds) != config.num_devices:
            problem = f"{key} has length {len(seconds)}, num_devices is {config.num_devices}"
            number = Write({"learning.num_devices": len(seconds)})
            yield Conflict(f"{_PART}.compute.{key}", problem, number, Say("one number for all"))
    if timing.arrivals is not None and timing.arrivals > taking_part:
        problem = f"a round of {plural(taking_part, 'device')} has no {timing.arrivals} arrivals"
        yield Conflict(f"{_PART}.arrivals", problem, Write({"arrivals": taking_part}, note="or less"))
    if timing.keeps and timing.deadline_s is None and timing.arrivals is None:
        problem = "late: keep keeps nothing where the server waits for all"
        some = Write({"arrivals": max(taking_part // 2, 1)}, example=True)
        yield Conflict(f"{_PART}.late", problem, some, LeaveOut("late"))
    usual = TimingConfig.model_fields["staleness_exponent"].default
    if not timing.keeps and timing.staleness_exponent != usual:
        problem = "staleness_exponent weighs late updates, and late: drop drops them"
        yield Conflict(f"{_PART}.staleness_exponent", problem, LeaveOut("staleness_exponent"), Write({"late": "keep"}))
    if config.participation.dropout > 0.0 and timing.deadline_s is None:
        problem = "with dropout the server waits for uploads that never come"
        yield Conflict(f"{_PART} learning.participation.dropout", problem, Write({"deadline_s": 10}, example=True))


def _of_link(config: TimedLearning, timing: TimingConfig, *, link: LinkConfig) -> Iterator[Conflict]:
    """Yield links on which nobody knows before how long an upload takes, or on which it takes too long."""
    for key, word, usual in (("access", "noma", "orthogonal"), ("multiplexing", "ofdma", "tdma")):
        if getattr(link, key) == word:
            problem = f"timing needs devices that send in turn or add up in the air, and {key} is {word}"
            yield Conflict(f"link.{key} {_PART}", problem, Write({f"link.{key}": usual}), LeaveOut(_PART))
            return
    if is_by_device(link.mcs):
        problem = "timing needs one airtime of an upload, known before the round, and mcs is for each device"
        yield Conflict(f"link.mcs {_PART}", problem, Write({"link.mcs": 10}, example=True), LeaveOut(_PART))
        return
    bits = config.payload_bits()
    if timing.keeps or timing.deadline_s is None or bits is None or link.access == "superposition":
        return
    airtime_s = upload_airtime_s(link.resolve_digital(), payload_bits=bits)
    if airtime_s is not None and airtime_s > timing.deadline_s:
        problem = f"one upload takes {airtime_s:.4g} s on the air, and the deadline is {timing.deadline_s:g} s"
        yield Conflict(
            f"{_PART}.deadline_s", problem, Write({"deadline_s": float(f"{2.0 * airtime_s:.2g}")}, note="or more")
        )


def _of_budgets(*, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
    """Yield budgets of which it is unknown when they are spent."""
    if link.power.budget is not None:
        problem = "power.budget counts on a sum in every round, and late devices are in none"
        yield Conflict(f"link.power.budget {_PART}", problem, LeaveOut("link.power.budget"), LeaveOut(_PART))
    if privacy is not None and privacy.budget is not None and not privacy.calibrated:
        problem = "a budget that only watches asks before a round who sends, and timing tells it in the round"
        yield Conflict(
            f"privacy.budget.calibrate {_PART}", problem, LeaveOut(_PART), Say("a budget that is calibrated")
        )


def _of_late_ones(config: TimedLearning, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
    """Yield what does not go with updates that arrive in a later round."""
    late = f"{_PART}.late"

    def refused(keys: str, problem: str, *remedies: Remedy) -> Conflict:
        return Conflict(f"{late} {keys}", f"late: keep adds old updates to a new model, {problem}", *remedies, drop)

    drop = Write({"late": "drop"})
    selection, scheme = config.participation.selection, config.aggregation
    if config.upload != "update":
        yield refused("learning.upload", "and devices send models", Write({"learning.upload": "update"}))
    if config.personal is not None:
        yield refused("learning.personal", "and personal models are of the round", LeaveOut("learning.personal"))
    if selection.asks:
        asked = " and ".join(one.replace("_", " ") for one in selection.asks)
        problem = f"and selection {selection.name} chooses by the {asked} of the round"
        by_age = Write({"learning.participation.selection": "by-age"})
        yield refused("learning.participation.selection", problem, by_age)
    if privacy is not None and privacy.protects == "sum":
        problem = f"and mechanism {privacy.mechanism} protects the sum of one round"
        yield refused("privacy.mechanism privacy", problem, LeaveOut("privacy"))
    if link.access == "superposition" and not scheme.uses_codec:
        problem = f"and votes of aggregation {scheme.name} add up in the air without a weight"
        yield refused("link.access", problem, Write({"link.access": "orthogonal"}))
