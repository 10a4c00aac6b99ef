"""A finished or unfinished learning run: its tables, curves, figures and page, read from its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import pandas as pd

from phy.config.conflict import listing
from phyloop.arguments import checked
from scenarios.report.check import check_figures
from scenarios.report.figures.curves import arrange
from scenarios.report.figures.draw import draw
from scenarios.report.figures.drawing import Drawing, rows_of
from scenarios.report.figures.learning import figures_of, over_rounds
from scenarios.report.rows import metrics_rows
from scenarios.report.settings import settings_by_words, words_of
from scenarios.report.tables.quantities import ROUND_AXES
from scenarios.report.tables.summaries import PointSummary, summarise
from scenarios.schema.errors import KeyPath, Mark, ScenarioError
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.loader import validate
from scenarios.schema.schema import FigureConfig, Scenario
from scenarios.store.store import Store
from scenarios.studies.flower.study import FlowerStudy
from scenarios.studies.folders import study_in, write_report_of
from scenarios.studies.learning import LearningStudy
from scenarios.studies.tables import READERS, read_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from phy.inspection import Inspection
    from scenarios.studies.tables import AnyStudy

Folders = list[str] | list[Path] | tuple[str | Path, ...]

ROWS_SHOWN = 20
"""Rows in the representation of a run in a notebook."""
_UNITS = {"run": "trials", "link": "points", "audit": "points", "flower": "rounds"}
"""What is counted of each kind of study."""


@overload
def load(folder: str | Path) -> Run: ...
@overload
def load(folder: Folders) -> list[Run]: ...
@checked
def load(folder: str | Path | Folders) -> Run | list[Run]:
    """Open the folder of a learning run, a link study, an audit or a Flower app; nothing is computed or written.

    Args:
        folder: the folder, or several folders. A run may still be writing to it.

    Returns:
        The run, or a list of runs.

    Raises:
        ScenarioError: the folder holds no results, or those of reference checks.

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
    study: Any = study_in(Path(folder))
    if (kind := study.store.study) not in _UNITS:
        remedy = "name the folder of a learning run, a link study, an audit or a Flower app"
        raise ScenarioError(file=folder, problem=f"holds results of phyloop {kind}", remedy=remedy)
    return Run(folder=Path(folder), study=study)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Run:
    """A run folder: a scenario, its sweep points and the trials that are stored of them.

    Tables are read when they are first used, and show what was stored then; `load` reads a folder anew. A learning run
    has all tables. A link study has `link`: the rows of `link_study`. An audit has `privacy`: the rows of `audit`. A
    Flower app has `link`, a row per round and client, and `rounds`, and curves over its rounds. Other curves and
    figures are those of a learning run.

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
        'maximum P₀/N₀, N₀ per real dimension [dB]'
    """

    folder: Path
    study: AnyStudy

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.study.name

    @property
    def scenario(self) -> Scenario:
        """The scenario as the folder keeps it, with every default."""
        return self.study.loaded.scenario

    @property
    def _learning(self) -> LearningStudy:
        """The study of a learning run. ScenarioError for another study."""
        if not isinstance(self.study, LearningStudy):
            kind = self.study.store.study
            problem, remedy = f"results of phyloop {kind} have no curves here", "draw them with report()"
            raise ScenarioError(file=self.folder, problem=problem, remedy=remedy)
        return self.study

    @property
    def planned(self) -> int:
        """Number of trials of all sweep points; of a link study or an audit of points, of a Flower app of rounds."""
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
        return read_table(self.study, self.folder, "metrics")

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """A row per trial and round (from 1): the swept settings, and a column per number that a round reports.

        With a radio `airtime_s` [s] and `energy_j` [J] are those of the round, `elapsed_s` and `spent_j` their sums so
        far. Rounds of failed trials count, here and in the other tables.
        """
        return read_table(self.study, self.folder, "rounds")

    @cached_property
    def link(self) -> pd.DataFrame:
        """A row per trial, round (from 1) and device (from 0): counts, airtime [s], energy [J], SNR [dB].

        Empty where no device is detected on its own.
        """
        return read_table(self.study, self.folder, "link")

    @cached_property
    def devices(self) -> pd.DataFrame:
        """A row per trial, round and device: what learning and privacy report of each device."""
        return read_table(self.study, self.folder, "devices")

    @cached_property
    def privacy(self) -> pd.DataFrame:
        """A row per trial and round with its privacy loss; where no round has one, the claims of `epsilon`."""
        return read_table(self.study, self.folder, "privacy")

    @cached_property
    def _statuses(self) -> list[str]:
        with Store.open_existing(self.folder) as store:
            return list(store.statuses(self.study.ids).values())

    @cached_property
    def _summaries(self) -> tuple[PointSummary, ...]:
        with Store.open_existing(self.folder) as store:
            return summarise(store, self._learning.plan)

    # --- curves and figures -----------------------------------------------------------------------

    def curve(
        self, y: str, *, x: str, series: str | Sequence[str] = (), where: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """The points of the curves of a figure, as the report draws them.

        Args:
            y: a metric of a trial or an error rate; with x along the run a number of a round.
            x: dotted path of a setting; or `round`, `channel_uses`, `elapsed_s`, `wall_s` or `spent_j`.
            series: paths of which each value has a curve. Paths that are swept besides join them.
            where: settings of the sweep points to keep, path: value or list of values.

        Returns:
            A row per point of a curve: `series` (its label), x, `mean` over trials with the 95 % interval `low` to
            `high`, and `n` trials. A mean has no interval below five trials. A rate has that of Clopper and Pearson;
            without an error its mean is NaN and `high` the upper limit.

        Raises:
            ScenarioError: there is no such x, y or series.

        Example:
            >>> import phyloop
            >>> run = phyloop.run("fedavg-digits", trials=1, set={"learning.rounds": 2}, out="runs/digits")
            >>> run.curve("test_accuracy", x="link.power.snr_max_db", series="label").columns.tolist()
            ['series', 'link.power.snr_max_db', 'mean', 'low', 'high', 'n']
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
            style: `x_scale` and `y_scale` (`linear`, `log` or `auto`) and `title`.

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
            ('maximum P₀/N₀, N₀ per real dimension [dB]', 'log')
        """
        from matplotlib import pyplot

        pyplot.draw_if_interactive()  # loads the backend outside of the style, which restores settings at its end
        return draw(self._drawing_of(y, x=x, series=series, where=where, **style), new=pyplot.figure).axes[0]

    def figures(self) -> list[Figure]:
        """Draw the figures of the report.

        Returns:
            A matplotlib figure per entry of `report.figures`, in their order, of what is stored now; without entries
            the figures that the report chooses.

        Example:
            >>> import phyloop
            >>> run = phyloop.run("fedavg-digits", trials=1, set={"learning.rounds": 2}, out="runs/digits")
            >>> len(run.figures())
            4
        """
        metrics = {name for summary in self._summaries for name in summary.metrics}
        return [draw(self._drawing(one)) for one in figures_of(self._learning.plan, metrics)]

    def _drawing(self, config: FigureConfig) -> Drawing:
        """The curves of a figure before they are drawn."""
        plan = self._learning.plan
        summaries = () if config.x in ROUND_AXES else self._summaries
        with Store.open_existing(self.folder) as store:
            return arrange(config, plan, summaries, along=partial(over_rounds, store, plan))

    def _drawing_of(self, y: str, *, where: Mapping[str, Any] | None, **settings: str | Sequence[str]) -> Drawing:
        """The curves of a figure; ScenarioError unless a scenario may have it."""
        if isinstance(self.study, FlowerStudy):
            return self._of_flower_app(y, where=where, **settings)
        loaded, plan = self._learning.loaded, self._learning.plan
        kept = settings_by_words(plan, where or {})
        document = {**loaded.document, "report": {"figures": [{"y": y, "where": kept, **settings}]}}
        marks: dict[KeyPath, Mark] = {(): Mark("figure", None)}
        scenario = validate(document, marks=marks)
        check_figures(replace(loaded, document=document, scenario=scenario, marks=marks))
        drawing = self._drawing(scenario.report.figures[0])
        if not any(curves for _, curves in drawing.panels):
            problem = f"no sweep point {'of these settings ' if where else ''}has measured {y}"
            known = "; ".join(f"{path}: {listing(words_of(plan, path))}" for path in where or ())
            raise ScenarioError(
                file=self.folder, problem=problem, remedy=f"choose from {known or 'the columns of metrics and rounds'}"
            )
        return drawing

    def _of_flower_app(
        self, y: str, *, x: str | Sequence[str], where: Mapping[str, Any] | None, **style: str | Sequence[str]
    ) -> Drawing:
        """A figure of a Flower app as its report has it: one curve over the rounds. ScenarioError for another."""
        given = {name: value for name, value in {"where": where, **style}.items() if value}
        with self.study.store.open_existing(self.folder) as store:
            drawings = {one.config.y: one for one in cast("FlowerStudy", self.study).drawings(store)}
        if x != "round" or y not in drawings or given:
            what = f"y {y} over x {x}" + "".join(f", {name} {value}" for name, value in given.items())
            remedy = f"write x: round and y: {listing(drawings)}, and leave out the rest"
            raise ScenarioError(file=self.folder, problem=f"a Flower app has no figure of {what}", remedy=remedy)
        return drawings[y]

    # --- packets of a link ------------------------------------------------------------------------

    @checked
    def inspect(self, *, at: Mapping[str, Any] | None = None, packets: int = 32) -> Inspection:
        """Send the first packets of one point of a link study again, as `phyloop link --inspect` does.

        Args:
            at: swept settings, and values on the axes `ebno_db`, `esno_db` and `snr_db` [dB]. Of several points that
                fit it is the one whose measured bit error rate is nearest to 1e-2.
            packets: number of packets of each device.

        Returns:
            Wrong bits, symbols behind the receiver, and the channel with its estimate, as arrays.

        Raises:
            ScenarioError: the run is no link study; or no point fits; or several fit and none has seen an error; or the
                first batch of the point has fewer packets.

        Example:
            >>> import phyloop
            >>> study = {"name": "look", "link": {"modulation": "qpsk"}, "measure": {"values": [4, 8]}}
            >>> _ = phyloop.link_study(study, max_seconds=0.1, out="runs/look")
            >>> found = phyloop.load("runs/look").inspect(at={"ebno_db": 4}, packets=8)
            >>> found.wrong.shape[:2], found.equalised.shape == found.sent.shape
            ((1, 8), True)
        """
        from scenarios.studies.link.inspection import inspect_point
        from scenarios.studies.link.study import LinkStudy

        if not isinstance(self.study, LinkStudy):
            problem = f"results of phyloop {self.study.store.study} have no packets to inspect"
            raise ScenarioError(file=self.folder, problem=problem, remedy="load the folder of a link study")
        return inspect_point(self.folder, self.study.plan, at=at or {}, num_packets=packets).packets

    # --- pages ------------------------------------------------------------------------------------

    def report(self) -> Path:
        """Draw the figures and write the report page again, as `phyloop report` does.

        Returns:
            The path of `report.html` in the folder; of an audit, which has none, of its figure.

        Raises:
            ScenarioError: the folder cannot be written.

        Example:
            >>> import phyloop
            >>> run = phyloop.run("fedavg-digits", trials=1, set={"learning.rounds": 2}, out="runs/digits")
            >>> run.report().name
            'report.html'
        """
        return write_report_of(cast(Any, self.study), self.folder).files[0]

    def __repr__(self) -> str:
        kind, failed = self.study.store.study, f", {self.failed} failed" if self.failed else ""
        counted = f"{self.done} of {self.planned} {_UNITS[kind]} done{failed}"
        return f"<phyloop {kind} {self.name} in {self.folder}: {counted}>"

    def _repr_html_(self) -> str:
        """A table of the means in a notebook; of another study than a learning run its first table."""
        from html import escape

        if isinstance(self.study, LearningStudy):
            table, what = metrics_rows(self.study.plan, self._summaries), "<br>Mean over trials [95 % interval]:"
            shown = pd.DataFrame(list(table.rows), columns=list(table.columns))
        else:
            shown, what = getattr(self, next(iter(READERS[self.study.store.study]))), ""
        rows = shown.fillna("").to_html(index=False, max_rows=ROWS_SHOWN, border=0)
        return f"<p>{escape(repr(self))}{what}</p>{rows}"


def curve_table(drawing: Drawing) -> pd.DataFrame:
    """A row per spot of the curves of a drawing, see `Run.curve`."""
    x, y = drawing.config.x, drawing.config.y
    rows = [row for row in rows_of(drawing, x=x) if row["quantity"] == y]
    frame = pd.DataFrame(rows, columns=["series", x, "mean", "low", "high", "n"])
    frame = frame.astype(dict.fromkeys(("mean", "low", "high"), float))
    frame.attrs["labels"] = {x: axis_label(x), "mean": axis_label(y)}
    return frame
