"""Seconds and joules of every round: counted on the link, added up, kept, and drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import write_scenario
from fake_runs import make_plan
from learning_run import export, run_plan
from matplotlib.collections import PolyCollection

from fl.algorithms.run import run_trials
from fl.base.results import TrialResult
from scenarios.engine.batch import InProcess
from scenarios.engine.study import Progress
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan, Point
from scenarios.report.check import check_figures
from scenarios.report.figures.curves import arrange
from scenarios.report.figures.draw import draw, write_figures
from scenarios.report.figures.learning import MOST_SPOTS, over_rounds
from scenarios.report.tables.summaries import KEYS, summarise
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.labels import axis_label
from scenarios.schema.loader import load_scenario
from scenarios.schema.schema import FigureConfig
from scenarios.store.store import Store

SNR = "link.power.snr_max_db"

LEARNING = {
    "scheme": "digital-orthogonal",
    "task": {"name": "gaussian-linear", "num_samples": 60, "dimension": 3},
    "num_devices": 4,
    "rounds": 6,
    "burn_in": 2,
    "step_size": 1e-3,
    "lmc_cap": "none",
}


def run(point: Point, trials: tuple[int, ...]) -> list[TrialResult]:
    return run_trials(point.scenario.learning, link=point.scenario.link, privacy=None, seed=7, trials=trials)


def a_plan(*, trials: int, settings: list[dict], **link: object) -> Plan:
    fixed = {"access": "orthogonal", "modulation": "qpsk", "power": {"policy": "fixed", "snr_max_db": 10}}
    return make_plan(settings, trials=trials, learning=LEARNING, link=fixed | link)


def test_a_round_costs_what_its_symbols_cost_and_rounds_add_up() -> None:
    plan = a_plan(trials=3, settings=[{}], bandwidth_hz=1e4)
    for result in run(plan.points[0], (0, 1, 2)):
        # 3 bits are 2 QPSK symbols, 4 devices take turns; |x|^2 = 1, so energy is P0 = 10 W per device and second.
        np.testing.assert_allclose(result.rounds["airtime_s"], 4 * 2 / 1e4, rtol=1e-12)
        np.testing.assert_allclose(result.rounds["energy_j"], 10 * 4 * 2 / 1e4, rtol=1e-5)
        np.testing.assert_array_equal(result.rounds["elapsed_s"], np.cumsum(result.rounds["airtime_s"]))
        np.testing.assert_array_equal(result.rounds["spent_j"], np.cumsum(result.rounds["energy_j"]))
        assert result.metrics["total_airtime_s"] == result.rounds["elapsed_s"][-1]
        assert result.metrics["total_energy_j"] == result.rounds["spent_j"][-1]
        np.testing.assert_array_equal(result.link["energy_j"].sum(axis=1), result.rounds["energy_j"])
        assert "power_db" not in result.link
        assert result.bursts["bits"].tolist() == [18] * 4  # 6 rounds of 3 bits
        assert (result.bursts["in_a_row"][:, 0] == result.link["bit_errors"].sum(axis=0)).all()


def test_what_a_trial_costs_does_not_depend_on_its_batch() -> None:
    plan = a_plan(trials=3, settings=[{}], channel={"fading": "rayleigh"}, power={"policy": "truncated-inversion"})
    (whole, *_), (alone,) = run(plan.points[0], (1, 0, 2)), run(plan.points[0], (1,))
    for part in ("rounds", "link", "bursts"):
        for name, values in getattr(alone, part).items():
            np.testing.assert_array_equal(values, getattr(whole, part)[name], err_msg=name)
    assert whole.metrics == alone.metrics


def test_without_a_radio_nothing_is_spent() -> None:
    plan = a_plan(trials=1, settings=[{}], error_model="error_free")
    (result,) = run(plan.points[0], (0,))
    assert "elapsed_s" not in result.rounds
    assert "total_energy_j" not in result.metrics


# --- curves along a run -----------------------------------------------------------------------------


def a_trial(trial: int, *, rounds: int = 5, silent: bool = False) -> TrialResult:
    """Two devices; trial t takes t + 1 s a round and errs once in 10 bits of device 1."""
    time = np.full(rounds, trial + 1.0)
    shape = (rounds, 2)
    return TrialResult(
        trial=trial,
        metrics={"mse": 1.0},
        rounds={
            "squared_error": np.geomspace(1.0, 0.01, rounds) * (trial + 1),
            "airtime_s": time,
            "elapsed_s": np.cumsum(time),
            "spent_j": 2 * np.cumsum(time),
        },
        link={
            "bits": np.full(shape, 10, np.int64),
            "bit_errors": np.tile(np.array([0, 1], np.int64), (rounds, 1)),
            "snr_db": np.full(shape, np.nan) if silent else np.tile([10.0, 20.0], (rounds, 1)),
            "power_db": np.tile([3.0, 5.0], (rounds, 1)) + np.arange(rounds)[:, None],
        },
    )


def store_runs(folder: Path, plan: Plan, trials: list[TrialResult]) -> None:
    with Store.open(folder, scenario_name="fake") as store:
        for point in plan.points:
            ids = plan.task_ids[point.index]
            store.write({ids[t.trial]: t for t in trials}, physics=point.settings, seconds=1.0)


def along(folder: Path, plan: Plan, config: FigureConfig) -> list:
    with Store.open_existing(folder) as store:
        return list(over_rounds(store, plan, config))


@pytest.fixture
def plan() -> Plan:
    return make_plan([{SNR: 0.0}, {SNR: 10.0}], trials=3)


def test_over_seconds_x_and_y_are_means_over_trials_at_every_round(plan: Plan, tmp_path: Path) -> None:
    failed = TrialResult(trial=2, metrics={}, rounds={"squared_error": np.array([1e9])}, failure="NaN")
    store_runs(tmp_path, plan, [a_trial(0), a_trial(1), failed])
    shown = along(tmp_path, plan, FigureConfig(x="elapsed_s", y="squared_error"))
    assert [point.index for point, _, _ in shown] == [0] * 5 + [1] * 5
    first = [spot for point, _, spot in shown if point.index == 0]
    np.testing.assert_allclose([s.x for s in first], 1.5 * np.arange(1, 6))
    np.testing.assert_allclose([s.y for s in first], 1.5 * np.geomspace(1.0, 0.01, 5))
    assert all(s.n == 2 and s.low is None for s in first)  # a t interval of two trials says nothing


@pytest.mark.parametrize(
    ("link", "uses_per_s"),
    [({"bandwidth_hz": 2e6}, 2e6), ({"ofdm": {"num_subcarriers": 64, "subcarrier_spacing_hz": 15e3}}, 64 * 15e3)],
)
def test_channel_uses_are_seconds_times_bandwidth(link: dict, uses_per_s: float, tmp_path: Path) -> None:
    plan = make_plan([{SNR: 0.0}], trials=1, link=link)
    store_runs(tmp_path, plan, [a_trial(0)])
    shown = along(tmp_path, plan, FigureConfig(x="channel_uses", y="squared_error"))
    np.testing.assert_allclose([spot.x for _, _, spot in shown], uses_per_s * np.arange(1, 6))


def test_a_flat_upload_of_updates_in_the_air_uses_the_channel_once_per_symbol(tmp_path: Path) -> None:
    base = {"algorithm": "fedavg", "data": "digits", "num_devices": 3, "rounds": 2, "aggregation": "mean"}
    uses = []
    for access in ("superposition", "orthogonal"):
        plan = make_plan([{"link.access": access}], trials=1, learning=base, link={"modulation": "auto"})
        store_runs(tmp_path / access, plan, run(plan.points[0], (0,)))
        uses.append([s.x for _, _, s in along(tmp_path / access, plan, FigureConfig(x="channel_uses", y="model_norm"))])
    numbers = 64 * 10 + 10
    np.testing.assert_allclose(uses[0], numbers / 2 * np.arange(1, 3))
    np.testing.assert_allclose(uses[1], 3 * 8 * numbers / 2 * np.arange(1, 3))  # 8 bits a number, 2 bits a symbol


@pytest.mark.parametrize(
    ("x", "budget", "last"), [("elapsed_s", 2.0, (2, 1)), ("elapsed_s", 3.9, (3, 1)), ("channel_uses", 5e6, (5, 2))]
)
def test_within_a_budget_a_number_is_that_of_the_last_round_that_it_pays_for(
    x: str, budget: float, last: tuple[int, int], tmp_path: Path
) -> None:
    # Trials take 1 s and 2 s a round, at a million channel uses a second.
    figure = {"x": x, "y": "squared_error", "budgets": [1e-3, budget], "where": {SNR: 0.0}}
    plan = make_plan([{SNR: 0.0}, {SNR: 10.0}], trials=2, report={"figures": [figure]})
    store_runs(tmp_path, plan, [a_trial(0), a_trial(1)])
    with Store.open_existing(tmp_path) as store:
        first, second = summarise(store, plan)
    name = f"squared_error within {budget:g} {x}"
    expected = [a_trial(t).rounds["squared_error"][rounds - 1] for t, rounds in enumerate(last)]
    assert first.metrics[name].mean == pytest.approx(np.mean(expected))
    assert first.trials[name] == dict(enumerate(expected))
    # Nothing is paid for with a thousandth, and the second point is not in the figure.
    assert set(first.metrics) == {"mse", name}
    assert set(second.metrics) == {"mse"}
    assert axis_label(name).endswith(f"up to {budget:g}")


def test_over_rounds_x_counts_rounds_done_and_rates_are_pooled(plan: Plan, tmp_path: Path) -> None:
    store_runs(tmp_path, plan, [a_trial(0), a_trial(1)])
    spots = [s for _, _, s in along(tmp_path, plan, FigureConfig(x="round", y="bit_error_rate"))][:5]
    assert [s.x for s in spots] == [1, 2, 3, 4, 5]
    assert {s.y for s in spots} == {2 / 40}


def test_every_device_may_have_its_own_curve(plan: Plan, tmp_path: Path) -> None:
    store_runs(tmp_path, plan, [a_trial(0), a_trial(1)])
    config = FigureConfig(x="round", y="power_db", series="device", panels=SNR)
    with Store.open_existing(tmp_path) as store:
        shown = over_rounds(store, plan, config)
        drawing = arrange(config, plan, [], along=lambda _: shown)
    assert [title for title, _ in drawing.panels] == ["P₀/N₀ = 0 dB", "P₀/N₀ = 10 dB"]
    zero, one = drawing.panels[0][1]
    assert (zero.label, one.label) == ("device 0", "device 1")
    assert [s.y for s in zero.spots] == [3, 4, 5, 6, 7]
    assert [s.y for s in one.spots] == [5, 6, 7, 8, 9]
    rates = along(tmp_path, plan, FigureConfig(x="round", y="bit_error_rate", series="device"))
    assert [(word, s.y) for _, word, s in rates[:10:5]] == [("device 0", None), ("device 1", 0.1)]


def test_a_number_that_no_trial_measured_leaves_no_spot(plan: Plan, tmp_path: Path) -> None:
    store_runs(tmp_path, plan, [a_trial(0, silent=True)])
    for y in ("snr_db", "packet_error_rate", "peak_amplitude", "retransmissions"):
        assert along(tmp_path, plan, FigureConfig(x="round", y=y)) == []


def test_a_long_run_is_drawn_at_most_so_finely_and_to_its_end(plan: Plan, tmp_path: Path) -> None:
    store_runs(tmp_path, plan, [a_trial(0, rounds=3000)])
    spots = [s for p, _, s in along(tmp_path, plan, FigureConfig(x="round", y="squared_error")) if p.index == 0]
    assert len(spots) == MOST_SPOTS
    assert (spots[0].x, spots[-1].x) == (1, 3000)


def test_a_learning_curve_over_seconds_is_drawn_with_a_band_and_a_caption(tmp_path: Path) -> None:
    plan = make_plan([{SNR: 0.0}, {SNR: 10.0}], trials=5)
    store_runs(tmp_path, plan, [a_trial(t, rounds=100) for t in range(5)])
    config = FigureConfig(x="elapsed_s", y="squared_error", series=SNR, y_scale="log")
    with Store.open_existing(tmp_path) as store:
        shown = list(over_rounds(store, plan, config))
    drawing = arrange(config, plan, [], along=lambda _: shown)
    axes = draw(drawing).axes[0]
    assert axes.get_xlabel() == "time on the air [s]"
    assert len(axes.get_lines()) == 2
    assert all(len(line.get_xdata()) == 100 for line in axes.get_lines())
    assert sum(isinstance(one, PolyCollection) for one in axes.collections) == 2  # bands
    assert drawing.caption == (
        "Mean over 5 trials after each round, over what these rounds took on average; "
        "shaded: 95 % t interval of the mean. Seed 2022."
    )
    (files,) = write_figures(tmp_path, [drawing])
    assert files.svg.read_bytes().startswith(b"<?xml")
    assert files.title == "squared distance to the posterior mean over time on the air [s]"


@pytest.mark.parametrize(
    ("figure", "sentence"),
    [
        ("{x: rounds, y: mse}", "names no key of a scenario; did you mean round"),
        ("{x: nothing, y: mse}", "names no key of a scenario; write round, channel_uses, elapsed_s or spent_j"),
        ("{x: round, y: mse}", "is no number of one round, which x = round asks for; write one of squared_error"),
        (
            "{x: link.power.snr_max_db, y: squared_error}",
            "is no number of a whole trial, which x = link.power.snr_max_db asks for; write one of mse",
        ),
        ("{x: round, y: nonsense}", "names nothing that is measured; write one of squared_error"),
        (
            "{x: link.power.snr_max_db, y: bit_error_rate, series: device}",
            "tells no curves apart over x = link.power.snr_max_db; set x to round, channel_uses, elapsed_s or spent_j",
        ),
        ("{x: round, y: squared_error, series: device}", "tells no curves of squared_error apart; set y to snr_db"),
        (
            "{x: link.power.snr_max_db, y: mse, budgets: [1]}",
            "need an x along the run, and a y that is one number per round; set x to round, channel_uses",
        ),
        ("{x: round, y: snr_db, budgets: [1]}", "need an x along the run, and a y that is one number per round"),
        ("{x: round, y: snr_db, series: [device, link.nothing]}", "names no key of a scenario"),
    ],
)
def test_a_figure_that_cannot_be_is_refused_before_the_run(figure: str, sentence: str, tmp_path: Path) -> None:
    path = write_scenario(tmp_path, f"name: bad\nreport:\n  figures:\n    - {figure}\n")
    with pytest.raises(ScenarioError) as told:
        check_figures(load_scenario(str(path)))
    assert sentence in str(told.value)
    assert f"{path}:4" in str(told.value)


@pytest.mark.parametrize(
    "figure",
    [
        "{x: round, y: power_db, series: [device, learning.scheme]}",
        "{x: spent_j, y: raw_bit_error_rate}",
        "{x: link.power.snr_max_db, y: total_energy_j}",
    ],
)
def test_figures_along_a_run_are_valid(figure: str, tmp_path: Path) -> None:
    path = write_scenario(tmp_path, f"name: good\nreport:\n  figures:\n    - {figure}\n")
    check_figures(load_scenario(str(path)))


SCENARIO = """\
name: costs
seed: 7
trials: {trials}
link:
  channel: {{fading: rayleigh, gain: 1.0}}
  power: {{policy: fixed}}
