"""Rounds in which nothing reached the server, and budgets that were spent, trial by trial, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenarios.report.settings import setting_in_words

if TYPE_CHECKING:
    from scenarios.plan.points import Plan
    from scenarios.report.tables.tables import TaskIds
    from scenarios.store.store import Store

EMPTY_ROUNDS, ROUNDS_SENT = "empty_rounds", "rounds_sent"


def silent_trials(store: Store, plan: Plan, *, task_ids: TaskIds) -> tuple[str, ...]:
    """A sentence, without its full stop, for every whole trial in which nothing arrived or a budget was spent."""
    found = []
    for point, ids in zip(plan.points, task_ids, strict=True):
        metrics = store.read_metrics(ids)
        setting, rounds = setting_in_words(plan, point), point.scenario.learning.rounds
        for trial, task_id in enumerate(ids):
            measured = metrics.get(task_id, {})
            where = f"{setting}, trial {trial}" if setting else f"trial {trial}"
            budget, sent = point.scenario.budget, measured.get(ROUNDS_SENT, float(rounds))
            if budget is not None and not budget.calibrate and sent < rounds:
                what = "where it stopped" if budget.action == "stop" else "after which nobody sent"
                found.append(
                    f"{where}: the budget of epsilon {budget.epsilon:g} held {sent:.0f} of {rounds} rounds, {what}"
                )
                continue
            empty = measured.get(EMPTY_ROUNDS, 0.0)
            if empty:
                found.append(
                    f"{where}: nothing arrived in {empty:.0f} of {rounds} rounds, which left the model as it was"
                )
    return tuple(found)
