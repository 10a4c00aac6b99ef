"""Text of `phyloop check`: the learning task, the size of an upload, and the limits of each sweep point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fl.algorithms.fedavg.footprint import samples_per_device
from fl.algorithms.learning import Learning
from fl.base.words import plural
from fl.schemes.scheme import Scheme
from fl.uplink.channel_credit import sure_noise_power
from phy.config.conflict import listing
from phy.config.link import with_mcs
from phy.config.mcs import entries_of, is_by_device
from phy.links.airtime import upload_airtime_s
from scenarios.plan.points import Plan, Point
from scenarios.plan.warnings import BINDING, binding_caps
from scenarios.report.settings import cells_of
from scenarios.report.tables.table import Table
from scenarios.schema.consistency.conflicts import rounds_known
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.labels.labels import setting_label
from scenarios.schema.schema import Scenario

_BUDGET_HEADS = ("epsilon", "delta", "accountant", "release per round", "rounds sent")


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A table with a title: the settings of sweep points, and `cells` of each; `left`: heads of columns of words."""

    title: str
    plan: Plan
    points: Sequence[Point]
    heads: tuple[str, ...]
    cells: Callable[[Scenario], tuple[str, ...]]
    left: tuple[str, ...] = ()

    @property
    def table(self) -> Table:
        """Computed when asked for: a row may take milliseconds. Columns of `heads` without a cell are left out."""
        settings = tuple(path.rsplit(".", 1)[-1] for path in self.plan.swept_paths)
        cells = [self.cells(one.scenario) for one in self.points]
        told = [place for place in range(len(self.heads)) if any(row[place] for row in cells)]
        rows = (
            (*cells_of(one, self.plan.swept_paths), *(row[place] for place in told))
            for one, row in zip(self.points, cells, strict=True)
        )
        heads = (*settings, *(self.heads[place] for place in told))
        left = (*settings, *self.left)
        return Table(columns=heads, rows=tuple(rows), left=left, wrapped=left)


def describe(scenario: Scenario) -> list[str]:
    """Lines about the learning task and the size of a round."""
    learning: Learning = _learning_within(scenario)
    return learning.describe(setting_label, link=resolve_auto(scenario).link)


def listings(plan: Plan) -> list[Listing]:
    """Tables with a row per sweep point, one for each kind of algorithm in the plan, and one for budgets."""
    kinds: dict[str, list[Point]] = {}
    for point in plan.points:
        kinds.setdefault(point.scenario.learning.algorithm, []).append(point)
    made = []
    for points in kinds.values():
        if points[0].scenario.learning.sends_amplitudes:
            if any(map(_caps_known, points)):
                made.append(_amplitudes(plan, points))
        elif points[0].scenario.learning.uses_radio:
            made.append(_uploads(plan, points))
    budgets = [one for one in plan.points if one.scenario.budget is not None and one.scenario.learning.takes_budget]
    if budgets:
        title, heads = "Budget for the whole run:", _BUDGET_HEADS
        made.append(Listing(title=title, plan=plan, points=budgets, heads=heads, cells=_budget_cells, left=heads[2:]))
    return made


def _amplitudes(plan: Plan, points: Sequence[Point]) -> Listing:
    heads = ("power cap", "LMC cap", "privacy cap", "smallest", "largest loss")
    names = {**BINDING, "varies with the channel": "fading"}
    binding = {names.get(one, "the data"): number for one, number in binding_caps(points).items()}
    limited = listing((f"{one} at {number}" for one, number in binding.items()), last="and")
    title = f"Receive amplitude A is limited by {limited} of {plural(len(points), 'sweep point')}."
    return Listing(title=title, plan=plan, points=points, heads=heads, cells=_cap_cells, left=heads[3:4])


def _cap_cells(scenario: Scenario) -> tuple[str, ...]:
    caps = scenario.learning.caps(link=scenario.link, privacy=scenario.mechanism, seed=scenario.seed)
    if caps is None:
        return "", "", "", "no radio", ""
    return (*map(_cell, (caps.power, caps.lmc, caps.privacy)), caps.binding, _cell(caps.loss_bound))


def _caps_known(point: Point) -> bool:
    """Return True if a cap on the amplitude is known before the run."""
    scenario = point.scenario
    caps = scenario.learning.caps(link=scenario.link, privacy=scenario.mechanism, seed=scenario.seed)
    return caps is not None and ((caps.power, caps.lmc) != (None, None) or caps.privacy < float("inf"))


def _cell(value: object) -> str:
    """A cap in a narrow column; empty for a cap that is unknown before the run."""
    match value:
        case None:
            return ""
        case float():
            return "none" if value == float("inf") else f"{value:.4g}"
    return str(value)


