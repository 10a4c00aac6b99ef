"""The report page and the CSV file of a Flower app over the radio."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from fl.base.measured import PRIVACY
from scenarios.plan.points import Plan, Point
from scenarios.report.figures.draw import write_figures
from scenarios.report.figures.drawing import Curve, Drawing, Spot
from scenarios.report.html import FIGURES, Page, Part, counted, pictures, write_page
from scenarios.report.paths import ReportPaths
from scenarios.report.tables.quantities import RATES
from scenarios.report.tables.summaries import rate_interval
from scenarios.report.tables.table import Table
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.schema import FigureConfig
from scenarios.store.store import Store
from scenarios.studies.flower.store import FlowerStore
from scenarios.studies.folders import stored_scenario


class FlowerStudy:
    """A Flower app in a run folder, for `phyloop report` and `phyloop export`; a command cannot compute it."""

    store = FlowerStore

    def __init__(self, store: FlowerStore) -> None:
        self.ids = store.round_ids or list(store.tasks)
        self.rounds, self.logged = list(store.rounds()), store.logged()
        self.loaded = stored_scenario(store)
        self.scenario = self.loaded.scenario
        self.name = self.scenario.name
        point = Point(index=0, settings={}, scenario=self.scenario)
        self.plan = Plan(points=(point,), swept_paths=(), trials=1, seed=self.scenario.seed)

    @classmethod
    def reload(cls, store: FlowerStore) -> Self:
        """Return the study of a run folder. ScenarioError if it holds no settings."""
        with FlowerStore.open_existing(store.folder) as own:
            return cls(own)

    def write_report(self, folder: Path, store: Store) -> ReportPaths:
        """Draw the figures and write `report.html`."""
        figures = write_figures(folder / FIGURES, self.drawings(store))
        clients = {node for one in self.rounds for node in one.nodes}
        uploads, lost = sum(len(one.nodes) for one in self.rounds), sum(len(one.lost) for one in self.rounds)
        page = Page(
            scenario=self.scenario.model_copy(update={"name": f"Flower app {folder.resolve().name}"}),
            facts=(
                counted(len(self.rounds), "round"),
                counted(len(clients), "client"),
                f"**{uploads}** uploads, **{lost}** of them with a lost packet",
                f"seed **{self.scenario.seed}**",
            ),
            sections={
                "Figures": pictures(figures, numbered=True),
                "Client by client": self._clients(),
                "Requested privacy": self._privacy(),
            },
            command="",
            same="",
            links=[self.scenario.link.resolve_digital()],
        )
        return write_page(folder, page, store=store, figures=figures)

    def rows(self, store: Store) -> tuple[Iterable[Mapping[str, Any]]]:
        """Rows of the table of clients."""
        return ((row for one in self.rounds for row in one.rows()),)

    def drawings(self, store: Store) -> Iterator[Drawing]:
        """Yield the figures."""
        del store  # the rounds are here
        for name in ("bit_error_rate", "packet_error_rate"):
            counts = RATES[name]
            rates = [
                Spot(
                    x=one.index + 1,
                    y=rate.value if rate.errors else None,
                    low=rate.low,
                    high=rate.high,
                    n=rate.total,
                    errors=rate.errors,
                    total=rate.total,
                )
                for one in self.rounds
                if (total := int(one.columns[counts.total].sum()))
                for rate in [rate_interval(errors=int(one.columns[counts.errors].sum()), total=total)]
            ]
            yield _drawing(name, rates, "All clients that sent. Band: 95 % Clopper-Pearson interval of each round.")
        for name, words in (
            ("airtime_s", "Latency of all uploads of a round."),
            ("energy_j", "All clients that sent."),
        ):
            spots = [Spot(x=one.index + 1, y=one.numbers[name]) for one in self.rounds if name in one.numbers]
            yield _drawing(name, spots, words)

        for name, values in self.logged.items():
            yield self.drawing_of(name, values)

    def drawing_of(self, name: str, values: Mapping[int, float]) -> Drawing:
        """Return the figure of a metric that the app has logged."""
        return _drawing(name, [Spot(x=x, y=y) for x, y in values.items()], "As logged by the app, of one run.")

    def _clients(self) -> list[Part]:
        of_node: dict[int, list[dict[str, Any]]] = {}
        for one in self.rounds:
            for row in one.rows():
                of_node.setdefault(row["node_id"], []).append(row)
        heads = ("node id", "sender", "uploads", "lost", "bit error rate", "packet error rate", "airtime [s]")
        rows = sorted(of_node.items(), key=lambda item: item[1][0]["sender"])
        cells = tuple((str(node), str(own[0]["sender"]), *_numbers(own)) for node, own in rows)
        soft = "Rate [95 % Clopper-Pearson interval, which takes errors as independent]."
        return [Part(soft=soft, table=Table(columns=(*heads, "energy [J]"), rows=cells))]

    def _privacy(self) -> list[Part]:
        mechanism = self.scenario.mechanism
        found = {name: value for one in self.rounds for name, value in one.numbers.items() if name in PRIVACY}
        if mechanism is None:
            return []
        rows = [("requested ε", mechanism.asked), *((axis_label(name), f"{found[name]:.4g}") for name in found)]
        soft = "It holds if the clients train as the settings say, which phyloop cannot see."
        return [Part(soft=soft, table=Table(columns=("", " "), rows=tuple(rows), left=("", " ")))]


def _numbers(rows: Sequence[Mapping[str, Any]]) -> Iterator[str | None]:
    def total(name: str) -> float:
        return float(sum(row[name] for row in rows))

    yield str(len(rows))
    yield f"{total('lost'):.0f}"
    for counts in (RATES["bit_error_rate"], RATES["packet_error_rate"]):
        observed = int(total(counts.total))
        yield str(rate_interval(errors=int(total(counts.errors)), total=observed)) if observed else None
    for name in ("airtime_s", "energy_j"):
        yield f"{total(name):.4g}"


def _drawing(name: str, spots: Sequence[Spot], caption: str) -> Drawing:
    config = FigureConfig(x="round", y=name)
    return Drawing(config=config, panels=(("", (Curve(label="", series=0, spots=tuple(spots)),)),), caption=caption)
