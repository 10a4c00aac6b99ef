"""Figures of a run whose scenario names none, and scales that the data choose."""

from __future__ import annotations

from typing import Any

import pytest
from fake_runs import make_plan

from scenarios.report.figures.learning import MOST_CURVES, default_figures, figures_of
from scenarios.report.figures.style import scale
from scenarios.report.settings import axes_of

SCHEME, SNR, STEP, EPSILON = "learning.scheme", "link.power.snr_max_db", "learning.step_size", "privacy.epsilon"
DEVICES, AGGREGATION = "learning.num_devices", "learning.aggregation"
FEDAVG = {"learning": {"algorithm": "fedavg", "rounds": 3}}
ONE_ROUND = {"learning": {"algorithm": "fedavg", "rounds": 1}}


def drawn(settings: list[dict[str, Any]], *metrics: str, **scenario: Any) -> list[tuple[Any, ...]]:
    plan = make_plan(settings, trials=2, **scenario)
    return [(one.y, one.x, one.series_paths, one.panels) for one in default_figures(plan, metrics or ("mse",))]


def test_a_run_without_a_sweep_has_a_learning_curve() -> None:
    assert drawn([{}]) == [("squared_error", "round", (), None)]
    assert drawn([{}], "test_loss", "test_accuracy", **FEDAVG) == [("test_accuracy", "round", (), None)]


def test_a_single_number_is_drawn_and_a_run_without_a_trial_has_no_figure() -> None:
    assert drawn([{}], "test_accuracy", **ONE_ROUND) == [("test_accuracy", "round", (), None)]
    assert default_figures(make_plan([{SNR: 0}, {SNR: 5}], trials=2), ()) == ()


def test_the_main_metric_goes_over_the_first_axis_of_numbers() -> None:
    settings = [{SCHEME: scheme, SNR: snr} for scheme in ("analog", "digital") for snr in (0, 10)]
    assert drawn(settings) == [
        ("mse", SNR, (SCHEME,), None),
        ("squared_error", "round", (SCHEME, SNR), None),
    ]


def test_words_make_curves_along_the_run_and_bars_if_there_is_one_round() -> None:
    settings = [{"learning.upload": upload} for upload in ("model", "update")]
    assert drawn(settings, "test_accuracy", **FEDAVG) == [("test_accuracy", "round", ("learning.upload",), None)]
    assert drawn(settings, "test_accuracy", **ONE_ROUND) == [("test_accuracy", "learning.upload", (), None)]


def test_too_many_curves_for_one_panel_make_panels_of_the_axis_of_fewest_values() -> None:
    schemes, levels, bounds = ("analog", "digital", "noiseless"), (0, 5, 10), (1, 2, 3, 5)
    settings = [{SCHEME: a, SNR: b, EPSILON: c, "privacy.delta": 0.01} for a in schemes for b in levels for c in bounds]
    assert len(schemes) * len(bounds) > MOST_CURVES
    assert drawn(settings) == [("mse", SNR, (EPSILON,), SCHEME)]


def test_mappings_are_series_also_where_they_come_first() -> None:
    settings = [{AGGREGATION: {"name": name}, SNR: snr} for name in ("mean", "median") for snr in (0, 10)]
    assert drawn(settings, "test_accuracy", **FEDAVG)[0] == ("test_accuracy", SNR, (AGGREGATION,), None)


@pytest.mark.parametrize(
    ("settings", "axes"),
    [
        ([{SCHEME: "analog", STEP: 0.1}, {SCHEME: "digital", STEP: 0.2}], [SCHEME]),
        ([{STEP: 0.1, "label": "a"}, {STEP: 0.2, "label": "b"}], ["label"]),
        ([{SCHEME: "analog", STEP: 0.1}, {SCHEME: "digital", STEP: 0.2}, {SCHEME: "exact", STEP: 0.1}], [SCHEME]),
        ([{SCHEME: "analog", SNR: 0}, {SCHEME: "analog", SNR: 5}, {SCHEME: "exact"}], [SCHEME, SNR]),
        ([{SCHEME: "analog", SNR: 0}, {SCHEME: "analog", SNR: 5}], [SNR]),
    ],
    ids=["zipped", "zipped with a label", "follows another", "another block", "one value"],
)
def test_axes_tell_points_apart(settings: list[dict[str, Any]], axes: list[str]) -> None:
    assert list(axes_of(make_plan(settings, trials=1))) == axes


def test_a_scenario_with_figures_has_those_alone() -> None:
    figures = [{"x": SNR, "y": "mse"}, {"x": "ebno_db", "y": "bit_error_rate"}]
    plan = make_plan([{SNR: 0}, {SNR: 5}], trials=2, report={"figures": figures})
    assert [one.x for one in figures_of(plan, {"mse"})] == [SNR]
    plan = make_plan([{SNR: 0}, {SNR: 5}], trials=2, report={"figures": figures[1:]})
    assert figures_of(plan, {"mse"}) == default_figures(plan, {"mse"})


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("mse", [0.1, 2.9], "linear"),
        ("mse", [0.1, 3.1], "log"),
        ("mean_correlation", [-0.1, 0.001, 10.0], "linear"),
        ("mse", [], "linear"),
        ("bit_error_rate", [0.4, 0.5], "log"),
        ("bit_error_rate", [], "log"),
        (DEVICES, [10, 100, 1000], "log"),
        (SNR, [1.0, 40.0], "linear"),
        ("round", [1, 300], "linear"),
        ("elapsed_s", [0.1, 300.0], "log"),
        ("energy_left_j", [0.001, 1.0], "linear"),
        ("test_accuracy", [0.01, 0.9], "linear"),
    ],
)
def test_an_axis_is_logarithmic_where_a_linear_one_hides_decades(name: str, values: list[float], expected: str) -> None:
    assert scale("auto", name, values) == expected
    assert scale("linear", name, values) == "linear"
    assert scale("log", name, values) == "log"
