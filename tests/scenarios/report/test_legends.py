"""Legends, ticks and heads say what tells things apart, in words, and no more than fits."""

from __future__ import annotations

from itertools import pairwise

import pytest
from fake_runs import make_plan

from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.report.figures.curves import NONE_OF_THESE, arrange
from scenarios.report.figures.draw import WIDEST, draw
from scenarios.report.figures.drawing import Drawing
from scenarios.report.figures.style import log_ticks
from scenarios.report.settings import setting_in_words
from scenarios.report.tables.summaries import Mean, PointSummary
from scenarios.schema.labels.labels import axis_label, format_value, setting_label
from scenarios.schema.loader import load_scenario
from scenarios.schema.schema import FigureConfig

SNR, SLOPE, EPSILON = "link.power.snr_max_db", "learning.quantizer_slope", "privacy.epsilon"


def arranged(config: FigureConfig, plan: Plan) -> Drawing:
    mean = Mean(mean=1.0, low=0.9, high=1.1, trials=20)
    return arrange(config, plan, [PointSummary(point=p, done=20, failed=0, metrics={"mse": mean}) for p in plan.points])


def labels_of(drawing: Drawing) -> list[str]:
    return [curve.label for _, curves in drawing.panels for curve in curves]


# --- legends --------------------------------------------------------------------------------------


def test_a_legend_names_no_setting_that_tells_nothing_more_apart() -> None:
    settings = [
        {SNR: snr, "label": label, EPSILON: epsilon, SLOPE: epsilon / 10.0}
        for label in ("first", "second")
        for epsilon in (1.0, 5.0)
        for snr in (0.0, 10.0)
    ]
    drawing = arranged(FigureConfig(x=SNR, y="mse", series="label"), make_plan(settings, trials=20))
    assert labels_of(drawing) == ["first, ε = 1", "first, ε = 5", "second, ε = 1", "second, ε = 5"]


def test_a_failed_sweep_point_leaves_the_series_their_order_and_looks() -> None:
    settings = [{EPSILON: e, "label": label} for e in (1.0, 5.0) for label in ("first", "second", "third")]
    plan, mean = make_plan(settings, trials=20), Mean(mean=1.0, low=0.9, high=1.1, trials=20)
    bad = (0, 2, 5)  # the first point of `first`, and all of `third`
    summaries = [
        PointSummary(point=p, done=0, failed=20)
        if p.index in bad
        else PointSummary(point=p, done=20, failed=0, metrics={"mse": mean})
        for p in plan.points
    ]
    drawing = arrange(FigureConfig(x=EPSILON, y="mse", series="label"), plan, summaries)
    assert [(curve.label, curve.series) for curve in drawing.panels[0][1]] == [("first", 0), ("second", 1)]
    assert "Not drawn, because every trial failed: 3 of the sweep points." in drawing.caption


def test_values_of_the_same_words_are_told_apart_by_another_setting() -> None:
    settings = [{SLOPE: 0.1 + step * 1e-6, EPSILON: 1.0 + step, SNR: snr} for step in (0, 1) for snr in (0.0, 10.0)]
    drawing = arranged(FigureConfig(x=SNR, y="mse"), make_plan(settings, trials=20))
    assert labels_of(drawing) == ["a = 0.1, ε = 1", "a = 0.1, ε = 2"]


def test_a_curve_no_series_speaks_of_has_a_name_among_others_and_none_alone() -> None:
    config = FigureConfig(x=SNR, y="mse", series="label")
    settings = [{SNR: snr, "label": label} for label in ("named", "") for snr in (0.0, 10.0)]
    drawing = arranged(config, make_plan(settings, trials=20))
    assert labels_of(drawing) == ["named", NONE_OF_THESE]
    assert [text.get_text() for text in draw(drawing).legends[0].get_texts()] == ["named", NONE_OF_THESE]
    alone = arranged(config, make_plan(settings[2:], trials=20))
    assert labels_of(alone) == [""]
    assert draw(alone).legends == []


@pytest.mark.parametrize("count", [2, 8, 14])
def test_curves_over_words_stand_side_by_side_and_nearer_to_their_word_than_to_the_next(count: int) -> None:
    settings = [{"learning.scheme": word, EPSILON: 1.0 + e} for e in range(count) for word in ("digital", "analog")]
    drawing = arranged(FigureConfig(x="learning.scheme", y="mse", series=EPSILON), make_plan(settings, trials=20))
    axes = draw(drawing).axes[0]
    places = sorted(float(container[0].get_xdata()[0]) for container in axes.containers)
    assert len(places) == count
    assert all(b - a > 0.05 for a, b in pairwise(places))
    assert -0.45 < places[0] < 0.0 < places[-1] < 0.45