def _uploads(plan: Plan, points: Sequence[Point]) -> Listing:
    private = any(_protected(point.scenario) for point in points)
    known = any(any(_upload(point.scenario)) for point in points)  # not of the network of a plug-in before it is built
    sizes = ("numbers", "bits", "airtime") if known else ()
    heads = ("mechanism", "epsilon", "kappa", "target p", "sigma") if private else ()
    return Listing(
        title="What one device sends in a round:"
        if known
        else "What one device sends is known once the network is built.",
        plan=plan,
        points=points,
        heads=(*sizes, *heads),
        cells=lambda scenario: (*(_upload(scenario) if known else ()), *(_privacy(scenario) if private else ())),
        left=heads[:2],
    )


def _protected(scenario: Scenario) -> bool:
    scheme = scenario.learning.upload_scheme
    return scenario.privacy != "none" or (scheme is not None and scheme.own_epsilon is not None)


def _upload(scenario: Scenario) -> tuple[str, str, str]:
    learning = scenario.learning
    if (found := learning.superposed(resolve_auto(scenario).link)) is not None:
        size, (symbols, airtime) = learning.num_values(), found
        return f"{size:,}", f"{plural(symbols, 'symbol')}", "no radio" if airtime is None else f"{airtime:.4g} s"
    size, bits = learning.num_values(), learning.payload_bits()
    if size is None or bits is None:
        return "", "", ""
    link = scenario.link
    links = [with_mcs(link, entry) for entry in entries_of(link.mcs)] if is_by_device(link.mcs) else [link]
    each = [airtime for one in links if (airtime := upload_airtime_s(one, payload_bits=bits)) is not None]
    words = dict.fromkeys(f"{airtime:.4g}" for airtime in (min(each), max(each))) if each else ()
    return f"{size:,}", f"{bits:,}", f"{' to '.join(words)} s" if words else "no radio"


def _privacy(scenario: Scenario) -> tuple[str, str, str, str, str]:
    """Mechanism, epsilon, kappa, bit error rate of Theorem 1, and noise."""
    learning: Any = scenario.learning.played
    privacy, scheme = scenario.mechanism, _learning_within(scenario).upload_scheme
    if scheme is None:
        return "", "", "", "", ""
    if privacy is not None and privacy.for_uploads is not None:
        from fl.algorithms.fedavg.upload import training_of

        return privacy.for_uploads.cells(training_of(learning), num_samples=samples_per_device(learning))
    if scheme.own_epsilon is None:
        return "none", "", "", "", ""
    return _promise(scheme)


def _promise(scheme: Scheme) -> tuple[str, str, str, str, str]:
    """Mechanism, epsilon and its scope, kappa, target bit error rate, and noise."""
    whose = f"{scheme.own_epsilon:g} per {scheme.epsilon_per}{', as published' if scheme.as_published else ''}"
    if (response := scheme.response) is None:
        return setting_label("learning.aggregation", scheme.model_dump(mode="json")), whose, "", "", ""
    channel = setting_label("learning.aggregation.channel", response.channel)
    name = setting_label("learning.aggregation.name", scheme.name)
    return f"{name}, {channel}", whose, "", "" if response.flip_target is None else f"{response.flip_target:.4g}", ""


def _learning_within(scenario: Scenario) -> Any:
    """The learning of the run, with the epsilon of its scheme from the budget."""
    return scenario.learning.settled(link=resolve_auto(scenario).link, privacy=scenario.mechanism)


def _budget_cells(scenario: Scenario) -> tuple[str, ...]:
    """A cell for each of `_BUDGET_HEADS`."""
    budget, learning = scenario.budget, scenario.learning
    assert budget is not None
    rounds = learning.rounds if budget.calibrate else rounds_known(scenario)
    holds = "known as trials run" if rounds is None else f"{rounds} of {learning.rounds}"
    if rounds is not None and rounds < learning.rounds:
        holds += ", then stop" if budget.action == "stop" else ", then silent"
    left = _left(scenario) if budget.calibrate else "as written"
    return f"{budget.epsilon:g}", f"{budget.delta:g}", budget.accountant, left, holds


def _left(scenario: Scenario) -> str:
    from fl.algorithms.fedavg.upload import upload_plan
    from fl.algorithms.flmc.account import amplitude_caps
    from fl.uplink.budgets import upload_parameters

    privacy, link, learning = scenario.privacy, resolve_auto(scenario).link, _learning_within(scenario)
    assert privacy != "none"
    if (bound := privacy.for_amplitudes) is not None:
        assert bound.budget is not None
        caps = amplitude_caps(learning, budget=bound.budget, noise_power=sure_noise_power(link, privacy=bound))
        return "any amplitude" if np.isinf(caps).all() else f"amplitude up to {_range(caps)}"
    found, mechanism = upload_parameters(upload_plan(learning), link=link, privacy=privacy), privacy.for_uploads
    if mechanism is not None:
        return f"{mechanism.words} {_range(found)}"
    scheme = learning.aggregation
    return f"epsilon {scheme.own_epsilon:.6g} per {scheme.epsilon_per}"


def _range(values: Any) -> str:
    first, last = float(values[0]), float(values[-1])
    return f"{first:.6g}" if first == last else f"{first:.6g} at first, {last:.6g} at last"
