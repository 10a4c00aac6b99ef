"""Run folders of Flower apps over the radio: one task per transmission of updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from fl.results import PrivacyAccount
from scenarios.files.provenance import collect_provenance
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import as_yaml
from scenarios.store.rows import Batch, Row
from scenarios.store.store import Store
from scenarios.studies.flower.account import account_of
from scenarios.studies.flower.rounds import RoundOfClients
from scenarios.studies.folders import stored_scenario


class FlowerStore(Store):
    """Run folder of a Flower app: each transmission is a task."""

    study = "flower"

    @classmethod
    def begin(cls, folder: Path, *, root: Mapping[str, Any]) -> Self:
        """Return a new run folder with its settings; ScenarioError for a folder that holds rounds."""
        store = cls.open(folder, scenario_name=root["name"])
        if store.tasks:
            store.close()
            raise ScenarioError(
                key="out",
                value=str(folder),
                problem=f"holds {len(store.tasks)} rounds of an earlier run",
                remedy="choose a new folder",
            )
        store.save_scenario(yaml=as_yaml(dict(root)), root=root)
        store.record_run(collect_provenance())
        return store

    def keep(self, measured: RoundOfClients) -> None:
        """Store a transmission; the run may end after each."""
        columns = {
            name: one.astype(np.int64 if one.dtype.kind in "iub" else np.float64)[None]
            for name, one in measured.columns.items()
        }
        batch = Batch(ids=[f"flower-{measured.index:08d}"], numbers=[measured.index], seconds=0.0)
        nodes = [str(node) for node in measured.nodes]
        self.add(Row(batch=batch), {"nodes": nodes, "numbers": measured.numbers, "link": columns})
        self.finish_run(len(self.read_runs()))

    def read_accounts(self, task_ids: Iterable[str]) -> dict[str, PrivacyAccount]:
        """Return the account of all rounds under the first of these tasks; empty if nothing was sent."""
        account = account_of(stored_scenario(self).scenario, list(self.rounds()))
        return {} if account is None else {next(iter(task_ids)): account}

    def rounds(self) -> Iterator[RoundOfClients]:
        """Yield all stored transmissions."""
        ids = list(self.tasks)
        for task_id, columns in self.read_series(ids, "link").items():
            task = self.tasks[task_id]
            nodes = tuple(int(node) for node in self.read(task, "nodes"))
            yield RoundOfClients(index=task.trial, nodes=nodes, columns=columns, numbers=self.read(task, "numbers"))
