"""Run folders of Flower apps over the radio: one task per transmission of updates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scenarios.files.provenance import collect_provenance
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import as_yaml
from scenarios.store.rows import NewBatch
from scenarios.store.store import Store


@dataclass(frozen=True, kw_only=True)
class RoundOfClients:
    """What one transmission of updates measured.

    - `index` of the transmission, from 0; `nodes`: ids of the S clients that sent;
    - `columns` `[S]` by name: sender index, `lost`, counts of the link, and what the protection reports;
    - `numbers` of the transmission: latency `airtime_s` [s] and energy of all `energy_j` [J], neither without a radio,
      and those of the privacy mechanism.
    """

    index: int
    nodes: tuple[int, ...]
    columns: Mapping[str, NDArray[Any]]
    numbers: Mapping[str, float]

    @property
    def lost(self) -> list[int]:
        """The nodes of which a packet was lost."""
        return [node for node, lost in zip(self.nodes, self.columns["lost"], strict=True) if lost]

    def beside(self, others: Mapping[int, Mapping[str, Any]], *, prefix: str) -> RoundOfClients:
        """Return the round with further numbers of each node, their names behind `prefix`."""
        names = dict.fromkeys(name for node in self.nodes for name in others.get(node, {}))
        more = {prefix + name: np.array([others[node][name] for node in self.nodes]) for name in names}
        return replace(self, columns={**self.columns, **more})

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the numbers of each client."""
        for row, node in enumerate(self.nodes):
            yield {"round": self.index + 1, "node_id": node, **{name: one[row] for name, one in self.columns.items()}}


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
            f"link/{name}": one.astype(np.int64 if one.dtype.kind in "iub" else np.float64)[None]
            for name, one in measured.columns.items()
        }
        batch = NewBatch(
            ids=[f"flower-{measured.index:08d}"],
            numbers=[measured.index],
            seconds=0.0,
            extras=[{"nodes": [str(node) for node in measured.nodes], "numbers": dict(measured.numbers)}],
            arrays=columns,
        )
        self.add([batch])
        self.finish_run(len(self.read_runs()))

    def rounds(self) -> Iterator[RoundOfClients]:
        """Yield all stored transmissions."""
        ids = list(self.tasks)
        for task_id, columns in self.read_series(ids, "link").items():
            task = self.tasks[task_id]
            nodes = tuple(int(node) for node in task.extra["nodes"])
            yield RoundOfClients(index=task.trial, nodes=nodes, columns=columns, numbers=task.extra["numbers"])
