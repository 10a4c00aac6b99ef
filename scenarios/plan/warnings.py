"""Warnings about all sweep points together: settings without effect, unequal privacy, unequal use of the channel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fl.base.words import plural
from phy.config.conflict import flow, listing
from phy.config.mcs import is_by_device
from phy.links.airtime import upload_airtime_s
from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, Point, value_of
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.consistency.unused import unused_keys
from scenarios.schema.consistency.warnings import find_warnings
from scenarios.schema.labels.labels import setting_label, unequal_guarantees
from scenarios.schema.schema import Scenario

if TYPE_CHECKING:
    from fl.algorithms.flmc.amplitude_caps import Caps

_NUMBER = re.compile(r"\d(?:[\d.,]*\d)?(?:e[-+]?\d+)?")

_THROUGH_CAPS = ("privacy.epsilon", "privacy.delta", "link.power.snr_max_db", "learning.lmc_cap")
"""Keys that act on amplitudes in the air through a cap alone."""

BINDING = {"power": "power", "lmc": "the LMC cap", "privacy": "the privacy cap"}
"""Names of the caps that `Caps.binding` names."""

_LOOSER = {
    "power": "a higher link.power.snr_max_db",
    "lmc": "learning.lmc_cap: none",
    "privacy": "a higher privacy.epsilon",
}

_UNEQUAL_USES = 3.0
"""Ratio of the channel uses of a round from which schemes are better compared at equal uses."""


def learning_warnings(plan: Plan) -> list[str]:
    """Return the warnings about all sweep points; of those that differ in numbers alone, the first and a count."""
    sentences = dict.fromkeys(_without_effect(plan))
    sentences |= dict.fromkeys(sentence for point in plan.points for sentence in find_warnings(point.scenario))
    sentences |= dict.fromkeys(unused_keys(point.scenario for point in plan.points))
    # A mean or median has no epsilon to write: beside private schemes it is the comparison without privacy.
    private = [one.scenario for one in plan.points if hasattr(one.scenario.learning.upload_scheme, "epsilon")]
    if unequal := unequal_guarantees(private):
        which = "; ".join(f"{scheme}: {words}" for scheme, words in unequal.items())
        what = f"learning.aggregation: the schemes differ in their privacy ({which})"
        sentences[f"{what}; write one epsilon for all, or none, to compare them at equal privacy"] = None
    sentences |= dict.fromkeys((*_kinds_of_epsilon(plan), *_unequal_uses(plan)))
    alike: dict[str, list[str]] = {}
    for sentence in sentences:
        alike.setdefault(_NUMBER.sub("0", sentence), []).append(sentence)
    return [
        f"{first} ({plural(len(more), 'more such warning')} with other numbers)" if more else first
        for first, *more in alike.values()
    ]


def binding_caps(points: Sequence[Point]) -> dict[str, int]:
    """Return how many sweep points have each limit of the receive amplitude, as `Caps.binding` names it."""
    found = [caps.binding for point in points if (caps := _caps(point.scenario)) is not None]
    return {one: found.count(one) for one in dict.fromkeys(found)}


def _caps(scenario: Scenario) -> Caps | None:
    return scenario.learning.caps(link=scenario.link, privacy=scenario.mechanism, seed=scenario.seed)


def _without_effect(plan: Plan) -> Iterator[str]:
    """Yield a sentence for a swept key that changes a cap on the amplitude, but never the smallest one."""
    swept = [path for path in plan.swept_paths if path in _THROUGH_CAPS]
    known = [(point, caps) for point in plan.points if swept and (caps := _caps(point.scenario)) is not None]
    for path in swept:
        groups: dict[str, list[Caps]] = {}
        for point, caps in known:
            others = {other: value for other, value in point.settings.items() if other != path}
            if path in point.settings:
                groups.setdefault(canonical_json(others), []).append(caps)
        least = [[caps.smallest for caps in group] for group in groups.values() if len(group) > 1]
        if least and all(None not in group and len({*group}) == 1 for group in least):
            names = {caps.binding for group in groups.values() for caps in group}
            which = listing([BINDING[one] for one in BINDING if one in names], last="and")
            looser = listing(_LOOSER[one] for one in _LOOSER if one in names and _LOOSER[one].split()[-1] != path)
            yield (
                f"{path}: no value of the sweep changes the receive amplitude, because {which} "
                f"bind{'s' if len(names) == 1 else ''} at all of them; write {looser}, or sweep values that limit more"
            )


def _kinds_of_epsilon(plan: Plan) -> Iterator[str]:
    """Yield a warning where mechanisms are compared whose epsilons come from different accountants."""
    kinds: dict[str, str] = {}
    for point in plan.points:
        mechanism = point.scenario.mechanism
        if mechanism is not None and mechanism.asked is not None:
            kinds[mechanism.mechanism] = mechanism.asked.partition(" ")[2]
    if len(set(kinds.values())) > 1:
        which = "; ".join(f"{name}: {kind}" for name, kind in kinds.items())
        yield (
            f"privacy.mechanism: the epsilons of the mechanisms are of different kinds ({which}), so that equal "
            "numbers are not equal privacy; compare them at the epsilon that is proved, in the table of results and in "
            "phyloop privacy, or write privacy.budget in place of privacy.epsilon"
        )


def _unequal_uses(plan: Plan) -> Iterator[str]:
    """Yield a figure at equal channel uses where schemes are compared that take very different numbers in a round."""
    report = plan.points[0].scenario.report
    series = next((path for path in plan.swept_paths if path.startswith(("learning.aggregation", "link.access"))), None)
    if series is None or any(figure.x == "channel_uses" for figure in report.figures):
        return
    points = [one for one in plan.points if "test_accuracy" in one.scenario.learning.measured().per_round]
    uses = {setting_label(series, value_of(one, series)): _uses(one.scenario) for one in points}
    known = {name: found for name, found in uses.items() if found}
    if not known or max(known.values()) < _UNEQUAL_USES * min(known.values()):
        return
    least, most = (choose(known, key=known.__getitem__) for choose in (min, max))
    rounds = points[0].scenario.learning.rounds
    amount = round(max(rounds * known[least], known[most]))
    others = [path for path in plan.swept_paths if path not in (series, "label")]
    figure = {"x": "channel_uses", "y": "test_accuracy", "series": series}
    figure |= {"panels": others[0]} if others else {}
    line = flow({**figure, "budgets": [amount]})
    remedy = f"add to report.figures - {line}" if report.figures else f"write report: {{figures: [{line}]}}"
    yield (
        f"{series}: a round takes {known[most]:,.0f} channel uses with {most} and {known[least]:,.0f} with {least}, so "
        f"that equal rounds are not equal use of the channel; to compare at equal use, {remedy}"
    )


def _uses(scenario: Scenario) -> float | None:
    """Channel uses of a round without pilots and retransmissions: airtime of all devices times bandwidth."""
    learning, link = scenario.learning, resolve_auto(scenario).link
    if is_by_device(link.mcs):
        return None
    if (found := learning.superposed(link)) is not None:
        airtime_s = found[1]
    elif (bits := learning.payload_bits()) is not None and (one := upload_airtime_s(link, payload_bits=bits)):
        senders = learning.num_drawn or learning.num_devices
        airtime_s = one * senders / (link.noma.group_size if link.access == "noma" else 1)
    else:
        return None
    return None if airtime_s is None else airtime_s / link.symbol_s
