"""`phyloop check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scenarios.cli.describe import describe, listings
from scenarios.plan.points import Plan
from scenarios.report.settings import computed_by, links_on_air
from scenarios.report.tables.table import say
from scenarios.schema.errors import together
from scenarios.schema.labels.units import byte_size
from scenarios.studies.check import Check, check

if TYPE_CHECKING:
    from scenarios.studies.link.plan import LinkPlan


FEW_ROWS = 6
"""Rows of a table that are shown unasked."""


def check_scenario(source: str, *, everything: bool = False, **changes: Any) -> None:
    """`phyloop check`; `everything` shows long tables, too, and `changes` are those of `check`."""
    checked = check(source, **changes)
    if not checked.ok:
        raise together(checked.errors)
    name, *lines = checked.verdict.split(" ", 1)
    say(f"[bold]{name}[/bold] {''.join(lines)}", markup=True)
    if checked.link is not None:
        _say_study(checked.link)
    if checked.plan is not None:
        _say_plan(checked, checked.plan)
    for sentence in checked.warnings:
        say(f"warning: {sentence}")
    for listing in () if checked.plan is None else listings(checked.plan):
        if len(listing.points) > FEW_ROWS and not everything:
            say(f"{listing.title} phyloop check {source} --all shows {len(listing.points)} sweep points")
            continue
        table, fixed = listing.table.without_constants()
        alike = "; ".join(f"{head} {text}" for head, text in fixed.items() if text)
        say(f"\n{listing.title}{f' {alike} at all sweep points' if alike else ''}")
        if not set(listing.heads) <= fixed.keys():  # else settings alone are left
            table.print()


def _say_plan(checked: Check, plan: Plan) -> None:
    """The learning part: task, engine, cost, code of the user."""
    first, last = (describe(point.scenario) for point in (plan.points[0], plan.points[-1]))
    for line in first:
        say(line if line in last else f"first sweep point: {line}")
    for line in last:
        if line not in first:
            say(f"last sweep point: {line}")
    if engine := computed_by(links_on_air(point.scenario for point in plan.points)):
        say(f"symbols computed by {engine}")
    cost, space = checked.cost, checked.room
    assert cost is not None  # a valid plan has both
    assert space is not None
    say(
        f"about {cost.memory_bytes / 1e9:.1f} GB memory, {cost.disk_bytes / 1e6:.0f} MB on disk; phyloop run "
        "measures time"
    )
    say(
        f"one task at most: {cost.task_memory_bytes / 1e9:.1f} GB memory with the "
        f"libraries (of {byte_size(space.limit_bytes)}), {byte_size(cost.task_disk_bytes)} on disk"
    )


def _say_study(plan: LinkPlan) -> None:
    """The `measure:` part: axis, engine, stopping rule, closed forms."""
    from scenarios.studies.link.level import has_closed_form
    from scenarios.studies.link.tables import axis_sentence, stop_sentence

    say(axis_sentence(plan))
    say(f"symbols computed by {computed_by(curve.link for curve in plan.curves)}")
    stopping = stop_sentence(plan)
    say(f"{stopping[0].upper()}{stopping[1:]}.")
    closed = sum(has_closed_form(curve.link) for curve in plan.curves)
    say(f"Closed forms are drawn beside {closed} of {len(plan.curves)} curve{'s' if len(plan.curves) != 1 else ''}.")
