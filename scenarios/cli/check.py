"""`phyloop check`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fl.algorithms.fedavg.config import FedAvgConfig, trains_in_kernels
from fl.base.words import plural
from phy.config import LinkConfig
from phy.config.link import noise_bandwidth_hz
from phy.config.mcs import is_by_device
from phy.links.airtime import cut_packet
from phy.links.budget import budget_in_words
from phy.links.recorded import recorded_in_words
from privacy.config.bit_flipping import BitFlippingBudget
from scenarios.cli.describe import describe, listings
from scenarios.plan.points import Plan
from scenarios.report.settings import computed_by, links_on_air
from scenarios.report.tables.table import say
from scenarios.schema.errors import ScenarioError, together
from scenarios.schema.labels.units import byte_size
from scenarios.studies.check import Check, check

if TYPE_CHECKING:
    from scenarios.engine.pace import Pace
    from scenarios.studies.link.plan import LinkPlan


_TRAINERS = {True: "fused kernels", False: "TensorFlow"}

FEW_ROWS, FEW_WARNINGS = 4, 3
"""Rows of a table, and warnings, that are shown unasked: with more, check fills more than a screen."""


def check_scenario(source: str, *, everything: bool = False, timed: bool = False, **changes: Any) -> None:
    """`phyloop check`; `everything` shows long tables, too, and `changes` are those of `check`.

    `timed`: run two rounds of the first sweep point of a learning run, and say what the second takes.
    """
    checked = check(source, **changes)
    if not checked.ok:
        raise together(checked.errors)
    pace = _measured(checked) if timed else None
    name, *lines = checked.verdict.split(" ", 1)
    say(f"[bold]{name}[/bold] {''.join(lines)}", markup=True)
    if checked.link is not None:
        _say_study(checked.link)
    if checked.plan is not None:
        _say_plan(checked, checked.plan, pace=pace)
    shown = checked.warnings if everything else checked.warnings[:FEW_WARNINGS]
    for sentence in shown:
        say(f"warning: {sentence}")
    if more := len(checked.warnings) - len(shown):
        say(f"warning: phyloop check {source} --all shows {plural(more, 'more warning')}")
    for listing in () if checked.plan is None else listings(checked.plan):
        if len(listing.points) > FEW_ROWS and not everything:
            say(f"{listing.title} phyloop check {source} --all shows {plural(len(listing.points), 'sweep point')}")
            continue
        table, fixed = listing.table.without_constants()
        alike = "; ".join(f"{head} {text}" for head, text in fixed.items() if text)
        say(f"\n{listing.title}{f' {alike} at all sweep points' if alike else ''}")
        if not set(listing.heads) <= fixed.keys():  # else settings alone are left
            table.print()


def _measured(checked: Check) -> Pace:
    """The time of a round of the first sweep point; ScenarioError where nothing learns, or the round cannot run."""
    from fl.base.errors import LearningError
    from scenarios.engine.pace import measure_pace

    loaded, plan = checked.loaded, checked.plan
    assert loaded is not None  # a valid scenario is loaded
    if plan is None:
        raise ScenarioError(
            problem="--time measures rounds of learning, and the scenario has no learning",
            remedy="leave --time out",
            file=loaded.source,
        )
    try:
        return measure_pace(plan.points[0].scenario, trials=plan.trials)
    except LearningError as error:
        raise ScenarioError(
            problem=f"the rounds of --time failed: {error}",
            remedy="correct the scenario, or leave --time out",
            file=loaded.source,
        ) from error


def _say_plan(checked: Check, plan: Plan, *, pace: Pace | None) -> None:
    """The learning part: task, engine, cost, code of the user."""
    first, last = (describe(point.scenario) for point in (plan.points[0], plan.points[-1]))
    for line in first:
        say(line if line in last else f"first sweep point: {line}")
    for line in last:
        if line not in first:
            say(f"last sweep point: {line}")
    if sentence := _channel_left_out(plan):
        say(sentence)
    if engine := computed_by(links_on_air(point.scenario for point in plan.points)):
        say(f"symbols computed by {engine}")
        links = links_on_air(point.scenario for point in plan.points)
        if levels := _received_snr(links):
            say(levels)
        for told in dict.fromkeys((*map(recorded_in_words, links), *_budgets(plan))):
            if told:
                say(told)
        first_learning = plan.points[0].scenario.learning
        for sentence in _packets(links_on_air(point.scenario for point in plan.points), first_learning.payload_bits()):
            say(sentence)
    learnings = [point.scenario.learning for point in plan.points]
    found = {trains_in_kernels(learning) for learning in learnings if isinstance(learning, FedAvgConfig)}
    if trainers := [words for in_kernels, words in _TRAINERS.items() if in_kernels in found]:
        say(f"networks trained by {' and '.join(trainers)}")
    cost, space = checked.cost, checked.room
    assert cost is not None  # a valid plan has both
    assert space is not None
    later = "; phyloop check --time measures a round" if pace is None else ""
    say(
        f"about {cost.memory_bytes / 1e9:.1f} GB memory, one task {cost.task_memory_bytes / 1e9:.1f} GB (of "
        f"{byte_size(space.limit_bytes)}); {cost.disk_bytes / 1e6:.0f} MB on disk{later}"
    )
    if pace is not None:
        say(pace.sentence())


def _channel_left_out(plan: Plan) -> str | None:
    """Which errors count towards privacy under a budget that names no channel: its default is another one."""
    for one in (point.scenario.mechanism for point in plan.points):
        if isinstance(one, BitFlippingBudget) and "channel" not in one.model_fields_set:
            return (
                f"privacy.channel is {one.channel}, the default under privacy.budget; with an epsilon per round it is "
                "native"
            )
    return None


def _budgets(plan: Plan) -> Iterator[str | None]:
    """Powers in dBm of the uplinks of sweep points, and what they come to."""
    for scenario in (point.scenario for point in plan.points):
        for link in links_on_air([scenario]):
            yield budget_in_words(link, num_devices=scenario.learning.num_devices, seed=scenario.seed)


def _received_snr(links: Iterable[LinkConfig]) -> str | None:
    """The SNR at the receiver at full power and gain 1: N0 is the noise of one of two real dimensions."""
    relative = [link for link in links if link.power.transmit_power_dbm is None]
    levels = sorted({level for link in relative for level in link.power.limits_db(noise_bandwidth_hz(link))})
    if not levels:
        return None
    ends = [f"{round(level + 10.0 * math.log10(0.5), 1):zg}" for level in dict.fromkeys((levels[0], levels[-1]))]
    return f"received SNR {' to '.join(ends)} dB: 3 dB below snr_max_db, whose N0 is per real dimension"


def _packets(links: Iterable[LinkConfig], payload_bits: int | None) -> Iterator[str]:
    """How the first link with a code or OFDM cuts a packet, or a payload that is shorter: blocks, bits, slots."""
    for link in (one.resolve_mcs() for one in links):
        if link.access == "superposition" or (link.coding == "none" and link.ofdm == "none"):
            continue
        bits = min(8 * link.packet_size_bytes, payload_bits or 8 * link.packet_size_bytes)
        cut = cut_packet(link, packet_bits=bits)
        plan = cut.plan
        parts = [f"{plural(plan.crc_bits, 'bit')} of check sum"] if plan.crc_bits else []
        if link.coding != "none":
            blocks = plural(plan.num_blocks, "block")
            parts.append(f"{blocks} of {plan.block_bits} bits coded as {plan.coded_block_bits}")
        parts.append(plural(cut.symbols, "symbol"))
        if cut.slots:
            whole, slots = cut.slots * cut.slot_symbols, plural(cut.slots, "slot")
            where = f"{slots} of its own" if cut.packets == 1 else f"{cut.packets} packets share {slots}"
            parts.append(f"{where}, {cut.used:.0%} of their {whole} data symbols used")
        which = ", with the MCS of the fewest bits per symbol" if is_by_device(link.mcs) else ""
        yield f"a packet of {plural(bits, 'bit')}{which}: {', '.join(parts)}"
        return


def _say_study(plan: LinkPlan) -> None:
    """The `measure:` part: axis, engine, stopping rule, closed forms."""
    from scenarios.studies.link.level import has_closed_form
    from scenarios.studies.link.tables import axis_sentence, stop_sentence

    say(axis_sentence(plan))
    say(f"symbols computed by {computed_by(curve.link for curve in plan.curves)}")
    for sentence in _packets((curve.link for curve in plan.curves), None):
        say(sentence)
    stopping = stop_sentence(plan)
    say(f"{stopping[0].upper()}{stopping[1:]}.")
    closed = sum(has_closed_form(curve.link) for curve in plan.curves)
    say(f"Closed forms are drawn beside {closed} of {plural(len(plan.curves), 'curve')}.")
