"""What a `tune:` section asks for: candidates, choices, metric and rounds; and the ordinary scenario that computes it.

Candidates are computed on seeds of their own, see `tuning_seed`, and compared on validation data. Candidates of a swept
key take the place of its swept values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import Field, ValidationError

from fl.algorithms.learning import Learning
from fl.base.fields import Frozen
from fl.base.measured import LINK_RATES, Measured, joined
from phy.config.conflict import flow, listing
from scenarios.plan.plan import expand, sweep_axes
from scenarios.plan.points import Plan, swept_keys
from scenarios.report.tables.quantities import sense
from scenarios.schema.errors import KeyPath, Mark, ScenarioError, mark_of, together
from scenarios.schema.labels.labels import axis_label, setting_label
from scenarios.schema.loader import LoadedScenario, validated
from scenarios.schema.messages.nearest import nearest_words
from scenarios.schema.schema import Axis, TuneConfig
from scenarios.schema.schema_keys import in_dots, keys_within, meant_key, schema_keys
from scenarios.studies.link.plan import expand_link, of_link

SEEDS = 1 << 63
ROUNDS, BURN_IN = "learning.rounds", "learning.burn_in"
VALIDATION = "validation_accuracy"
OF_NUMBERS = "validation_rmse"
ON_TEST_IMAGES: dict[str, tuple[str, Literal["best", "last"]]] = {
    "test_accuracy": (VALIDATION, "last"),
    "best_accuracy": (VALIDATION, "best"),
    "validated_accuracy": (VALIDATION, "best"),
    "test_rmse": (OF_NUMBERS, "last"),
    "best_rmse": (OF_NUMBERS, "best"),
}
"""Scores on test samples: which score on validation samples stands for each, of the last round or the best."""
EXAMPLE = "tune: {keys: {learning.local.learning_rate: [0.01, 0.1, 1.0]}}"

Settings = Mapping[str, Any]
"""Dotted paths and values."""


def tuning_seed(seed: int) -> int:
    """Return the seed of a search: `seed` with its highest bit, 2^63, inverted. No run with `seed` draws from it."""
    return seed ^ SEEDS


class Steps(Frozen):
    """`steps` values from `start` to `stop`, both among them, at equal distances or at equal ratios (log)."""

    start: Annotated[float, Field(allow_inf_nan=False)]
    stop: Annotated[float, Field(allow_inf_nan=False)]
    steps: Annotated[int, Field(ge=2, le=1000, strict=True)]
    scale: Literal["linear", "log"] = "linear"

    def listed(self) -> list[float]:
        """The values, of six digits; none for the logarithm of a number that is not positive."""
        if self.scale == "log" and min(self.start, self.stop) <= 0:
            return []
        space = np.geomspace if self.scale == "log" else np.linspace
        return [float(f"{value:.6g}") for value in space(self.start, self.stop, self.steps)]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric by which candidates are compared; `of`: the number of a trial, of its best or last round, or a rate."""

    name: str
    of: Literal["trial", "best", "last", "rate"]
    better: int

    @property
    def words(self) -> str:
        """Name and unit, with the round."""
        return axis_label(self.name) + {"best": ", best round", "last": ", last round"}.get(self.of, "")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One choice among the candidates: `settings` of the axes that it is made per, in a block of the sweep.

    `others`: the other axes of the block, over whose points the metric is averaged, each as lists by path.
    """

    block: int
    settings: dict[str, Any]
    others: tuple[dict[str, list[Any]], ...]

    @property
    def words(self) -> str:
        """The settings in words, or the label alone."""
        label = self.settings.get("label")
        words = [setting_label(path, value) for path, value in self.settings.items()]
        return str(label) if label else ", ".join(filter(None, words)) or "all sweep points"


@dataclass(frozen=True, kw_only=True)
class Block:
    """A block of the derived sweep: the `candidates` of one choice, for `rounds`."""

    choice: Choice
    candidates: tuple[Settings, ...]
    rounds: int | None

    def groups(self, learning: Learning) -> list[dict[str, list[Any]]]:
        """The axes of the block; burn-in keeps its share of the rounds of `learning`."""
        found: list[dict[str, list[Any]]] = [{path: [value]} for path, value in self.choice.settings.items()]
        found += [*self.choice.others, {path: [one[path] for one in self.candidates] for path in self.candidates[0]}]
        if self.rounds is not None:
            found.append({ROUNDS: [self.rounds]})
            if (burn_in := getattr(learning, "burn_in", None)) is not None:
                found.append({BURN_IN: [burn_in * self.rounds // learning.rounds]})
        return found

    @property
    def num_points(self) -> int:
        """Sweep points of the block."""
        return len(self.candidates) * prod(len(next(iter(one.values()))) for one in self.choice.others)


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """A checked search; `loaded` is the scenario whose keys are tuned, `links` tells that it measures links alone."""

    loaded: LoadedScenario
    links: bool
    choices: tuple[Choice, ...]
    candidates: tuple[Settings, ...]
    metric: Metric

    @property
    def config(self) -> TuneConfig:
        """The section `tune`."""
        assert self.loaded.scenario.tune is not None
        return self.loaded.scenario.tune

    @property
    def name(self) -> str:
        """Name of the derived scenario and of its folder."""
        return f"{self.loaded.scenario.name[:75]}-tune"

    @cached_property
    def stages(self) -> tuple[int | None, ...]:
        """Rounds of each stage of successive halving; one stage of all rounds, None, for a grid."""
        halving, rounds = self.config.halving, self.loaded.scenario.learning.rounds
        if halving is None:
            return (None,)
        found = [halving.start]
        while found[-1] * halving.factor**2 <= rounds:
            found.append(found[-1] * halving.factor)
        return (*found, rounds)

    def first(self) -> list[Block]:
        """All candidates of every choice, at the first stage."""
        return [Block(choice=one, candidates=self.candidates, rounds=self.stages[0]) for one in self.choices]

    def derived(self, entries: Sequence[Block]) -> LoadedScenario:
        """Return the scenario that computes `entries`; ScenarioError for candidates that are no valid sweep points."""
        loaded, written = self.loaded, self._written()
        others = ("tune", "report", "sweep", "stop")
        document = {key: value for key, value in loaded.document.items() if key not in others}
        marks = {at: mark for at, mark in loaded.marks.items() if at[:1] not in {(one,) for one in others}}
        blocks = [block_of(one.groups(loaded.scenario.learning)) for one in entries]
        marks |= {at: written[path] for at in swept_keys(blocks) if (path := str(at[-1])) in written}
        document |= {
            "name": self.name,
            "description": f"Candidates of the tuning of {loaded.scenario.name}, compared by {self.metric.words}.",
            "seed": tuning_seed(loaded.scenario.seed),
            "trials": self.config.trials,
            "sweep": blocks,
        }
        return validated(deepcopy(document), marks, loaded.source)

    def _written(self) -> dict[str, Mark]:
        """Where each path of a derived sweep stands in the files."""
        places: dict[str, KeyPath] = {str(at[-1]): at for at in swept_keys(self.loaded.document.get("sweep"))}
        places |= {path: ("tune", "halving") for path in (ROUNDS, BURN_IN) if self.config.halving is not None}
        places |= {path: ("tune", "keys", path) for path in self.config.keys}
        marks = {path: mark_of(at, self.loaded.marks) for path, at in places.items()}
        return {path: Mark(file or self.loaded.source, line) for path, (file, line) in marks.items()}


def block_of(groups: Sequence[dict[str, list[Any]]]) -> dict[str, Any]:
    """Return a block of a sweep with these axes: paths that step together are zipped."""
    zips = [group for group in groups if len(group) > 1]
    block = {path: values for group in groups if len(group) == 1 for path, values in group.items()}
    return {**block, **({"zip": zips} if zips else {})}


def _swept(loaded: LoadedScenario) -> list[str]:
    """Every swept path once, in order."""
    return [*dict.fromkeys(str(at[-1]) for at in swept_keys(loaded.document.get("sweep")))]


def _unswept(loaded: LoadedScenario, keys: Collection[str]) -> LoadedScenario:
    """The scenario without swept values of `keys`, whose place the candidates take."""
    found = [at for at in swept_keys(loaded.document.get("sweep")) if at[-1] in keys]
    if not found:
        return loaded
    document = deepcopy(loaded.document)
    for *place, path in found:
        group: Any = document
        for key in place:
            group = group[key]
        del group[path]
        if "zip" in place:
            _drop_repeated_steps(group)
    return _distinct(validated(document, loaded.marks, loaded.source))


def _drop_repeated_steps(group: dict[str, list[Any]]) -> None:
    """Leave each step of paths that step together once, under whatever label: steps differed in a key now tuned."""
    length = max(map(len, group.values()), default=0)
    steps = [flow({path: values[at] for path, values in group.items() if path != "label"}) for at in range(length)]
    first = [at for at, step in enumerate(steps) if step not in steps[:at]]
    for path, values in group.items():
        group[path] = [values[at] for at in first]


def _distinct(loaded: LoadedScenario) -> LoadedScenario:
    """The scenario without blocks of the sweep whose points earlier blocks have, under whatever labels.

    Blocks may have differed in a swept key that is now tuned.
    """
    sweep, earlier, kept = loaded.document["sweep"], set[frozenset[str]](), []
    if not isinstance(sweep, list):
        return loaded
    for block, axes in zip(sweep, sweep_axes(loaded), strict=True):
        points = {
            frozenset(f"{one.path}: {flow(one.value)}" for step in steps for one in step if one.path != "label")
            for steps in product(*axes)
        }
        if not points <= earlier:
            kept.append(block)
        earlier |= points
    if len(kept) == len(sweep):
        return loaded
    marks = {at: mark for at, mark in loaded.marks.items() if at[:1] != ("sweep",)}
    return validated({**loaded.document, "sweep": kept}, marks, loaded.source)


def plan_tuning(loaded: LoadedScenario) -> Tuning:
    """Return the search that a scenario asks for.

    Raises ScenarioError without a `tune:` section, for keys that cannot be tuned, for a metric that is not measured or
    of which no validation data are held out, and for candidates that are no valid sweep points.
    """
    config = loaded.scenario.tune
    if config is None:
        problem = "phyloop tune needs a tune: section, and this scenario has none"
        raise ScenarioError(problem=problem, remedy=f"add for example {EXAMPLE}", file=loaded.source)
    loaded = _unswept(loaded, config.keys)
    links = loaded.scenario.measure is not None and "learning" not in loaded.document
    loaded = of_link(loaded) if links else loaded
    plan = expand_link(loaded) if links else expand(loaded)
    candidates, metric = _candidates(loaded, config), _metric(loaded, config, plan if isinstance(plan, Plan) else None)
    if config.halving is not None:
        _check_halving(loaded, config, links=links)
    choices = _choices(loaded, config)
    found = Tuning(loaded=loaded, links=links, choices=choices, candidates=candidates, metric=metric)
    (expand_link if links else expand)(found.derived(found.first()))
    return found


def _candidates(loaded: LoadedScenario, config: TuneConfig) -> tuple[Settings, ...]:
    swept = _swept(loaded)
    tunable = (one for one in keys_within(loaded.document) if not schema_keys()[one].indexed)
    known = [one for one in tunable if one.startswith(("link.", "learning.", "privacy.", "measure."))]
    values: dict[str, list[Any]] = {}
    errors = []
    for path, written in config.keys.items():
        at: KeyPath = ("tune", "keys", path)
        other = next((one for one in swept if one.startswith(f"{path}.") or path.startswith(f"{one}.")), "")
        if path not in schema_keys() or schema_keys()[path].indexed:
            problem, remedy = "names no key of a scenario", meant_key(path, among=known).remedy
        elif path not in (inside := in_dots({path: written})):
            problem = "names a section, and a key is tuned by its dotted path"
            remedy = f"write {' and '.join(f'{key}: {flow(one)}' for key, one in inside.items())} in place of {path}"
        elif other:
            problem = f"is tuned and {other} swept, one inside the other"
            remedy = f"leave {other} out of the sweep, or {path} out of tune.keys"
        elif not (listed := _listed(written)):
            problem = "must be a list of candidates, or a range, between positive numbers if scale is log"
            remedy = f"write {path}: [0.01, 0.1, 1.0], or {{start: 0.01, stop: 1, steps: 5, scale: log}}"
        else:
            values[path] = listed
            continue
        errors.append(loaded.error(at, problem, remedy, key=f"tune.keys.{path}"))
    if errors:
        raise together(errors)
    return tuple(dict(zip(values, one, strict=True)) for one in product(*values.values()))


def _listed(written: Any) -> list[Any]:
    """The candidates of a list or a range; none of anything else."""
    if isinstance(written, list | tuple):
        return [*written]
    try:
        return Steps.model_validate(written).listed()
    except ValidationError:
        return []


def _choices(loaded: LoadedScenario, config: TuneConfig) -> tuple[Choice, ...]:
    swept = _swept(loaded)
    for number, path in enumerate(config.per_paths or ()):
        if path not in swept:
            remedy = f"write {listing(swept)}, or []" if swept else "leave it out"
            at: KeyPath = ("tune", "per", number) if isinstance(config.per, tuple) else ("tune", "per")
            raise loaded.error(at, "names no swept path", remedy, key="tune.per", value=path)
    per = set(swept if config.per_paths is None else config.per_paths)
    found = []
    for number, block in enumerate(sweep_axes(loaded)):
        own = [axis for axis in block if per.intersection(setting.path for setting in axis[0])]
        others = tuple(
            {setting.path: [step[place].value for step in axis] for place, setting in enumerate(axis[0])}
            for axis in block
            if axis not in own
        )
        for steps in product(*own):
            settings = {setting.path: setting.value for step in steps for setting in step}
            found.append(Choice(block=number, settings=settings, others=others))
    return tuple(found)


def _metric(loaded: LoadedScenario, config: TuneConfig, plan: Plan | None) -> Metric:
    figures = [one.y for one in loaded.scenario.report.figures if plan is not None or one.x in get_args(Axis)]
    measured = Measured(rates=LINK_RATES[:2])
    if plan is not None:
        measured = joined(point.scenario.learning.measured() for point in plan.points)
    known = (*measured.per_trial, *measured.per_round, *measured.rates)
    learnt = [getattr(point.scenario.learning, "data", None) for point in (plan.points if plan else ())]
    numbers = any(data is not None and data.source is not None and data.described().predicts_numbers for data in learnt)
    if numbers:
        figures = [*figures, "test_rmse"]
    judged = [one for one in (*figures, *measured.per_trial[:1], *measured.rates[:1]) if one in known and sense(one)]
    name = config.metric or next(iter(judged), "")

    def refuse(problem: str, remedy: str) -> ScenarioError:
        return loaded.error(("tune", "metric"), problem, remedy, key="tune.metric", value=name or None)

    if name not in known:
        near = nearest_words(name, known)
        remedy = f"did you mean {listing(near)}" if near else f"write one of {listing(known)}"
        raise refuse("names nothing that is measured" if name else "has no default here", remedy)
    if name == "test_loss":
        held = OF_NUMBERS if numbers else VALIDATION
        raise refuse("is measured on the test set, on which the tuned scenario reports", f"write metric: {held}")
    of: Literal["trial", "best", "last", "rate"] = "trial" if name in measured.per_trial else "last"
    if name in measured.rates:
        of = "rate"
    if name in ON_TEST_IMAGES:
        name, of = ON_TEST_IMAGES[name]
    held_out = name in (VALIDATION, OF_NUMBERS)
    if held_out and not all(getattr(data, "validation_samples", None) for data in learnt):
        noun = "samples" if numbers else "images"
        problem = f"candidates are compared by {name}, and no {noun} are held out for validation"
        remedy = f"write learning.data.validation_samples: 300, or another number of the {noun} to train on"
        raise loaded.error(("tune",), problem, remedy, key="tune")
    better = {"larger": 1, "smaller": -1, None: sense(name)}[config.better]
    if not better:
        raise refuse("may be better where it is larger, or smaller", "write tune.better: larger, or smaller")
    return Metric(name=name, of=of, better=better)


def _check_halving(loaded: LoadedScenario, config: TuneConfig, *, links: bool) -> None:
    def refuse(problem: str, remedy: str, *, at: str = "tune.halving", value: Any = None) -> ScenarioError:
        return loaded.error(tuple(at.split(".")), problem, remedy, value=value)

    assert config.halving is not None
    rounds, start = loaded.scenario.learning.rounds, config.halving.start
    changed = [one for one in (*config.keys, *_swept(loaded)) if one in (ROUNDS, BURN_IN)]
    if links:
        raise refuse("a link study has no rounds", "leave it out: measure.stop ends each point by its errors")
    if changed:
        raise refuse(f"sets the rounds, and {changed[0]} is tuned or swept", f"leave {changed[0]} or halving out")
    if start >= rounds:
        remedy = f"write start: {max(rounds // config.halving.factor, 1)}, or leave halving out"
        raise refuse(f"is no less than {ROUNDS}, {rounds}", remedy, at="tune.halving.start", value=start)


def in_words(candidate: Settings) -> str:
    """A candidate as YAML: `learning.local.learning_rate: 0.1`."""
    return ", ".join(f"{path}: {flow(value)}" for path, value in candidate.items())
