"""A logarithmic axis has round numbers as its ticks, powers of ten where it is long, and lines between them."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from scenarios.report.figures.draw import draw
from scenarios.report.figures.drawing import Curve, Drawing, Spot
from scenarios.report.figures.frame import MOST_TICKS
from scenarios.report.figures.style import MOST_DECADES, round_ticks
from scenarios.schema.schema import FigureConfig


def axes_of_heights(*heights: float, x_scale: Literal["linear", "log"] = "linear") -> Axes:
    """The axes of one curve that has these heights."""
    spots = tuple(Spot(x=10.0 * (index + 1), y=height) for index, height in enumerate(heights))
    config = FigureConfig(x="link.channel.ebno_db", y="bit_error_rate", x_scale=x_scale)
    return draw(Drawing(config=config, panels=(("", (Curve(label="", series=0, spots=spots),)),), caption="")).axes[0]


def test_powers_of_ten_are_the_only_ticks_of_a_rate_and_lines_of_the_grid_stand_between_them() -> None:
    axes = axes_of_heights(0.2, 3e-3, 4e-5)
    ticks = dict(zip(axes.get_yticks(), (label.get_text() for label in axes.get_yticklabels()), strict=True))
    assert ticks == {1e-4: "10⁻⁴", 1e-3: "10⁻³", 1e-2: "10⁻²", 1e-1: "10⁻¹"}
    assert not len(axes.get_yticks(minor=True))
    (lines,) = (one for one in axes.collections if isinstance(one, LineCollection))
    heights = [float(path.vertices[0, 1]) for path in lines.get_paths()]
    low, high = axes.get_ylim()
    expected = [digit * 10.0**power for power in range(-6, 1) for digit in range(2, 10)]
    assert [h for h in heights if low < h < high] == pytest.approx([h for h in expected if low < h < high])


@pytest.mark.parametrize("heights", [(0.08, 0.3), (0.2, 1e-14)])
def test_a_rate_over_less_than_a_decade_or_over_very_many_has_ticks_that_fit(heights: tuple[float, float]) -> None:
    axes = axes_of_heights(*heights)
    axes.figure.draw_without_rendering()
    low, high = axes.get_ylim()
    shown = [
        label
        for minor in (False, True)
        for place, label in zip(axes.get_yticks(minor=minor), axes.get_yticklabels(minor=minor), strict=True)
        if label.get_text() and low <= place <= high
    ]
    boxes = sorted((one.get_window_extent().y0, one.get_window_extent().y1) for one in shown)
    assert 2 <= len(boxes) <= 12
    assert all(lower[1] <= upper[0] for lower, upper in pairwise(boxes))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((0.004, 2.0), ["10⁻²", "10⁻¹", "10⁰"]),
        ((0.055, 0.45), ["0.1", "0.2"]),
        ((0.11, 0.45), ["0.15", "0.2", "0.25", "0.3", "0.35", "0.4"]),
        ((0.09, 0.12), ["0.09", "0.095", "0.1", "0.105", "0.11", "0.115"]),
        ((0.31, 0.34), ["0.31", "0.315", "0.32", "0.325", "0.33", "0.335", "0.34"]),
        ((2e-6, 1e-5), ["2e-6", "5e-6", "1e-5"]),
    ],
)
def test_ticks_are_round_numbers_however_short_the_axis_is(limits: tuple[float, float], expected: list[str]) -> None:
    ticks = round_ticks(*limits)
    assert list(ticks.values()) == expected
    assert all(limits[0] <= tick <= limits[1] for tick in ticks)


def test_over_very_many_decades_ticks_stand_in_equal_steps() -> None:
    powers = np.log10(list(round_ticks(1e-30, 1.0)))
    assert 2 < len(powers) <= MOST_DECADES
    (step,) = set(np.diff(powers).round(9))
    assert step % 1.0 == 0.0


@pytest.mark.parametrize("lowest", [0.2, 0.04, 1e-30])
def test_no_word_on_a_logarithmic_axis_is_mathematics(lowest: float) -> None:
    axes = axes_of_heights(lowest, *[0.3] * MOST_TICKS, x_scale="log")
    axes.figure.draw_without_rendering()
    words = [tick.label1.get_text() for axis in (axes.xaxis, axes.yaxis) for tick in axis.get_major_ticks()]
    assert len(words) >= 4
    assert not [word for word in words if "$" in word]
