"""Check the `report:` section before a run: a misspelt metric must not cost an hour."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple, get_args

from fl.algorithms.learning import algorithms
from fl.base.measured import Measured, joined
from fl.base.words import plural
from phy.config.conflict import flow, listing
from scenarios.plan.points import Plan, swept_keys, value_of
from scenarios.report.published import Published, lists_in, of_plan, points_at, words_at
from scenarios.report.tables.quantities import EPSILON, LINK_STUDY, SHARES
from scenarios.schema.errors import KeyPath, ScenarioError, dotted, items_of, mark_of, shorten, together
from scenarios.schema.loader import LoadedScenario
from scenarios.schema.messages.nearest import nearest, nearest_words
from scenarios.schema.schema import Axis, FigureConfig, PublishedConfig, TableConfig
from scenarios.schema.schema_keys import keys_within, meant_key, schema_keys

_WITHOUT = "run without published numbers: --set report.tables=[]"


class _Place(NamedTuple):
    """Where something of the section stands."""

    loaded: LoadedScenario
    at: KeyPath

    def inside(self, *parts: str | int) -> _Place:
        return _Place(self.loaded, (*self.at, *parts))

    def refuse(self, problem: str, remedy: str, value: Any = None) -> ScenarioError:
        return self.loaded.error(self.at, problem, remedy, key=dotted(self.at), value=value)


# --- figures --------------------------------------------------------------------------------------


def check_figures(loaded: LoadedScenario, *, lost: Collection[KeyPath] = ()) -> None:
    """Raise ScenarioError for figures of something that is never measured or set, but for figures of `lost` keys."""
    unknown = {path[:3] for path in lost}
    errors = [
        error
        for number, figure in enumerate(loaded.scenario.report.figures)
        if (at := ("report", "figures", number)) not in unknown
        for error in _of_figure(_Place(loaded, at), figure)
    ]
    if errors:
        raise together(errors)


def _of_figure(place: _Place, figure: FigureConfig) -> Iterator[ScenarioError]:
    loaded = place.loaded
    measures, learns = loaded.scenario.measure is not None, "learning" in loaded.document
    of_link = measures and (not learns or figure.x in get_args(Axis))
    measured = LINK_STUDY if of_link else _measured(loaded)
    axes, rates, of_devices = measured.axes, measured.rates, measured.per_device
    follows = figure.x in axes
    of_trials, of_rounds = measured.per_trial, (*measured.per_round, *of_devices)
    if figure.x == "round" and not of_link:
        of_rounds = (*of_rounds, EPSILON)
    series = figure.series_paths
    settings = [("series", path) for path in series if path != "device"]
    settings += [("panels", figure.panels or "label"), *(("where", path) for path in figure.where)]
    if of_link and not follows:
        yield place.inside("x").refuse("names no axis of a link study", f"write {listing(axes)}", figure.x)
    elif not follows and figure.x in get_args(Axis):
        problem = "is an axis of phyloop link, and the scenario has no measure"
        yield place.inside("x").refuse(problem, "write link.power.snr_max_db, or add measure", figure.x)
    elif not follows:
        settings.append(("x", figure.x))
    if "device" in series:
        # A curve per device needs an x along the run and a y that is known of each device.
        for name, value, known, problem in (
            ("x", figure.x, axes, f"tells no curves apart over x = {figure.x}"),
            ("y", figure.y, (*of_devices, *rates), f"tells no curves of {figure.y} apart"),
        ):
            if value not in known:
                remedy = f"set {name} to {listing(known)}, or leave device out" if known else "leave device out"
                yield place.inside("series").refuse(problem, remedy, "device")
    paths = [path for path in keys_within(loaded.document) if not schema_keys()[path].indexed]
    for name, path in settings:
        if path not in schema_keys():
            along = axes if name == "x" else ()
            near = nearest(path, along, least=0.85) or meant_key(path, among=paths).key
            swept = {at[-1]: None for at in swept_keys(loaded.document.get("sweep"))}
            remedy = f"write {listing([*swept, *along]) or 'the path of a key, and sweep it'}"
            remedy = remedy if near is None else f"did you mean {near}"
            yield place.inside(name).refuse("names no key of a scenario", remedy, path)
    if figure.budgets and (not follows or figure.y not in measured.per_round):
        problem = "need an x along the run, and a y that is one number per round"
        yield place.inside("budgets").refuse(problem, f"set x to {listing(axes)}, or leave budgets out")
    fitting = (*(of_rounds if follows else of_trials), *rates)
    for key, metric in (("y", figure.y), ("beside", figure.beside)):
        if metric is not None and metric not in fitting:
            problem, remedy = "names nothing that is measured", _suggest(metric, fitting)
            if metric in (of_trials if follows else of_rounds):
                whole = "one round" if follows else "a whole trial"
                problem = f"is no number of {whole}, which x = {figure.x} asks for"
            yield place.inside(key).refuse(problem, remedy, metric)


def figure_warnings(loaded: LoadedScenario, plan: Plan) -> Iterator[str]:
    """Yield warnings of figures with one value on their axis, and of those that draw no sweep point."""
    for number, figure in enumerate(loaded.scenario.report.figures):
        place = f"report.figures[{number}]"
        if figure.x in schema_keys() and len({str(value_of(point, figure.x)) for point in plan.points}) < 2:
            yield f"{place}.x: all sweep points have one {figure.x}; sweep it, or write x: round"
        for key, path in [*(("series", one) for one in figure.series_paths), ("panels", figure.panels)]:
            if path in schema_keys() and len({str(value_of(point, path)) for point in plan.points}) < 2:
                yield f"{place}.{key}: all sweep points have one {path}; sweep it, or leave {key} out"
        for path, wanted in figure.where.items():
            if not any(value_of(point, path) in items_of(wanted) for point in plan.points):
                yield f"{place}.where: no sweep point has {path} {shorten(wanted)}; write a value that is swept"


def _measured(loaded: LoadedScenario) -> Measured:
    """What the algorithm of a scenario records; all of them where the sweep names others."""
    swept = {at[-1] for at in swept_keys(loaded.document.get("sweep"))}
    if swept & {"learning", "learning.algorithm"}:
        return joined(one.measured() for one in algorithms.classes())
    return loaded.scenario.learning.measured()


# --- end of trials --------------------------------------------------------------------------------


def check_stop(loaded: LoadedScenario, plan: Plan) -> None:
    """Raise ScenarioError for a rule on a metric that no sweep point measures, or that wants more trials than all."""
    stop = loaded.scenario.stop
    if stop is None:
        return
    metrics = joined(point.scenario.learning.measured() for point in plan.points).per_trial
    if stop.metric not in metrics:
        remedy = _suggest(stop.metric, metrics)
        raise _Place(loaded, ("stop", "metric")).refuse("names no number of a whole trial", remedy, stop.metric)


def stop_warnings(loaded: LoadedScenario) -> Iterator[str]:
    """Yield a warning where a rule can end no sweep point early."""
    stop, trials = loaded.scenario.stop, loaded.scenario.trials
    if stop is not None and stop.min_trials >= trials:
        yield (
            f"stop: every sweep point has all {plural(trials, 'trial')}, because min_trials is {stop.min_trials}; "
            f"raise trials above {stop.min_trials}"
        )


# --- published numbers ----------------------------------------------------------------------------


def check_tables(loaded: LoadedScenario, plan: Plan) -> None:
    """Raise ScenarioError for published numbers of nothing that is measured, or at settings that cannot be.

    A number at another number than those swept is not simulated, and no error; a word that no point has is one.
    """
    metrics = joined(point.scenario.learning.measured() for point in plan.points).per_trial
    for number, config in enumerate(loaded.scenario.report.tables):
        place = _Place(loaded, ("report", "tables", number))
        if config.metric not in metrics:
            remedy = _suggest(config.metric, metrics)
            raise place.inside("metric").refuse("names no number of a whole trial", remedy, config.metric)
        if config.unit == "percent" and config.metric not in SHARES:
            problem = f"{config.metric} is no share, and has no percent"
            raise place.inside("unit").refuse(problem, "leave unit out", config.unit)
        if not config.published:
            raise place.inside("published").refuse("holds no number", "add one, or leave the table out")
        _check_settings(place.inside("at"), config.at, plan)
        for entry, row in enumerate(config.published):
            _check_settings(place.inside("published", entry, "at"), row.at, plan)
            _check_lengths(place.inside("published", entry, "values"), row, {**config.at, **row.at})
        _check_points(place, config, plan)


def _check_settings(place: _Place, at: dict[str, Any], plan: Plan) -> None:
    """Paths that exist, values that can be compared, and words that some point has."""
    known = [path for path, key in schema_keys().items() if not key.indexed]
    for path, value in at.items():
        here = place.inside(path)
        if path not in known:
            raise here.refuse("names no key of a scenario", meant_key(path, among=known).remedy)
        for item in items_of(value):
            if not isinstance(item, str | int | float):
                problem, known_value = "must be a word, a number or a list of them", value_of(plan.points[0], path)
                remedy = f"write for example {flow(known_value)}"
                raise here.refuse(problem, remedy, value)
            words = words_at(plan, path)
            if isinstance(item, str) and item not in words and _is_meant(here, path, plan):
                raise here.refuse(f"no point has {path} {shorten(item)}", _suggest(item, words))


def _is_meant(here: _Place, path: str, plan: Plan) -> bool:
    """Tell if a word was written for this very sweep: by the same file as the sweep, or as the setting itself.

    A file on top of it, or --set, may leave rivals out; their numbers are left out with them.
    """
    setting: KeyPath = ("sweep",) if path in plan.swept_paths else tuple(path.split("."))
    return mark_of(here.at, here.loaded.marks)[0] == mark_of(setting, here.loaded.marks)[0]


def _check_lengths(here: _Place, row: PublishedConfig, at: dict[str, Any]) -> None:
    """Lists among the settings of a row are as long as its values."""
    lists, numbers = lists_in(at), row.numbers
    is_list = row.values == numbers
    if is_list and not lists:
        problem = f"lists {plural(len(numbers), 'number')}, and no setting in at lists where they belong"
        raise here.refuse(problem, "write one number, or list the values of a swept path in at")
    for path, value in lists.items():
        if not is_list:
            problem = f"is one number, and {path} lists {plural(len(value), 'value')}"
            raise here.refuse(problem, "write a list of as many numbers, or one value", row.values)
        if len(value) != len(numbers):
            problem = f"lists {plural(len(numbers), 'number')}, and {path} {plural(len(value), 'value')}"
            raise here.refuse(problem, "make the lists equally long")


def _check_points(place: _Place, config: TableConfig, plan: Plan) -> None:
    """Each number belongs to one point at most, and each point has one number at most."""
    first: dict[int, Published] = {}
    for published in of_plan(config, plan):
        here = place.inside("published", published.row)
        points = points_at(plan, published.at)
        if len(points) > 1:
            values = {path: [value_of(point, path) for point in points] for path in plan.swept_paths}
            apart = [path for path, (one, *others) in values.items() if any(other != one for other in others)]
            problem = f"its settings are those of {len(points)} points"
            raise here.refuse(problem, f"add {listing(apart, last='and')} to at, or {_WITHOUT}")
        for point in points:
            earlier = first.setdefault(point.index, published)
            if earlier is not published:
                problem = f"two numbers, {earlier.value:g} and {published.value:g}, belong to one point"
                raise here.refuse(problem, "keep one of them")


def _suggest(written: object, known: Iterable[str]) -> str:
    """Return the remedy for a word that is not among the known ones."""
    words = list(known)
    if near := nearest_words(written, words):
        return f"did you mean {listing(map(shorten, near))}"
    return f"write one of {listing(words)}" if words else "leave it out"
