"""What a caption says is drawn: one value, no error, equal limits, values that an axis cannot have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_runs import make_plan
from matplotlib.axes import Axes
from matplotlib.text import Annotation

from scenarios.plan.points import Point
from scenarios.report.figures.curves import arrange
from scenarios.report.figures.draw import draw
from scenarios.report.figures.drawing import Curve, Drawing, Spot
from scenarios.report.figures.style import render
from scenarios.report.tables.summaries import PointSummary, Rate, mean_interval
from scenarios.schema.schema import FigureConfig

SNR = "link.power.snr_max_db"


def silent(*limits: float, series: int) -> Curve:
    spots = (Spot(x=10.0 * place, y=None, low=0.0, high=high, n=3) for place, high in enumerate(limits))
    return Curve(label=f"curve {series}", series=series, spots=tuple(spots))


def drawn(*curves: Curve, y: str = "bit_error_rate", x: str = SNR) -> Axes:
    figure = draw(Drawing(config=FigureConfig(x=x, y=y), panels=(("", curves),), caption=""))
    figure.draw_without_rendering()
    return figure.axes[0]


def arrows(axes: Axes) -> list[tuple[float, float]]:
    """Where the arrows of upper limits end, in pixels."""
    ends = [(one, one.xycoords) for one in axes.texts if isinstance(one, Annotation)]
    return [tuple(coordinates.transform(one.xy)) for one, coordinates in ends]  # type: ignore[union-attr, misc]


@pytest.mark.parametrize("series", [0, 1, 2, 4])
def test_an_upper_limit_is_a_bar_with_one_arrow_down_whatever_the_marker_of_its_curve(series: int) -> None:
    axes = drawn(silent(1e-3, 2e-3, series=series))
    assert len(arrows(axes)) == 2
    markers = [line.get_marker() for line in axes.lines if len(line.get_xdata())]
    assert markers.count("_") == 2
    assert not any(container.lines[1] for container in axes.containers)  # no caret of an error bar beside it


def test_equal_limits_stand_side_by_side() -> None:
    places = arrows(drawn(silent(1e-3, 1e-3, series=0), silent(1e-3, 2e-3, series=1)))
    xs = sorted(x for x, _ in places)
    assert xs[1] - xs[0] > 5.0  # both at x = 0
    assert xs[3] - xs[2] < 0.5  # other limits at x = 10 need no room


def test_one_value_has_a_bar_and_whole_numbers_of_rounds() -> None:
    spot = Spot(x=1.0, y=0.5, low=0.4, high=0.6, n=3)
    axes = drawn(Curve(label="", series=0, spots=(spot,)), y="test_accuracy", x="round")
    assert len(axes.containers) == 1  # bars
    low, high = axes.get_xlim()
    assert low < 1.0 < high
    assert all(float(tick).is_integer() for tick in axes.get_xticks() if low <= tick <= high)


def summary(point: Point, value: float) -> PointSummary:
    values = {trial: value + 0.01 * trial for trial in range(3)}
    mean = mean_interval(np.array([*values.values()]))
    rate = Rate(errors=0, total=1000, low=0.0, high=3e-3)
    return PointSummary(
        point=point, done=3, failed=0, metrics={"mse": mean}, rates={"bit_error_rate": rate}, trials={"mse": values}
    )


def caption(values: list[float], snrs: list[float], **figure: Any) -> str:
    plan = make_plan([{SNR: snr} for snr in snrs], trials=3)
    summaries = [summary(point, value) for point, value in zip(plan.points, values, strict=True)]
    return arrange(FigureConfig(**{"x": SNR, "y": "mse", **figure}), plan, summaries).caption


@pytest.mark.parametrize(
    ("values", "snrs", "figure", "words"),
    [
        ([1.0], [10.0], {}, "; bars: 95 % t interval"),
        ([1.0, 2.0], [5.0, 10.0], {}, "; shaded: 95 % t interval"),
        ([1.0, -2.0], [5.0, 10.0], {"y_scale": "log"}, "Not drawn on the logarithmic y axis: 1 value of 0 or below."),
        ([-1.0, -2.0], [5.0, 10.0], {"y_scale": "log"}, "The y axis is linear, because no value is above 0."),
        ([1.0, 2.0], [0.0, 10.0], {"x_scale": "log"}, "The x axis is linear, because a value of x is 0 or below."),
        ([1.0, 2.0], [5.0, 10.0], {"y": "bit_error_rate"}, "Arrows: one-sided 95 % upper limit where no error"),
    ],
)
def test_the_caption_says_what_is_drawn(
    values: list[float], snrs: list[float], figure: dict[str, Any], words: str
) -> None:
    assert words in caption(values, snrs, **figure)


def test_values_that_fit_need_no_words() -> None:
    text = caption([1.0, 2.0], [5.0, 10.0], y_scale="log", x_scale="log")
    assert "because" not in text
    assert "Not drawn" not in text


def test_a_file_for_a_paper_has_no_type_3_font() -> None:
    figure = draw(Drawing(config=FigureConfig(x=SNR, y="mse"), panels=(("", (silent(1.0, series=0),)),), caption=""))
    pdf = render(figure, "pdf")
    assert b"/Type3" not in pdf
    assert b"/Type42" in pdf or b"/CIDFontType2" in pdf
