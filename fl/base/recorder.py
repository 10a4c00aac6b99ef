"""The recorder: what rounds report, kept until the results of their trials are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F64, I64, Bools
from fl.base.checkpoints import State, kept_number
from fl.base.errors import LearningError
from fl.base.results import CAP_NAMES, LINK_COUNTS, PrivacyAccount, TrialResult
from phy.links.power import AmplitudeDecision
from phy.measure.burstiness import Burstiness
from phy.measure.counts import LinkCounts

Table = Literal["rounds", "link", "devices"]
Columns = Mapping[str, NDArray[Any]]

SPENT = {"airtime_s": "elapsed_s", "energy_j": "spent_j", "round_s": "wall_s"}
"""Costs of every round, and the names of their sums from the first round on."""


class Recorder:
    """Tables of all rounds of trials side by side, filled round by round; one for every algorithm.

    The tables are those of `TrialResult`: a column of `rounds` is `[num_rounds, num_trials]`, one of `link` or of
    `devices` `[num_rounds, num_trials, num_devices]`. Columns stand in the order in which they are noted, `first`
    ones before all others. What was not measured in a round is `unmeasured`, or 0 for counts. A round that was noted
    but not finished is one in which a trial failed after it had sent. `num_senders`: those of the link, if it has
    others than there are devices.
    """

    def __init__(
        self,
        num_rounds: int,
        *,
        num_devices: int,
        num_trials: int = 1,
        num_senders: int | None = None,
        unmeasured: float = float("nan"),
        first: Sequence[str] = (),
    ) -> None:
        self.num_rounds, self._unmeasured = num_rounds, unmeasured
        each = (num_trials, num_devices)
        self._shapes: dict[Table, tuple[int, ...]] = {"rounds": (num_trials,), "link": each, "devices": each}
        self._senders = (num_trials, num_devices if num_senders is None else num_senders)
        self._tables: dict[Table, dict[str, dict[int, NDArray[Any]]]] = {table: {} for table in self._shapes}
        self._first = tuple(first)
        self.rounds_done, self._noted = 0, -1
        self._bursts: Burstiness | None = None

    def note(
        self,
        index: int,
        *,
        rounds: Mapping[str, NDArray[Any] | float] | None = None,
        link: Columns | None = None,
        devices: Columns | None = None,
    ) -> None:
        """Keep values of round `index`: numbers or `[num_trials]`, and `[num_trials, num_devices]`.

        Arrays may not be changed in place after they were noted.
        """
        self._noted = index
        numbers = {
            name: one if isinstance(one, np.ndarray) else np.array([one]) for name, one in (rounds or {}).items()
        }
        noted: dict[Table, Columns] = {"rounds": numbers, "link": link or {}, "devices": devices or {}}
        for table, columns in noted.items():
            dimensions, series = len(self._shapes[table]), self._tables[table]
            for name, values in columns.items():
                series.setdefault(name, {})[index] = values if values.ndim == dimensions else values[None]

    def noted(self, table: Table, name: str, index: int) -> NDArray[Any] | None:
        """Return what was noted of round `index`, None if nothing was."""
        return self._tables[table].get(name, {}).get(index)

    def note_bursts(self, bursts: Burstiness | None) -> None:
        """Add how the errors of a round lie together, if there were bits that may err."""
        if bursts is not None:
            self._bursts = bursts if self._bursts is None else self._bursts + bursts

    def finish(self, index: int) -> None:
        """Count round `index` as done."""
        self.rounds_done = index + 1

    def table(self, table: Table, *, rounds: int | None = None) -> dict[str, NDArray[Any]]:
        """Return the columns up to a round, the last one done if left out."""
        done, series = self.rounds_done if rounds is None else rounds, self._tables[table]
        names = dict.fromkeys((*self._first, *series)) if table == "rounds" else series
        return {name: self._column(series[name], done) for name in names if name in series}

    def _column(self, noted: Mapping[int, NDArray[Any]], rounds: int) -> NDArray[Any]:
        """Return `[rounds, num_trials, ...]`, in memory trial by trial, as results have it."""
        one = next(iter(noted.values()))
        found = np.empty((len(one), rounds, *one.shape[1:]), one.dtype)
        found[:, [index for index in range(rounds) if index not in noted]] = (
            self._unmeasured if one.dtype.kind == "f" else 0
        )
        for index, values in noted.items():
            if index < rounds:
                found[:, index] = values
        return found.swapaxes(0, 1)

    def of_trial(self, table: Table) -> dict[str, NDArray[Any]]:
        """Return the columns of the only trial, without the axis of trials."""
        return {name: values[:, 0] for name, values in self.table(table).items()}

    def state(self) -> State:
        """Return what rounds have left; of the arrays, as many rows as there were rounds."""
        return {
            **{table: self.table(table) for table in self._tables},
            "bursts": None if self._bursts is None else self._bursts.state(),
            "rounds_done": self.rounds_done,
        }

    def restore(self, state: State) -> None:
        """Go on from there. Raises LearningError for the tables of others."""
        self.rounds_done = kept_number(state, "rounds_done", most=self.num_rounds)
        self._noted = self.rounds_done - 1
        for table, shape in self._shapes.items():
            if any(rows.shape != (self.rounds_done, *shape) for rows in state[table].values()):
                raise LearningError(f"{table} holds other trials or devices than {shape}")
            self._tables[table] = {name: dict(enumerate(rows)) for name, rows in state[table].items()}
        bursts = state["bursts"]
        self._bursts = None if bursts is None else Burstiness.restored(bursts, shape=self._senders)

    def results(
        self,
        trials: Sequence[int],
        *,
        metrics: Sequence[Mapping[str, float]],
        failures: Sequence[str | None],
        kept: I64 | None = None,
        sent_last: Bools | None = None,
        more_rounds: Columns | None = None,
        privacy: Columns | None = None,
        account: Callable[[TrialResult], PrivacyAccount | None] = lambda _: None,
        keeps_bursts: bool = True,
    ) -> list[TrialResult]:
        """Return one result per trial; a failed trial has no metrics.

        - `kept` `[num_trials]`: rounds that each trial keeps, left out all that are done;
        - `sent_last` `[num_trials]`: trials that failed in the next round, after they had sent; left out: all, if that
          round was noted. No table counts that round, but the server has its uploads;
        - `more_rounds`, `privacy`: further columns `[num_rounds, num_trials]`, of rounds and for the table of privacy;
        - `account` of a result with that round and with bursts, of all senders of the link;
        - `keeps_bursts`: the senders are devices.
        """
        ended = np.full(len(trials), self.rounds_done) if kept is None else kept
        if sent_last is None:
            sent_last = np.full(len(trials), self._noted >= self.rounds_done)
        longest = min(self._noted + 1, self.num_rounds) if kept is None else self.num_rounds
        tables: dict[str, Columns] = {table: self.table(table, rounds=longest) for table in self._tables}
        tables["rounds"] = {**tables["rounds"], **(more_rounds or {})}
        split = {
            name: of_trials(columns if self.rounds_done else {}, ended=ended)
            for name, columns in {**tables, "privacy": privacy or {}}.items()
        }
        out = []
        for row, trial in enumerate(trials):
            bursts = {} if self._bursts is None else self._bursts.of_trial(row)
            result = TrialResult(
                trial=trial,
                metrics={} if failures[row] else metrics[row],
                rounds=split["rounds"][row],
                link=split["link"][row],
                privacy=split["privacy"][row],
                bursts=bursts if keeps_bursts else {},
                devices=split["devices"][row],
                failure=failures[row],
            )
            sent = replace(result, bursts=bursts)
            if sent_last[row]:
                until = ended[row] + 1
                longer: dict[str, Any] = {
                    table: {name: values[:until, row] for name, values in columns.items()}
                    for table, columns in tables.items()
                }
                sent = replace(sent, **longer)
            out.append(replace(result, account=account(sent)))
        return out


def link_columns(counts: LinkCounts, *, power_db: F64 | None = None) -> dict[str, NDArray[Any]]:
    """Return the columns of the table `link` for one round, `[num_trials, num_senders]` each."""
    columns = {name: getattr(counts, name) for name in LINK_COUNTS}
    return columns if power_db is None else columns | {"power_db": power_db}


def amplitude_columns(decision: AmplitudeDecision) -> dict[str, F64]:
    """Return what power control decided, `[num_trials]` each; `active_cap` as a code of `CAP_NAMES`."""
    codes = np.array([CAP_NAMES.index(name) for name in decision.limit_names] + [0], float)
    return {
        "amplitude": decision.amplitude,
        "peak_amplitude": decision.peak_amplitude,
        "active_cap": codes[decision.limit],
        "num_active": decision.active.sum(axis=1).astype(float),
    }


def with_totals(rounds: Columns) -> dict[str, NDArray[Any]]:
    """Sums over rounds of what each round costs, of columns `[num_rounds, num_trials]`."""
    return {total: np.cumsum(rounds[name], axis=0) for name, total in SPENT.items() if name in rounds}


def of_trials(arrays: Columns, *, ended: I64) -> list[dict[str, NDArray[Any]]]:
    """What each trial keeps of arrays `[num_rounds, num_trials, ...]`: its first `ended` `[num_trials]` rounds."""
    tables = {name: np.ascontiguousarray(np.swapaxes(values, 0, 1)) for name, values in arrays.items()}
    return [{name: values[row, :rounds] for name, values in tables.items()} for row, rounds in enumerate(ended)]
