"""A setting has one look in all figures of a scenario, and every pair of looks can be told apart."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from fake_runs import make_plan

from scenarios.plan.points import Plan
from scenarios.report.figures.curves import arrange
from scenarios.report.figures.draw import draw
from scenarios.report.figures.drawing import Curve, Drawing, Spot
from scenarios.report.figures.interactive import describe
from scenarios.report.figures.style import COLOURS, LINES, MARKERS, ON_DARK, SHAPES, look
from scenarios.report.tables.summaries import Mean, PointSummary
from scenarios.schema.schema import FigureConfig

# Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009, severity 1, on linear RGB; luminance of Rec. 709.
SIGHTS = {
    "usual": np.eye(3),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "grey": np.array([[0.2126, 0.7152, 0.0722]] * 3),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
APART = 10.0
"""CIE76 difference of two lines side by side that nobody takes for each other; 2.3 is just noticeable."""


def linear(colour: str) -> np.ndarray:
    """`#rrggbb` as linear RGB."""
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(colour: str, sight: str) -> np.ndarray:
    """CIELAB of a colour as this sight sees it, under D65."""
    xyz = TO_XYZ @ np.clip(SIGHTS[sight] @ linear(colour), 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one: str, other: str, sight: str) -> float:
    return float(np.linalg.norm(lab(one, sight) - lab(other, sight)))


@pytest.mark.parametrize("palette", [COLOURS, ON_DARK], ids=["light", "dark"])
@pytest.mark.parametrize("sight", ["usual", "deuteranopia", "protanopia"])
def test_every_pair_of_colours_differs_for_each_kind_of_sight(palette: tuple[str, ...], sight: str) -> None:
    close = {pair: found for pair in combinations(palette, 2) if (found := distance(*pair, sight)) < APART}
    assert close == {}


@pytest.mark.parametrize("palette", [COLOURS, ON_DARK], ids=["light", "dark"])
def test_the_first_five_colours_differ_in_grey(palette: tuple[str, ...]) -> None:
    assert min(distance(*pair, "grey") for pair in combinations(palette[:5], 2)) > 8.0


def test_where_colours_end_markers_go_on() -> None:
    looks = [look(series) for series in range(12)]
    for one, other in combinations(looks, 2):
        assert one.marker != other.marker
        assert one.shape != other.shape
        if distance(one.colour, other.colour, "grey") < APART:
            assert (one.dash, one.hollow) != (other.dash, other.hollow)


def test_twenty_four_looks_are_all_different() -> None:
    assert len({(one.colour, one.shape, str(one.dash)) for one in map(look, range(24))}) == 24
    assert len(MARKERS) == len(SHAPES) == 12
    assert len(LINES) == 5


@pytest.mark.parametrize(("palette", "paper"), [(COLOURS, "#ffffff"), (ON_DARK, "#15181c")])
def test_colours_stand_out_from_the_page(palette: tuple[str, ...], paper: str) -> None:
    weights = SIGHTS["grey"][0]
    light = [0.05 + float(weights @ linear(colour)) for colour in (*palette, paper)]
    ratios = [max(one, light[-1]) / min(one, light[-1]) for one in light[:-1]]
    assert min(ratios) >= 3.0  # WCAG 2.1, success criterion 1.4.11: what graphics need to be seen


SNR = "link.power.snr_max_db"


def plan_of(*wheres: dict[str, object]) -> Plan:
    """Three labels over two SNRs, and a figure per `where`."""
    figures = [{"x": SNR, "y": "mse", "series": "label", "where": where} for where in wheres]
    settings = [{"label": label, SNR: snr} for label in ("a", "b", "c") for snr in (0.0, 10.0)]
    return make_plan(settings, trials=3, report={"figures": figures})


def looks_in(config: FigureConfig, plan: Plan, *, without: str = "") -> dict[str, int]:
    """Label -> look of the curves, of a run that has not yet computed the label `without`."""
    mean = Mean(mean=1.0, low=0.5, high=1.5, trials=3)
    summaries = [
        PointSummary(point=point, done=3, failed=0, metrics={"mse": mean})
        for point in plan.points
        if point.scenario.label != without
    ]
    (panel,) = arrange(config, plan, summaries).panels
    return {curve.label: curve.series for curve in panel[1]}


def test_a_label_has_one_look_in_all_figures_and_while_others_are_missing() -> None:
    plan = plan_of({}, {"label": ["c", "b"]})
    whole, some = plan.points[0].scenario.report.figures
    assert looks_in(whole, plan) == {"a": 0, "b": 1, "c": 2}
    assert looks_in(some, plan) == {"b": 1, "c": 2}
    assert looks_in(whole, plan, without="a") == {"b": 1, "c": 2}
    asked = FigureConfig(x=SNR, y="mse", series="label", where={"label": "c"})  # in Python, as the report draws it
    assert looks_in(asked, plan) == {"c": 2}


def test_both_back_ends_draw_the_same_looks() -> None:
    plan = plan_of({})
    (config,) = plan.points[0].scenario.report.figures
    mean = Mean(mean=1.0, low=0.5, high=1.5, trials=3)
    drawing = arrange(
        config, plan, [PointSummary(point=p, done=3, failed=0, metrics={"mse": mean}) for p in plan.points]
    )
    lines = draw(drawing).axes[0].get_lines()
    curves = json.loads(describe(drawing))["panels"][0]["curves"]
    assert [line.get_color() for line in lines] == [curve["colour"][0] for curve in curves]
    assert [round(line.get_linewidth(), 2) for line in lines] == [curve["width"] for curve in curves]
    assert curves[1]["spots"] == {"x": [0, 10], "y": [1, 1], "low": [0.5, 0.5], "high": [1.5, 1.5], "n": [3, 3]}


def test_of_curves_that_coincide_the_later_is_thinner() -> None:
    spots = tuple(Spot(x=x, y=1.0) for x in (0.0, 1.0))
    curves = tuple(Curve(label=str(series), series=series, spots=spots) for series in (4, 7, 9))
    drawing = Drawing(config=FigureConfig(x=SNR, y="mse"), panels=(("", curves),), caption="")
    widths = [line.get_linewidth() for line in draw(drawing).axes[0].get_lines()]
    assert widths[0] > 1.3 * widths[1] > 1.6 * widths[2]
