"""The tidy tables as data frames, built the slow and obvious way: an oracle for the CSV writer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from scenarios.plan.points import Plan
from scenarios.report.settings import swept_values
from scenarios.report.tables.quantities import word_of
from scenarios.report.tables.tables import KEYS, LINK_COLUMNS, WORDED, TaskIds, blocks, columns_of
from scenarios.store.store import Store


def metrics_table(store: Store, plan: Plan, *, task_ids: TaskIds) -> pd.DataFrame:
    """A row per whole trial and metric."""
    return _tidy(store, plan, table="metrics", task_ids=task_ids)


def rounds_table(store: Store, plan: Plan, *, task_ids: TaskIds) -> pd.DataFrame:
    """A row per trial, round and metric; the rounds of failed trials too, up to the failure."""
    return _tidy(store, plan, table="rounds", task_ids=task_ids)


def link_table(store: Store, plan: Plan, *, task_ids: TaskIds) -> pd.DataFrame:
    """A row per trial, round and device: the counts of what the radio measured, and the SNR [dB]."""
    return _tidy(store, plan, table="link", task_ids=task_ids)


def privacy_table(store: Store, plan: Plan, *, task_ids: TaskIds) -> pd.DataFrame:
    """A row per trial, round and entry of the privacy ledger."""
    return _tidy(store, plan, table="privacy", task_ids=task_ids)


def bursts_table(store: Store, plan: Plan, *, task_ids: TaskIds) -> pd.DataFrame:
    """A row per trial, device and burst count."""
    return _tidy(store, plan, table="bursts", task_ids=task_ids)


def devices_table(store: Store, plan: Plan, *, task_ids: TaskIds) -> pd.DataFrame:
    """A row per trial, round, device and number that learning and privacy know of it."""
    return _tidy(store, plan, table="devices", task_ids=task_ids)


def _tidy(store: Store, plan: Plan, *, table: str, task_ids: TaskIds) -> pd.DataFrame:
    keys = KEYS[table]
    frames = []
    for point, ids in zip(plan.points, task_ids, strict=True):
        swept = dict(zip(plan.swept_paths, swept_values(plan, point), strict=True))
        for block in blocks(store, table=table, task_ids=ids):
            axes = [axis.reshape(-1) for axis in np.indices(block.shape)]
            columns: dict[str, Any] = {**swept, "trial": block.trial}
            columns |= dict(zip(keys[1:], axes, strict=True))
            if "round" in columns:
                columns["round"] += 1
            if block.metric is None:
                nothing = np.full(block.shape, np.nan)
                data = [nothing if a is None else a for a in block.data]
                columns |= {n: a.reshape(-1) for n, a in zip(LINK_COLUMNS, data, strict=True)}
            else:
                (array,) = block.data
                values = np.asarray(array, np.float64).reshape(-1)
                columns |= {"metric": block.metric, "value": values}
                if table in WORDED:
                    columns["text"] = [word_of(block.metric, value) for value in values]
            frames.append(pd.DataFrame(columns, index=range(int(np.prod(block.shape)))))
    if not frames:
        return pd.DataFrame(columns=columns_of(plan, table))
    return pd.concat(frames, ignore_index=True)[columns_of(plan, table)]