def test_a_figure_of_many_curves_over_many_words_is_wide_and_parts_the_words_by_lines() -> None:
    config = FigureConfig(x="label", y="mse", series=EPSILON)
    few, many = (
        draw(arranged(config, make_plan([{"label": w, EPSILON: 1.0 + e} for e in range(n) for w in words], trials=20)))
        for n, words in ((2, "ab"), (8, "abcdefgh"))
    )
    assert few.get_figwidth() < 7.0 < many.get_figwidth() <= WIDEST
    assert many.axes[0].get_xticks(minor=True).tolist() == [0.5 + gap for gap in range(7)]
    many.draw_without_rendering()
    pixels = [bars[0].get_transform().transform(bars[0].get_xydata())[:, 0] for bars in many.axes[0].containers]
    assert min(right[0] - left[0] for left, right in pairwise(pixels)) > 0.08 * many.dpi


# --- ticks ----------------------------------------------------------------------------------------


def test_numbers_below_a_crowded_axis_do_not_touch_and_the_last_is_there() -> None:
    path = "seed"
    values = (10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 1_280_000)
    settings = [{path: value, EPSILON: e} for value in values for e in (1.0, 2.0, 3.0)]
    config = FigureConfig(x=path, y="mse", panels=EPSILON, x_scale="log")
    figure = draw(arranged(config, make_plan(settings, trials=20)))
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert len(axes.get_xticks()) == len(values)
        shown = [text for text in axes.get_xticklabels() if text.get_text()]
        assert [shown[0].get_text(), shown[-1].get_text()] == ["10,000", "1,280,000"]
        assert len(shown) >= 3
        boxes = [text.get_window_extent() for text in shown]
        assert all(left.x1 + 2 < right.x0 for left, right in pairwise(boxes))


def test_numbers_below_a_wide_axis_are_all_there() -> None:
    assert log_ticks([0.3, 1, 3, 10], width=5.4) == ["0.3", "1", "3", "10"]
    assert log_ticks([7], width=1.0) == ["7"]
    assert log_ticks([1, 1.01, 100], width=2.0) == ["1", "", "100"]


@pytest.mark.parametrize(("number", "said"), [(1e-5, "1e-5"), (2.5e-12, "2.5e-12"), (1e6, "1e6"), (0.001, "0.001")])
def test_powers_of_ten_have_no_idle_digits(number: float, said: str) -> None:
    assert format_value(number) == said


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("link.channel", "channel"),
        ("learning.local", "local training"),
        ("link.ofdm.subcarrier_spacing_hz", "ofdm subcarrier spacing [Hz]"),
        ("link.ofdm.num_subcarriers", "ofdm number of subcarriers"),
        ("learning.downlink.power.snr_max_db", "downlink: maximum P₀/N₀, N₀ per real dimension [dB]"),
        ("learning.downlink.channel.cell.radius_m", "downlink: channel cell radius [m]"),
    ],
)
def test_every_path_has_a_head_in_words(path: str, label: str) -> None:
    assert axis_label(path) == label


def test_a_key_of_no_section_is_called_by_its_own_name() -> None:
    assert axis_label("seed") == "seed"


@pytest.mark.parametrize(
    ("model", "said"), [("error_free", "no bit errors"), ("measured", "measured errors"), ("iid", "independent errors")]
)
def test_models_of_errors_are_said_in_words(model: str, said: str) -> None:
    assert setting_label("link.error_model", model) == said


def test_a_dollar_stays_one_where_there_is_no_mathematics() -> None:
    assert setting_label("label", "costs $5") == "costs $5"
    assert setting_label(SNR, 20.0) == "P₀/N₀ = 20 dB"


def test_an_estimator_is_named_even_where_it_is_the_one_by_default() -> None:
    assert setting_label("link.csi", {"estimator": "ls"}) == "LS estimate"
    assert setting_label("link.csi", {"estimator": "lmmse"}) == "LMMSE estimate"


def test_a_key_that_two_schemes_share_with_one_value_is_in_no_label() -> None:
    cpa, probit = {"name": "cpa", "confidence": 0.99, "gamma": 0.2}, {"name": "probit", "confidence": 0.99}
    scheme = "learning.aggregation"
    assert "confidence = 0.99" in setting_label(scheme, cpa)
    alike = setting_label(scheme, cpa, beside=[cpa, probit])
    assert ("confidence" in alike, "γ = 0.2" in alike) == (False, True)
    other = {**probit, "confidence": 0.9}
    assert "confidence = 0.99" in setting_label(scheme, cpa, beside=[cpa, other])
    assert "confidence = 0.99" in setting_label(scheme, cpa, beside=[cpa, {"name": "mean"}])


def test_a_sweep_point_is_named_once() -> None:
    document = {"name": "a", "sweep": {"zip": {"label": ["A", "B"], "link.power.snr_max_db": [0, 10]}}}
    plan = expand(load_scenario(document))
    assert [setting_in_words(plan, point) for point in plan.points] == ["A", "B"]
