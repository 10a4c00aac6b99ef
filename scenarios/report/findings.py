"""What went wrong in a run: sweep points that learnt nothing, diverged or received nothing, and the key to change."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fl.data.arrays import image_facts
from fl.learning.fedavg import FedAvgConfig
from fl.learning.flmc import FlmcConfig
from fl.results import CAP_NAMES
from scenarios.plan.points import Plan
from scenarios.report.settings import setting_in_words
from scenarios.report.tables.tables import TaskIds, done_series, summarise
from scenarios.schema.schema import Scenario
from scenarios.store.store import Store

NEAR_CHANCE = 0.1
"""Share of the way from guessing to certainty below which an accuracy is that of guessing."""
MANY_ERRORS = 0.05
"""Bit error rate above which errors are the likely cause."""


@dataclass(frozen=True, kw_only=True)
class PointFacts:
    """Results of one sweep point: means over whole trials, and the reasons of failed ones.

    - `done`: number of whole trials; `metrics`, `rates`: by the names of the results;
    - `growth`: last over first squared error of FLMC; 1 where there is none.
    """

    scenario: Scenario
    done: int
    failures: tuple[str, ...] = ()
    metrics: Mapping[str, float]
    rates: Mapping[str, float]
    growth: float = 1.0


def findings(facts: PointFacts) -> Iterator[str]:
    """Yield a sentence, without its full stop, for everything wrong: what, the likely cause, and the key to change."""
    if facts.failures:
        reasons = Counter(re.sub(r"^(before )?round \d+: ", "", reason) for reason in facts.failures)
        reason, times = reasons.most_common(1)[0]
        yield f"{times} of {facts.done + len(facts.failures)} trials failed: {reason}"
    if not facts.done:
        return
    learning = facts.scenario.learning
    if isinstance(learning, FlmcConfig):
        yield from _flmc(facts)
    elif isinstance(learning, FedAvgConfig):
        yield from _fedavg(learning, facts)


def _fedavg(learning: FedAvgConfig, facts: PointFacts) -> Iterator[str]:
    metrics, rounds = facts.metrics, learning.rounds
    if metrics.get("empty_rounds", 0.0) >= rounds:
        yield f"no update arrived in any of {rounds} rounds: {_silence(learning, facts)}"
        return
    if not {"test_accuracy", "best_accuracy", "test_loss"} <= metrics.keys():
        return
    classes = image_facts(learning.data.name).num_classes
    last, best, chance = metrics["test_accuracy"], metrics["best_accuracy"], 1.0 / classes
    if last <= chance + NEAR_CHANCE * (1.0 - chance):
        what = f"test accuracy {last:.1%} after {rounds} rounds is that of guessing among {classes} classes"
    elif best - chance > 0.2 and last < chance + 0.5 * (best - chance):
        what = f"test accuracy fell from {best:.1%} to {last:.1%}"
    else:
        return
    yield f"{what}: {_cause(learning, facts, guessing=math.log(classes))}"


def _silence(learning: FedAvgConfig, facts: PointFacts) -> str:
    link, lost = facts.scenario.link, facts.rates.get("packet_error_rate", 0.0)
    if link.packets.policy != "accept" and lost > 0.5:
        return (
            f"{lost:.0%} of the packets have bit errors, and packets.policy {link.packets.policy} leaves them out; "
            f"raise link.power.snr_max_db above {link.power.snr_max_db:g}, lower link.packet_size_bytes, or add "
            "link.coding"
        )
    if link.control.silences:
        return f"power policy {link.control.name} keeps devices in a fade silent; lower link.power.cutoff_db"
    return f"participation.dropout is {learning.participation.dropout:g}; lower it"


def _cause(learning: FedAvgConfig, facts: PointFacts, *, guessing: float) -> str:
    """The likely cause of a low accuracy and the keys to change; `guessing`: loss of equal probabilities."""
    link, scheme, attack = facts.scenario.link, learning.aggregation, learning.attack
    privacy, loss = facts.scenario.mechanism, facts.metrics["test_loss"]
    wrong = facts.rates.get("bit_error_rate", 0.0)
    if attack is not None:
        return f"devices attack with kind {attack.kind}; write learning.aggregation: median, or remove learning.attack"
    if wrong > MANY_ERRORS:
        more = f"raise link.power.snr_max_db above {link.power.snr_max_db:g}, or add link.coding"
        return f"{wrong:.1%} of the bits arrived wrong; {more}"
    if privacy is not None and privacy.for_uploads is not None:
        noise = f"the privacy mechanism adds more noise than {learning.num_devices} devices average out"
        return f"{noise}; raise privacy.epsilon or learning.num_devices"
    if scheme.own_epsilon is not None:
        noise = f"aggregation {scheme.name} at epsilon {scheme.own_epsilon:g} adds more noise than"
        size = {"cpa": ", or lower learning.aggregation.gamma", "sign": ", or lower learning.aggregation.step"}
        return (
            f"{noise} {learning.num_devices} devices average out; raise learning.aggregation.epsilon or "
            f"learning.num_devices{size.get(scheme.name, '')}"
        )
    if not loss < 2.0 * guessing:
        how = "learning.aggregation.step" if scheme.name == "sign" else "learning.local.learning_rate"
        return f"test loss {loss:.3g} is above the {guessing:.3g} of guessing, so that steps are too long; lower {how}"
    return "steps are too few or too short; raise learning.rounds, learning.local.steps or learning.local.learning_rate"


def _flmc(facts: PointFacts) -> Iterator[str]:
    mse = facts.metrics.get("mse", 0.0)
    if math.isfinite(mse) and not facts.growth > 2.0:
        return
    cap = CAP_NAMES[round(facts.metrics.get("active_cap", 0.0))]
    remedy = {
        "power": "raise link.power.snr_max_db, or lower learning.step_size",
        "privacy": "raise privacy.epsilon, or lower learning.step_size",
        "budget": "raise privacy.budget.epsilon, or lower learning.step_size",
        "lmc": "write learning.lmc_cap: quantization-aware, or lower learning.step_size",
    }.get(cap, "lower learning.step_size, or write learning.step_size: auto")
    held = "" if cap == "none" else f" and the amplitude is held down by the cap of {cap}"
    yield f"samples are {facts.growth:.3g} times as far from the truth as at the start{held}: {remedy}"


# --- from the store -------------------------------------------------------------------------------


def read_findings(store: Store, plan: Plan, *, task_ids: TaskIds) -> tuple[str, ...]:
    """Return the findings of all sweep points with a finished trial; equal findings of several points once."""
    found: dict[str, list[str]] = {}
    for summary in summarise(store, plan, task_ids=task_ids):
        ids = task_ids[plan.points.index(summary.point)]
        failed = (one.failure or "" for one in store.read_tasks(ids).values() if one.status == "failed")
        facts = PointFacts(
            scenario=summary.point.scenario,
            done=summary.done,
            failures=tuple(failed) if summary.failed else (),
            metrics={name: mean.mean for name, mean in summary.metrics.items()},
            rates={name: rate.errors / rate.total for name, rate in summary.rates.items()},
            growth=_growth(store, ids) if isinstance(summary.point.scenario.learning, FlmcConfig) else 1.0,
        )
        for sentence in findings(facts):
            found.setdefault(sentence, []).append(setting_in_words(plan, summary.point))
    return tuple(_at(settings, sentence) for sentence, settings in found.items())


def _at(settings: Sequence[str], sentence: str) -> str:
    more = f" and {len(settings) - 1} more" if len(settings) > 1 else ""
    return f"{settings[0]}{more}: {sentence}" if settings[0] else sentence


def _growth(store: Store, task_ids: Sequence[str]) -> float:
    """Last over first squared error, means over the trials."""
    series = (arrays.get("squared_error") for arrays in done_series(store, task_ids, "rounds"))
    errors = [one[[0, -1]] for one in series if one is not None]
    first, last = np.mean(errors, axis=0) if errors else (1.0, 1.0)
    return float(last / first) if first > 0.0 else 1.0


def silent_trials(store: Store, plan: Plan, *, task_ids: TaskIds) -> tuple[str, ...]:
    """A sentence, without its full stop, for every whole trial in which nothing arrived or a budget was spent."""
    found = []
    for point, ids in zip(plan.points, task_ids, strict=True):
        metrics, budget = store.read_metrics(ids), point.scenario.budget
        setting, rounds = setting_in_words(plan, point), point.scenario.learning.rounds
        for trial, task_id in enumerate(ids):
            measured = metrics.get(task_id, {})
            where = f"{setting}, trial {trial}" if setting else f"trial {trial}"
            sent, empty = measured.get("rounds_sent", float(rounds)), measured.get("empty_rounds", 0.0)
            if budget is not None and not budget.calibrate and sent < rounds:
                what = "where it stopped" if budget.action == "stop" else "after which nobody sent"
                held = f"the budget of epsilon {budget.epsilon:g} held {sent:.0f} of {rounds} rounds"
                found.append(f"{where}: {held}, {what}")
            elif empty:
                what = "which left the model as it was"
                found.append(f"{where}: nothing arrived in {empty:.0f} of {rounds} rounds, {what}")
    return tuple(found)
