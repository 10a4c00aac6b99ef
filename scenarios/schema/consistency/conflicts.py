"""Combinations of keys that are each valid and that cannot be simulated together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fl.uplink.senders import exchangeable
from phy.config.conflict import Conflict, LeaveOut, Remedy, Say, Write, remedy_in, rounded
from phy.links.conflicts import link_conflicts
from phy.links.recorded import too_short_conflicts
from privacy.config import Mechanism
from privacy.errors import PrivacyError
from scenarios.schema.consistency.resolve import links_of, resolve_auto
from scenarios.schema.errors import Change, ScenarioError, together
from scenarios.schema.messages.following import change_of
from scenarios.schema.schema import Scenario
from scenarios.schema.schema_keys import schema_keys

Where = Callable[[str], tuple[Path | str | None, int | None] | None]
"""Dotted path -> file and line of the key, or None for a key that the user left out."""


_BUDGET = "privacy.budget"


def check_consistency(scenario: Scenario, *, where: Where, conflicts: Iterable[Conflict] | None = None) -> None:
    """Raise ScenarioError for all `conflicts`, by default those of learning, each at the key the user wrote."""
    found = []
    for conflict in find_conflicts(scenario) if conflicts is None else conflicts:
        written = [(key, place) for key in conflict.keys if (place := where(key)) is not None]
        key, (file, line) = written[0] if written else (conflict.keys[0], (None, None))
        value = _value_of(scenario, key)
        found.append(
            ScenarioError(
                problem=conflict.problem,
                remedy=conflict.remedy,
                file=file,
                line=line,
                key=key,
                value=value,
                change=change_of(conflict.remedies, tuple(key.split(".")), known=schema_keys()) or Change(),
            )
        )
    if found:
        raise together(found)


def find_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Yield every combination of keys that cannot be simulated or that has no meaning."""
    learning, privacy = scenario.learning, scenario.mechanism
    broken = list(learning.conflicts(link=scenario.link, privacy=privacy))
    yield from broken
    unknown = None if broken else learning.privacy_conflict(privacy)
    if unknown is not None:
        yield unknown
    if learning.uses_radio:
        yield from _links(scenario, sized=not broken)
    if not broken and unknown is None:
        yield from budget_conflicts(scenario)


def _links(scenario: Scenario, *, sized: bool) -> Iterator[Conflict]:
    """Conflicts within each link, for the number of devices that it simulates and of bits that learning sends."""
    learning, links = scenario.learning, [*links_of(resolve_auto(scenario))]
    drawn = learning.num_drawn if all(exchangeable(link) for _, link in links) else None
    for path, link in links:
        bits = None
        if sized:
            bits = learning.payload_bits() if path == "link" else learning.downlink_bits()
        # A model of unknown size, as an invalid one, is checked with one full packet.
        bits = bits or 8 * link.packet_size_bytes
        counts = {"num_devices": drawn or learning.num_devices, "payload_bits": bits}
        found = list(link_conflicts(link, **counts))
        found = found or list(too_short_conflicts(link, num_rounds=learning.rounds, **counts))
        for conflict in found:
            yield conflict.under(path, "learning.num_devices learning.scheme learning.algorithm")


def _value_of(scenario: Scenario, key: str) -> Any:
    """The value of a key, None for a section: the error then names the key alone."""
    value: Any = scenario
    for part in key.split("."):
        value = getattr(value, part, None)
    return None if isinstance(value, BaseModel) else value


def budget_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """A delta of 0 under approximate privacy, a run without an account, a budget below the cost of one round."""
    privacy, budget, learning = resolve_auto(scenario).mechanism, scenario.budget, scenario.learning
    if privacy is None or budget is None:
        return
    if not learning.takes_budget:
        yield Conflict(
            f"{_BUDGET} learning.algorithm",
            f"a budget limits what a run of flmc or fedavg sends, the algorithm is {learning.algorithm}",
            LeaveOut("budget"),
        )
        return
    if budget.delta == 0.0 and privacy.gaussian_noise is not None:
        yield Conflict(
            f"{_BUDGET}.delta {_BUDGET}",
            f"delta is 0, but {privacy.gaussian_noise} gives approximate privacy only, with a delta above 0",
            Write({"delta": 1e-5}),
        )
        return
    if budget.delta == 0.0 and budget.accountant not in ("basic", "exact"):
        yield Conflict(
            f"{_BUDGET}.delta {_BUDGET}.accountant {_BUDGET}",
            f"delta is 0, but accountant {budget.accountant} needs one above 0",
            Write({"delta": 1e-5}),
            Write({"accountant": "basic"}),
        )
        return
    try:
        found = list(learning.budget_conflicts(link=resolve_auto(scenario).link, privacy=privacy))
        if not found and rounds_known(scenario) == 0:
            found = [Conflict(f"{_BUDGET}.epsilon {_BUDGET}", budget.too_small.problem, _enough(scenario))]
    except PrivacyError as error:
        found = [_unkept(error, scenario, privacy)]
    yield from found


def _unkept(error: PrivacyError, scenario: Scenario, privacy: Mechanism) -> Conflict:
    """The conflict of a budget that cannot be kept; one that is only too small has an epsilon that is enough.

    Settings that a mechanism and a scheme of aggregation both have are those of the one that protects.
    """
    section = "learning.aggregation" if privacy.protects == "scheme" else "privacy"
    names = {key: f"{section}.{key}" for key in ("confidence", "channel")} | {"budget.delta": f"{_BUDGET}.delta"}
    names["budget.accountant"] = f"{_BUDGET}.accountant"
    keys = [names.get(key, key) for key in error.keys.split()]
    remedies = [remedy_in(one).renamed(names) for one in error.remedies]
    if not remedies or isinstance(remedies[0], Say):
        remedies = [_enough(scenario)]
    return Conflict(" ".join((*keys, f"{_BUDGET}.epsilon", _BUDGET)), error.problem, *remedies)


def _enough(scenario: Scenario) -> Remedy:
    """The remedy for a budget that is too small: the first of four, sixteen... times epsilon that is enough."""
    privacy = scenario.mechanism
    assert privacy is not None
    assert privacy.budget is not None
    for power in range(1, 10):
        epsilon = min(privacy.budget.epsilon * 4.0**power, 1e6)
        budget = privacy.budget.model_copy(update={"epsilon": epsilon})
        larger = scenario.model_copy(update={"privacy": privacy.model_copy(update={"budget": budget})})
        try:
            found = [*scenario.learning.budget_conflicts(link=resolve_auto(larger).link, privacy=larger.mechanism)]
            if not found and rounds_known(larger) != 0:
                return Write({f"{_BUDGET}.epsilon": rounded(epsilon, 6)})
        except PrivacyError:
            continue
    return Write({"privacy": "none"})


def rounds_known(scenario: Scenario) -> int | None:
    """Rounds within a budget that only watches; None if only the trials can tell, or if calibration fits all rounds.

    Raises PrivacyError if no account can be made.
    """
    privacy = scenario.mechanism
    if privacy is None or privacy.budget is None or privacy.calibrated:
        return None
    return scenario.learning.rounds_within(link=resolve_auto(scenario).link, privacy=privacy)