learning:
  scheme: digital-orthogonal
  task: {{name: gaussian-linear, num_samples: 60, dimension: 3}}
  num_devices: 4
  rounds: 20
  burn_in: 10
  step_size: 1e-3
  lmc_cap: none
sweep:
  link.power.snr_max_db: [5, 10]
report:
  figures:
    - {{x: elapsed_s, y: squared_error, series: link.power.snr_max_db}}
    - {{x: spent_j, y: bit_error_rate, series: link.power.snr_max_db, y_scale: log}}
"""


def carried_out(folder: Path, *, trials: int) -> dict[str, str]:
    """Run the scenario into `folder`, in this process, and export its tables."""
    loaded = load_scenario(str(write_scenario(folder.parent, SCENARIO.format(trials=trials))))
    plan = expand(loaded)
    run_plan(loaded, plan, folder=folder, engine=InProcess(), progress=Progress())
    paths = export(folder, folder / f"csv{trials}", plan=plan, tables=["all"])
    return {path.name: path.read_text() for path in paths}


@pytest.mark.slow
def test_a_resumed_run_has_the_tables_of_an_undisturbed_one(tmp_path: Path) -> None:
    carried_out(tmp_path / "resumed", trials=2)
    resumed, whole = (carried_out(tmp_path / name, trials=5) for name in ("resumed", "whole"))
    assert set(whole) == {f"{name}.csv" for name in (*KEYS, "curves")}
    assert resumed == whole
    assert "total_energy_j" in whole["metrics.csv"]
    assert "elapsed_s" in whole["rounds.csv"]
    assert len(whole["bursts.csv"].splitlines()) == 1 + 2 * 5 * 4
    names = sorted(path.name for path in (tmp_path / "whole" / "figures").glob("*.svg"))
    assert names == ["01-squared_error.svg", "02-bit_error_rate.svg"]
    for name in names:
        assert (tmp_path / "whole/figures" / name).read_bytes() == (tmp_path / "resumed/figures" / name).read_bytes()
