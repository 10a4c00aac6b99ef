"""A finished or unfinished learning run: its tables, curves, figures and page, read from its folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, overload

import numpy as np
import pandas as pd

from scenarios.plan.identity import canonical_json
from scenarios.plan.points import value_of
from scenarios.report.check import check_figures
from scenarios.report.figures.curves import Drawing, arrange
from scenarios.report.figures.draw import draw
from scenarios.report.figures.round_curves import over_rounds
from scenarios.report.rows import metrics_rows
from scenarios.report.settings import settings_by_words, words_of
from scenarios.report.tables.quantities import CODED
from scenarios.report.tables.tables import KEYS, PointSummary, summarise
from scenarios.schema.errors import KeyPath, Mark, ScenarioError, listing
from scenarios.schema.labels.labels import plain_label, setting_cell
from scenarios.schema.loader import validate
from scenarios.schema.schema import Axis, FigureConfig, Scenario
from scenarios.store.store import Store
from scenarios.store.trials import table_of
from scenarios.studies.folders import write_report_of
from scenarios.studies.learning import LearningStudy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

Folders = list[str] | list[Path] | tuple[str | Path, ...]

ROWS_SHOWN = 20
"""Sweep points in the representation of a run in a notebook."""


@overload
def load(folder: str | Path) -> Run: ...
@overload
def load(folder: Folders) -> list[Run]: ...
def load(folder: str | Path | Folders) -> Run | list[Run]:
    """Open the folder of a learning run; nothing is computed, and no file is written.

    Args:
        folder: the folder, or several folders. A run may still be writing to it.

    Returns:
        The run, or a list of runs.

    Raises:
        ScenarioError: the folder holds no results, or those of another study.

    Example:
        >>> import phyloop
        >>> _ = phyloop.run("fedavg-digits", trials=1, set={"learning.rounds": 2}, out="runs/digits")
        >>> phyloop.load("runs/digits")
        <phyloop run fedavg-digits in runs/digits: 16 of 16 trials done>
        >>> phyloop.load(["runs/digits", "runs/digits"])[1].name
        'fedavg-digits'
    """
    if not isinstance(folder, str | Path):
        return [load(one) for one in folder]
    path = Path(folder)
    with Store.open_existing(path) as store:
        if (kind := store.identity["study"]) != Store.study:
            problem, remedy = f"holds results of phyloop {kind}", "name the folder of a learning run"
            raise ScenarioError(file=path, problem=problem, remedy=remedy)
        return Run(folder=path, study=LearningStudy.reload(store))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Run:
    """One learning run: a scenario, its sweep points and the trials that are stored of them.

    Tables are read when they are first used, and show what was stored then; `load` reads a folder anew.

    Attributes:
        folder: the folder of the run.
        study: its sweep points (`study.plan`) and the identity of each task.

    Example:
        >>> import phyloop
        >>> run = phyloop.run("fedavg-digits", trials=2, set={"learning.rounds": 2}, out="runs/two")
        >>> run.name, run.planned, run.done, run.failed
        ('fedavg-digits', 32, 32, 0)
        >>> run.metrics[["label", "link.power.snr_max_db", "trial", "test_accuracy"]].shape
        (32, 4)
        >>> run.rounds.groupby("round")["test_accuracy"].mean().round(3).tolist()
        [0.501, 0.661]
        >>> run.link[["trial", "round", "device", "bits", "bit_errors"]].shape
        (1280, 5)
        >>> run.metrics.attrs["labels"]["link.power.snr_max_db"]
        'maximum SNR P₀/N₀ [dB]'
    """

    folder: Path
    study: LearningStudy

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.study.name

    @property
    def scenario(self) -> Scenario:
        """The scenario as the folder keeps it, with every default."""
        return self.study.loaded.scenario

    @property
    def planned(self) -> int:
        """Number of trials of all sweep points."""
        return len(self.study.ids)

    @property
    def done(self) -> int:
        """Number of trials that are stored whole."""
        return self._statuses.count("done")

    @property
    def failed(self) -> int:
        """Number of trials that failed; the report says why."""
        return self._statuses.count("failed")

    # --- tables -----------------------------------------------------------------------------------

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """A row per whole trial: the swept settings, `trial`, and a column per metric, NaN where not measured.

        `attrs["labels"]` has the name and unit of each column, here and in the other tables.
        """
        return self._frame("metrics")

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """A row per trial and round (from 0): the swept settings, and a column per number that a round reports.

        With a radio `airtime_s` [s] and `energy_j` [J] are those of the round, `elapsed_s` and `spent_j` their sums so
        far. Rounds of failed trials count, here and in the other tables.
        """
        return self._frame("rounds")

    @cached_property
    def link(self) -> pd.DataFrame:
        """A row per trial, round and device (from 0): counts of bits and packets, airtime [s], energy [J], SNR [dB].

        Empty where no device is detected on its own.
        """
        return self._frame("link")

    @cached_property
    def devices(self) -> pd.DataFrame:
        """A row per trial, round and device: what learning and privacy report of each device."""
        return self._frame("devices")

    @cached_property
    def privacy(self) -> pd.DataFrame:
        """A row per trial and round: privacy loss of the round; empty without a bound per round. See `epsilon`."""
        return self._frame("privacy")

    def _frame(self, table: str) -> pd.DataFrame:
        """One table of all stored trials, in the order of the plan."""
        paths, keys = self.study.plan.swept_paths, KEYS[table]
        parts: list[dict[str, NDArray[Any]]] = []
        points: list[int] = []
        with Store.open_existing(self.folder) as store:
            for point, ids in enumerate(self.study.task_ids):
                for trials, arrays in _batches(store, ids, table):
                    shape = next(iter(arrays.values())).shape
                    index = np.indices(shape[: len(keys)]).reshape(len(keys), -1)
                    places = {"trial": np.asarray(trials)[index[0]]} | dict(zip(keys[1:], index[1:], strict=True))
                    parts.append(places | {name: array.reshape(-1) for name, array in arrays.items()})
                    points.append(point)
        rows = [len(part["trial"]) for part in parts]
        of_row = np.repeat(np.array(points, int), rows)
        columns: dict[str, Any] = {path: pd.Series(self._settings[path]).take(of_row).array for path in paths}
        for name in dict.fromkeys([*keys, *(name for part in parts for name in part)]):
            missing = (np.full(count, np.nan) for count in rows)
            found = [part.get(name, empty) for part, empty in zip(parts, missing, strict=True)]
            columns[name] = np.concatenate(found) if found else []
        frame = pd.DataFrame(columns)
        for name in CODED.keys() & set(frame.columns):
            codes = frame[name].fillna(-1).astype(int)
            frame[name] = pd.Categorical.from_codes(codes.to_list(), categories=list(CODED[name]))
        frame.attrs["labels"] = {name: plain_label(name) for name in frame.columns}
        return frame

    @cached_property
    def _settings(self) -> dict[str, list[Any]]:
        """Value of each swept path at each sweep point: numbers and words as they are, mappings and lists in words."""
        plan, found = self.study.plan, {}
        for path in plan.swept_paths:
            values = [value_of(point, path) for point in plan.points]
            texts = [canonical_json(value) for value in values]
            words = [setting_cell(path, value) if isinstance(value, dict | list) else value for value in values]
            alike = len({canonical_json(word) for word in words}) < len(set(texts))
            found[path] = texts if alike else words
        return found

    @cached_property
    def _statuses(self) -> list[str]:
        with Store.open_existing(self.folder) as store:
            return list(store.statuses(self.study.ids).values())

    @cached_property
    def _summaries(self) -> tuple[PointSummary, ...]:
        with Store.open_existing(self.folder) as store:
            return summarise(store, self.study.plan, task_ids=self.study.task_ids)

    # --- curves and figures -----------------------------------------------------------------------

    def curve(
        self, y: str, *, x: str, series: str | Sequence[str] = (), where: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """The points of the curves of a figure, as the report draws them.

        Args:
            y: a metric of a trial or an error rate; with x along the run a number of a round.
            x: dotted path of a setting; or `round` (from 1; in the tables from 0), `elapsed_s` or `spent_j`.
            series: paths of which each value has a curve. Paths that are swept besides join them.
            where: settings of the sweep points to keep, path: value or list of values.

        Returns:
            A row per point of a curve: `curve` (its label), x, `mean` over trials with the 95 % interval `low` to
            `high`, and `n` trials. A mean has no interval below five trials. A rate has that of Clopper and Pearson;
            without an error its mean is NaN and `high` the upper limit.

        Raises:
            ScenarioError: there is no such x, y or series.

        Example:
            >>> import phyloop
            >>> run = phyloop.run("fedavg-digits", trials=1, set={"learning.rounds": 2}, out="runs/digits")
            >>> run.curve("test_accuracy", x="link.power.snr_max_db", series="label").columns.tolist()
            ['curve', 'link.power.snr_max_db', 'mean', 'low', 'high', 'n']
            >>> run.curve("test_accuracy", x="round", where={"label": "no radio"})["mean"].round(2).tolist()
            [0.71, 0.84]
        """
        return curve_table(self._drawing_of(y, x=x, series=series, where=where))

    def plot(
        self,
        y: str,
        *,
        x: str,
        series: str | Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        **style: str,
    ) -> Axes:
        """Draw one figure in the style of the report.

        Args:
            y: as in `curve`.
            x: as in `curve`.
            series: as in `curve`.
            where: as in `curve`.
            style: `x_scale` and `y_scale` (`linear` or `log`) and `title`.

        Returns:
            The axes, in a figure of `matplotlib.pyplot`.

        Raises:
            ScenarioError: there is no such x, y, series or style.

        Example:
            >>> import matplotlib, phyloop
            >>> matplotlib.use("agg")
            >>> run = phyloop.run("fedavg-digits", trials=1, set={"learning.rounds": 2}, out="runs/digits")
            >>> axes = run.plot("bit_error_rate", x="link.power.snr_max_db", series="label", y_scale="log")
            >>> axes.get_xlabel(), axes.get_yscale()
            ('maximum SNR $P_0/N_0$ [dB]', 'log')
        """
        from matplotlib import pyplot

        pyplot.draw_if_interactive()  # loads the backend outside of the style, which restores settings at its end
        return draw(self._drawing_of(y, x=x, series=series, where=where, **style), new=pyplot.figure).axes[0]

    def figures(self) -> list[Figure]:
        """Draw the figures of the scenario.

        Returns:
            A matplotlib figure per entry of `report.figures`, in their order, of what is stored now.

        Example:
            >>> import phyloop
            >>> run = phyloop.run("fedavg-digits", trials=1, set={"learning.rounds": 2}, out="runs/digits")
            >>> len(run.figures())
            4
        """
        return [draw(self._drawing(one)) for one in self.scenario.report.figures if one.x not in get_args(Axis)]

    def _drawing(self, config: FigureConfig) -> Drawing:
        """The curves of a figure before they are drawn."""
        plan, ids = self.study.plan, self.study.task_ids
        summaries = () if config.x in ("round", "elapsed_s", "spent_j", "value") else self._summaries
        with Store.open_existing(self.folder) as store:
            return arrange(config, plan, summaries, along=partial(over_rounds, store, plan, ids))

    def _drawing_of(self, y: str, *, where: Mapping[str, Any] | None, **settings: str | Sequence[str]) -> Drawing:
        """The curves of a figure; ScenarioError unless a scenario may have it."""
        loaded, kept = self.study.loaded, settings_by_words(self.study.plan, where or {})
        document = {**loaded.document, "report": {"figures": [{"y": y, "where": kept, **settings}]}}
        marks: dict[KeyPath, Mark] = {(): Mark("figure", None)}
        scenario = validate(document, marks=marks)
        check_figures(replace(loaded, document=document, scenario=scenario, marks=marks))
        drawing = self._drawing(scenario.report.figures[0])
        if not any(curves for _, curves in drawing.panels):
            problem = f"no sweep point {'of these settings ' if where else ''}has measured {y}"
            known = "; ".join(f"{path}: {listing(words_of(self.study.plan, path))}" for path in where or ())
            raise ScenarioError(
                file=self.folder, problem=problem, remedy=f"choose from {known or 'the columns of metrics and rounds'}"
            )
        return drawing

    # --- pages ------------------------------------------------------------------------------------

    def report(self) -> Path:
        """Draw the figures and write the report page again, as `phyloop report` does.

        Returns:
            The path of `report.html` in the folder.

        Raises:
            ScenarioError: the folder cannot be written.

        Example:
            >>> import phyloop
            >>> run = phyloop.run("fedavg-digits", trials=1, set={"learning.rounds": 2}, out="runs/digits")
            >>> run.report().name
            'report.html'
        """
        page = write_report_of(self.study, self.folder).html
        assert page is not None  # a learning run has one
        return page

    def __repr__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"<phyloop run {self.name} in {self.folder}: {self.done} of {self.planned} trials done{failed}>"

    def _repr_html_(self) -> str:
        """A table of the means in a notebook."""
        from html import escape

        table = metrics_rows(self.study.plan, self._summaries)
        means = pd.DataFrame(list(table.rows), columns=list(table.columns)).fillna("")
        shown = means.to_html(index=False, max_rows=ROWS_SHOWN, border=0)
        return f"<p>{escape(repr(self))}<br>Mean over trials [95 % interval]:</p>{shown}"


def curve_table(drawing: Drawing) -> pd.DataFrame:
    """A row per spot of the curves of a drawing, see `Run.curve`."""
    x, y = drawing.config.x, drawing.config.y
    rows = [
        (curve.label, spot.x, spot.y, spot.low, spot.high, spot.n)
        for _, curves in drawing.panels
        for curve in curves
        for spot in curve.spots
    ]
    frame = pd.DataFrame(rows, columns=["curve", x, "mean", "low", "high", "n"])
    frame = frame.astype(dict.fromkeys(("mean", "low", "high"), float))
    frame.attrs["labels"] = {x: plain_label(x), "mean": plain_label(y)}
    return frame


def _batches(store: Store, task_ids: Sequence[str], table: str) -> Iterable[tuple[list[int], dict[str, NDArray[Any]]]]:
    """Trials and arrays `[trials, ...]` by name of each batch that holds some of these tasks; empty ones left out."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for task in store.read_tasks(task_ids).values():
        if table != "metrics" or task.status == "done":
            rows.setdefault(task.batch, []).append((task.trial, task.row))
    for batch, found in rows.items():
        trials, places = map(list, zip(*found, strict=True))
        blob = store.blob(batch)
        arrays = {name: a[places] for name, a in table_of(blob, table, rows=len(blob.about["ids"])).items()}
        if arrays:
            yield trials, arrays
