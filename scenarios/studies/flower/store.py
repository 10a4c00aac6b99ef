"""Run folders of Flower apps over the radio: one task per transmission of updates, and their privacy account."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from fl.algorithms.fedavg.account import fedavg_account
from fl.algorithms.fedavg.config import FedAvgConfig
from fl.base.results import LINK_COUNTS, PrivacyAccount, TrialResult
from fl.base.words import plural
from scenarios.files.provenance import collect_provenance
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import as_yaml
from scenarios.schema.schema import Scenario
from scenarios.store.rows import Batch, Row
from scenarios.store.store import Store
from scenarios.studies.folders import stored_scenario


@dataclass(frozen=True, kw_only=True)
class RoundOfClients:
    """What one transmission of updates measured.

    - `index` of the transmission, from 0; `nodes`: ids of the S clients that sent;
    - `columns` `[S]` by name: sender index, `lost`, counts of the link, and what the protection reports;
    - `numbers` of the transmission: `num_values` of each client, latency `airtime_s` [s] and energy of all `energy_j`
      [J], neither without a radio, and those of the privacy mechanism or of the scheme.
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


MEASURED = ("bit_error_rate", "packet_error_rate", "airtime_s", "energy_j")
"""Names of the curves that phyloop draws of each app."""

TRAINED = "the clients train as the settings say, which phyloop cannot see"


class AppConfig(FedAvgConfig):
    """Federated averaging in a Flower app; phyloop knows only the number of values that a client sends."""

    sums: ClassVar[bool] = False

    values_per_client: int | None
    """None: not known yet."""

    @classmethod
    def of(cls, learning: FedAvgConfig, **numbers: int | None) -> Self:
        """Return the settings of learning with `num_devices` and `values_per_client`."""
        written = {name: getattr(learning, name) for name in FedAvgConfig.model_fields}
        return cls(**{**written, **numbers}).resolved()

    def num_values(self) -> int | None:
        """See `FedAvgConfig.num_values`."""
        return self.values_per_client


def account_of(scenario: Scenario, rounds: Sequence[RoundOfClients]) -> PrivacyAccount | None:
    """Return the ledger of all transmissions, of models of the largest size; None if nothing was sent.

    The strategy draws the clients, so that no draw is counted towards privacy. Raises PrivacyError.
    """
    if not rounds:
        return None
    privacy, link = scenario.mechanism, scenario.link.resolve_digital()
    num_devices = 1 + max(int(one.columns["sender"].max()) for one in rounds)
    num_values = max(int(one.numbers["num_values"]) for one in rounds)
    app = AppConfig.of(
        cast(FedAvgConfig, scenario.learning), num_devices=num_devices, values_per_client=num_values
    ).settled(link=link, privacy=privacy)
    names = dict.fromkeys(name for one in rounds for name in one.columns)
    tables = {name: _by_sender(rounds, name, num_devices=num_devices) for name in names}
    numbers = {name: np.array([one.numbers.get(name, np.nan) for one in rounds]) for name in rounds[0].numbers}
    result = TrialResult(
        trial=0,
        metrics={},
        rounds={"train_loss": np.zeros(len(rounds)), **numbers},
        link={name: table for name, table in tables.items() if name in LINK_COUNTS},
        devices={name: table for name, table in tables.items() if name not in LINK_COUNTS},
    )
    account = fedavg_account(app, result, link=link, privacy=privacy, num_values=num_values)
    if account is None:
        return None
    trained = () if privacy is None or privacy.for_uploads is None else (TRAINED,)
    ledger = replace(account.ledger, sampled=None, assumptions=(*account.ledger.assumptions, *trained))
    return replace(account, ledger=ledger)


def _by_sender(rounds: Sequence[RoundOfClients], name: str, *, num_devices: int) -> NDArray[Any]:
    """One column of all rounds, `[num_rounds, num_devices]`; 0 for a count of who did not send, else NaN."""
    found = [one.columns.get(name) for one in rounds]
    kind = np.result_type(*(one.dtype for one in found if one is not None))
    table = np.full((len(rounds), num_devices), 0 if kind.kind in "iub" else np.nan, kind)
    for row, (one, values) in enumerate(zip(rounds, found, strict=True)):
        if values is not None:
            table[row, one.columns["sender"]] = values
    return table


_ROUND, _LOG = "flower-", "log-"


class FlowerStore(Store):
    """Run folder of a Flower app: each transmission is a task, and so is each call of `AirGrid.log`."""

    study = "flower"

    @classmethod
    def begin(cls, folder: Path, *, root: Mapping[str, Any]) -> Self:
        """Return a new run folder with its settings; ScenarioError for a folder that holds rounds."""
        store = cls.open(folder, scenario_name=root["name"])
        if store.tasks:
            store.close()
            problem, remedy = f"holds {plural(len(store.tasks), 'round')} of an earlier run", "choose a new folder"
            raise ScenarioError(key="out", value=str(folder), problem=problem, remedy=remedy)
        store.save_scenario(yaml=as_yaml(dict(root)), root=root)
        store.record_run(collect_provenance())
        return store

    def keep(self, measured: RoundOfClients) -> None:
        """Store a transmission; the run may end after each."""
        columns = {
            name: one.astype(np.int64 if one.dtype.kind in "iub" else np.float64)[None]
            for name, one in measured.columns.items()
        }
        batch = Batch(ids=[f"{_ROUND}{measured.index:08d}"], numbers=[measured.index], seconds=0.0)
        nodes = [str(node) for node in measured.nodes]
        self.add(Row(batch=batch), {"nodes": nodes, "numbers": measured.numbers, "link": columns})
        self.finish_run(len(self.runs))

    def log(self, metrics: Mapping[str, float], *, after_round: int) -> None:
        """Store metrics that the app has measured after a round, 0 before the first; later values replace earlier."""
        number = sum(one.startswith(_LOG) for one in self.tasks)
        batch = Batch(ids=[f"{_LOG}{number:08d}"], numbers=[number], seconds=0.0)
        self.add(Row(batch=batch), {"round": after_round, "logged": dict(metrics)})
        self.finish_run(len(self.runs))

    def logged(self) -> dict[str, dict[int, float]]:
        """Return name: round: value of all metrics that the app has logged."""
        found: dict[str, dict[int, float]] = {}
        for task_id in (one for one in self.tasks if one.startswith(_LOG)):
            task = self.tasks[task_id]
            for name, value in self.read(task, "logged").items():
                found.setdefault(name, {})[int(self.read(task, "round"))] = float(value)
        return {name: dict(sorted(values.items())) for name, values in found.items()}

    @property
    def round_ids(self) -> list[str]:
        """Identities of the stored transmissions."""
        return [one for one in self.tasks if one.startswith(_ROUND)]

    def read_accounts(self, task_ids: Iterable[str]) -> dict[str, PrivacyAccount]:
        """Return the account of all rounds under the first of these tasks; empty if nothing was sent."""
        account = account_of(stored_scenario(self).scenario, list(self.rounds()))
        return {} if account is None else {next(iter(task_ids)): account}

    def rounds(self) -> Iterator[RoundOfClients]:
        """Yield all stored transmissions."""
        for task_id, columns in self.read_series(self.round_ids, "link").items():
            task = self.tasks[task_id]
            nodes = tuple(int(node) for node in self.read(task, "nodes"))
            yield RoundOfClients(index=task.trial, nodes=nodes, columns=columns, numbers=self.read(task, "numbers"))
