"""Curves hold the right points, labels are words, and files are the same for the same numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_runs import FIGURE, make_plan
from matplotlib.backends.backend_pgf import LatexManager

from phy.config.coding import CodingConfig
from phy.config.power import PowerConfig
from scenarios.plan.points import Plan
from scenarios.report.figures import draw as draw_module
from scenarios.report.figures.curves import arrange, band
from scenarios.report.figures.draw import PAPER, draw, write_figures, write_for_paper
from scenarios.report.figures.drawing import Curve, Drawing, Spot
from scenarios.report.figures.style import log_limits
from scenarios.report.tables.summaries import Mean, PointSummary, rate_interval
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.labels import axis_label, setting_cell, setting_label
from scenarios.schema.schema import FigureConfig

BOTH = {"mse": 1.0, "bound": 5.0}
SNR, SCHEME, EPSILON = "link.power.snr_max_db", "learning.scheme", "privacy.epsilon"


def summaries_of(plan: Plan, **metrics: float) -> list[PointSummary]:
    """Every point with the same metrics, told apart by the index added to each mean."""
    return [
        PointSummary(
            point=point,
            done=20,
            failed=0,
            metrics={
                name: Mean(mean=mean + point.index, low=mean / 2, high=mean * 2, trials=20)
                for name, mean in metrics.items()
            },
        )
        for point in plan.points
    ]


def arranged(config: FigureConfig, plan: Plan) -> Drawing:
    return arrange(config, plan, summaries_of(plan, mse=1.0))


def test_a_curve_is_in_order_of_x_and_named_by_its_series() -> None:
    plan = make_plan([{SNR: s, SCHEME: c} for c in ("digital", "analog") for s in (20.0, 0.0, 10.0)], trials=20)
    ((title, (digital, analog)),) = arranged(FIGURE, plan).panels
    assert title == ""
    assert (digital.label, analog.label) == ("digital", "analog")
    assert [s.x for s in digital.spots] == [0.0, 10.0, 20.0]
    assert [s.y for s in digital.spots] == [2.0, 3.0, 1.0]


def test_points_without_a_place_on_x_become_references() -> None:
    plan = make_plan([{EPSILON: 1.0}, {EPSILON: 5.0}, {"privacy": "none"}], trials=20)
    drawing = arranged(FigureConfig(x=EPSILON, y="mse"), plan)
    bounded, unbounded = drawing.panels[0][1]
    assert [s.x for s in bounded.spots] == [1.0, 5.0]
    assert (unbounded.label, [s.x for s in unbounded.spots]) == ("no privacy", [None])
    assert "Horizontal lines" in drawing.caption


def test_a_scheme_without_a_radio_is_a_reference_in_every_panel() -> None:
    settings = [{SNR: s, EPSILON: e} for e in (1.0, 5.0) for s in (0.0, 10.0)]
    plan = make_plan([*settings, {SCHEME: "exact"}], trials=20)
    drawing = arranged(FigureConfig(x=SNR, y="mse", series=SCHEME, panels=EPSILON), plan)
    assert [title for title, _ in drawing.panels] == ["ε = 1", "ε = 5"]
    for _, (digital, exact) in drawing.panels:
        assert (digital.label, exact.label) == ("digital", "exact posterior")
        assert [s.x for s in exact.spots] == [None]


def test_no_privacy_is_a_panel_of_its_own() -> None:
    plan = make_plan([{SNR: 0.0, "privacy": p} for p in ("none", {"epsilon": 5.0})], trials=20)
    drawing = arranged(FigureConfig(x=SNR, y="mse", panels="privacy"), plan)
    assert [title for title, _ in drawing.panels] == ["no privacy", "ε = 5"]


def test_a_sweep_the_figure_forgets_splits_the_series() -> None:
    plan = make_plan([{SNR: s, EPSILON: e} for e in (1.0, 5.0) for s in (0.0, 10.0)], trials=20)
    ((_, curves),) = arranged(FigureConfig(x=SNR, y="mse"), plan).panels
    assert [c.label for c in curves] == ["ε = 1", "ε = 5"]


def test_settings_zipped_with_x_do_not_split_the_series() -> None:
    plan = make_plan([{SNR: 10.0 * i, "learning.quantizer_slope": 0.1 * i + 0.1} for i in range(3)], trials=20)
    ((_, curves),) = arranged(FigureConfig(x=SNR, y="mse"), plan).panels
    assert len(curves) == 1


def test_a_rate_without_errors_shows_only_its_upper_limit() -> None:
    plan = make_plan([{SNR: 0.0}, {SNR: 10.0}], trials=20)
    rates = [rate_interval(errors=5, total=100), rate_interval(errors=0, total=100)]
    summaries = [
        PointSummary(point=point, done=20, failed=0, rates={"bit_error_rate": rate})
        for point, rate in zip(plan.points, rates, strict=True)
    ]
    config = FigureConfig(x=SNR, y="bit_error_rate", y_scale="log")
    drawing = arrange(config, plan, summaries)
    seen, unseen = drawing.panels[0][1][0].spots
    assert (seen.y, unseen.y) == (0.05, None)
    assert unseen.high == pytest.approx(1 - 0.025 ** (1 / 100))
    assert "Clopper and Pearson where the link makes errors independent" in drawing.caption
    assert "upper limit where no error was seen" in drawing.caption
    axes = draw(drawing).axes[0]
    assert axes.get_ylim()[0] > 0


def test_the_caption_says_band_trials_and_seed() -> None:
    plan = make_plan([{SNR: 0.0}], trials=20)
    caption = arranged(FIGURE, plan).caption
    assert caption == "Mean over 20 trials per point; bars: 95 % t interval of the mean. Seed 2022."


def test_a_band_that_reaches_zero_does_not_rule_a_logarithmic_axis() -> None:
    plan = make_plan([{SNR: 0.0}], trials=20)
    summary = PointSummary(
        point=plan.points[0], done=5, failed=0, metrics={"mse": Mean(mean=1.0, low=-3.0, high=5.0, trials=5)}
    )
    spots = arrange(FIGURE, plan, [summary]).panels[0][1][0].spots
    assert spots[0].low == 0.0
    limits = log_limits(spots)
    assert limits is not None
    assert 0.05 < limits[0] < 0.1
    assert 5.0 < limits[1] < 10.0


def test_a_band_takes_three_trials_as_words_do_and_stays_where_its_quantity_can_be() -> None:
    three = Mean(mean=30.0, low=-20.0, high=90.0, trials=3)
    assert band("snr_db", three) == (-20.0, 90.0)
    assert band("energy_j", three) == (0.0, 90.0)
    assert band("power_db", three, values=np.array([10.0, 40.0])) == (10.0, 40.0)
    two = replace(three, trials=2)
    assert band("energy_j", two) == (None, None)
    assert (str(three), str(two)) == ("30.0 [-20.0, 90.0]", "30")
    plan = make_plan([{SNR: 0.0}], trials=20)
    few = PointSummary(point=plan.points[0], done=2, failed=0, metrics={"mse": two})
    drawing = arrange(FIGURE, plan, [few])
    assert drawing.panels[0][1][0].spots[0].low is None
    assert (
        drawing.caption == "Mean over 2 trials per point; no band, a t interval is drawn from 3 trials on. Seed 2022."
    )


def test_long_labels_are_wrapped_into_the_picture() -> None:
    powers = [
        {
            "policy": "closed-loop",
            "loop": {"target": "bler", "target_rate": rate, "max_step_db": 1.0, "min_snr_db": -10.0},
        }
        for rate in (0.1, 0.01, 0.001)
    ]
    plan = make_plan([{"link.power": power, EPSILON: e} for power in powers for e in (1.0, 5.0)], trials=20)
    for config in (
        FigureConfig(x=EPSILON, y="mse"),
        FigureConfig(x=EPSILON, y="mse", panels="link.power"),
        FigureConfig(x="link.power", y="mse", series=EPSILON),
    ):
        figure = draw(arrange(config, plan, summaries_of(plan, mse=20.0)))
        figure.draw_without_rendering()
        texts = [text for legend in figure.legends for text in legend.get_texts()]
        texts += [axes.title for axes in figure.axes if axes.get_title()]
        if config.x == "link.power":
            texts += figure.axes[0].get_xticklabels()
        for box in (text.get_window_extent() for text in texts):
            assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
            assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1


def test_rounds_are_counted_in_whole_numbers() -> None:
    plan = make_plan([{}], trials=20)
    spots = [(plan.points[0], "", Spot(x=float(x), y=1.0, low=None, high=None, n=1)) for x in (1, 2, 3)]
    figure = draw(arrange(FigureConfig(x="round", y="squared_error"), plan, [], along=lambda _: spots))
    assert all(tick == int(tick) for tick in figure.axes[0].get_xticks())


def test_rounding_errors_do_not_fill_an_axis() -> None:
    spots = tuple(Spot(x=index + 1, y=0.411096 * (1 + 1e-7 * index)) for index in range(3))
    config = FigureConfig(x="round", y="energy_j")
    axes = draw(Drawing(config=config, panels=(("", (Curve(label="", series=0, spots=spots),)),), caption="")).axes[0]
    assert axes.get_ylim() == pytest.approx((0.39, 0.43), abs=0.01)


def test_axes_carry_labels_with_units_and_the_legend_every_series() -> None:
    plan = make_plan([{SNR: s, SCHEME: c} for c in ("digital", "analog") for s in (0.0, 10.0)], trials=20)
    figure = draw(arranged(FIGURE, plan))
    assert figure.axes[0].get_xlabel() == "maximum P₀/N₀, N₀ per real dimension [dB]"
    assert figure.axes[0].get_ylabel() == "MSE to the posterior mean"
    assert figure.axes[0].get_yscale() == "log"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["digital", "analog"]


def test_a_curve_beside_a_theory_is_named_even_when_it_is_alone() -> None:
    plan = make_plan([{SNR: 0.0}, {SNR: 10.0}], trials=20)
    config = FigureConfig(x=SNR, y="mse", beside="bound")
    alone, beside = (arrange(config, plan, summaries_of(plan, **measured)) for measured in ({"mse": 1.0}, BOTH))
    assert [curve.label for _, curves in beside.panels for curve in curves] == ["measured"]
    assert [spot.y for spot in beside.panels[0][1][0].theory] == [5.0, 6.0]
    assert [text.get_text() for text in draw(beside).legends[0].get_texts()] == ["measured", axis_label("bound")]
    assert draw(alone).legends == []


def test_twelve_series_have_twelve_markers() -> None:
    plan = make_plan([{SNR: s, EPSILON: e} for e in range(1, 13) for s in (0.0, 10.0)], trials=20)
    lines = draw(arranged(FigureConfig(x=SNR, y="mse"), plan)).axes[0].get_lines()
    assert len({line.get_marker() for line in lines}) == 12


def test_words_along_x_are_named_and_not_joined_by_a_line() -> None:
    plan = make_plan([{SCHEME: c} for c in ("digital", "exact")], trials=20)
    drawing = arranged(FigureConfig(x=SCHEME, y="mse"), plan)
    axes = draw(drawing).axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["digital", "exact posterior"]
    assert {line.get_linestyle() for line in axes.get_lines()} == {"None"}
    assert "bars: 95 %" in drawing.caption


def test_files_are_written_and_the_svg_is_the_same_every_time(tmp_path: Path) -> None:
    plan = make_plan([{SNR: 0.0}, {SNR: 10.0}], trials=20)
    summaries = summaries_of(plan, mse=1.0)
    (first,) = write_figures(tmp_path / "a", [arrange(FIGURE, plan, summaries)])
    (second,) = write_figures(tmp_path / "b", [arrange(FIGURE, plan, summaries)])
    assert first.svg.read_bytes() == second.svg.read_bytes()
    assert b"<dc:date>" not in first.svg.read_bytes()
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["01-mse.csv", "01-mse.svg"]
    assert first.title == "MSE to the posterior mean over maximum P₀/N₀, N₀ per real dimension [dB]"


def test_a_figure_is_drawn_again_only_where_it_shows_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan([{SNR: 0.0}, {SNR: 10.0}], trials=20)
    drawings = [arrange(FIGURE, plan, summaries_of(plan, mse=mse)) for mse in (1.0, 1.0 + 1e-12)]
    drawn: list[Drawing] = []

    def counted(drawing: Drawing) -> object:
        drawn.append(drawing)
        return draw(drawing)

    monkeypatch.setattr(draw_module, "draw", counted)
    (files,) = write_figures(tmp_path, drawings[:1])
    for drawing, cut, number in (
        (drawings[0], None, 1),  # nothing changed
        (drawings[1], None, 2),  # the last digits of a mean
        (drawings[1], files.svg, 3),  # a file that is gone
        (replace(drawings[1], config=FIGURE.model_copy(update={"title": "T"})), None, 4),
    ):
        if cut is not None:
            cut.unlink()
        write_figures(tmp_path, [drawing])
        assert len(drawn) == number
        assert files.svg.is_file()


def test_a_quantity_nobody_measured_gives_an_empty_figure_that_says_so(tmp_path: Path) -> None:
    plan = make_plan([{SNR: 0.0}], trials=20)
    config = FigureConfig(x=SNR, y="../odd", y_scale="log", x_scale="log")
    (files,) = write_figures(tmp_path, [arrange(config, plan, [])])
    assert files.caption == "No finished trial measured ../odd."
    assert files.svg.parent == tmp_path


def test_figures_that_cannot_be_written_are_an_error_for_the_user() -> None:
    with pytest.raises(ScenarioError, match="cannot be written here"):
        write_figures(Path("/proc/phyloop"), [])


@pytest.mark.parametrize(
    ("path", "value", "label"),
    [
        (SCHEME, "digital", "digital"),
        ("privacy", {"epsilon": 5.0, "delta": 0.01}, "ε = 5"),
        ("privacy", "none", "no privacy"),
        (EPSILON, None, "no privacy"),
        ("learning.lmc_cap", "printed", "LMC cap printed"),
        ("learning.debias", False, "no debias"),
        (SNR, 20.0, "P₀/N₀ = 20 dB"),
        ("learning.other_thing", 0.25, "other thing = 0.25"),
        ("label", "costs $5", "costs $5"),
        ("link.csi", {"error_variance": 0.1}, "CSI error = 0.1"),
        ("privacy", {"epsilon": 5.0, "delta": 0.02}, "ε = 5, δ = 0.02"),
        ("link.coding", CodingConfig(code="polar5g").model_dump(mode="json"), "polar"),
        ("link.power", PowerConfig(policy="fixed").model_dump(mode="json"), "fixed power"),
        ("link.power", PowerConfig(policy="closed-loop").model_dump(mode="json"), "closed-loop power"),
        (
            "link.power",
            {"policy": "closed-loop", "loop": {"max_step_db": 1.0}},
            "closed-loop power, largest step = 1 dB",
        ),
    ],
)
def test_settings_are_said_in_words(path: str, value: object, label: str) -> None:
    assert setting_label(path, value) == label


@pytest.mark.parametrize(
    ("path", "values", "cells"),
    [
        ("link.coding", [{"code": "polar5g"}, {"code": "ldpc5g"}, "none"], ["polar", "LDPC", "uncoded"]),
        ("link.power", [{"policy": "closed-loop"}, {"policy": "fixed"}], ["closed-loop power", "fixed power"]),
        (SNR, [20.0, 0.5, None], ["20", "0.5", ""]),
        ("link.power", [{"snr_max_db": 40.0}], ["P₀/N₀ = 40 dB"]),
    ],
)
def test_each_setting_of_a_sweep_has_its_own_cell(path: str, values: list[object], cells: list[str]) -> None:
    assert [setting_cell(path, value) for value in values] == cells


def test_an_unknown_metric_is_called_by_its_name() -> None:
    assert axis_label("made_up") == "made_up"


def test_the_label_of_x_does_not_run_into_its_neighbours() -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    path = "learning.aggregation.epsilon"
    cpa = {"algorithm": "fedavg", "upload": "update", "aggregation": {"name": "cpa"}}
    settings = [{path: e, "learning.num_devices": k} for k in (100, 1000) for e in (0.5, 1.0)]
    plan = make_plan(settings, trials=20, learning=cpa)
    config = FigureConfig(x=path, y="test_accuracy", panels="learning.num_devices")
    figure = draw(arrange(config, plan, summaries_of(plan, test_accuracy=0.1)))
    FigureCanvasAgg(figure).draw()
    left, right = (axes.xaxis.label.get_window_extent() for axes in figure.axes)
    assert left.x1 < right.x0
    assert right.x1 <= figure.bbox.x1


@pytest.mark.parametrize(("longest", "expected"), [(20.0, "linear"), (3000.0, "log")])
def test_curves_along_a_run_have_a_logarithmic_axis_where_their_ends_lie_decades_apart(longest, expected) -> None:
    rounds = range(1, 51)  # a factor of 50 within each curve
    curves = tuple(
        Curve(label=str(end), series=i, spots=tuple(Spot(x=end * n / 50, y=0.01 * n) for n in rounds))
        for i, end in enumerate((1.0, longest))
    )
    config = FigureConfig(x="elapsed_s", y="test_accuracy")
    assert draw(Drawing(config=config, panels=(("", curves),), caption="")).axes[0].get_xscale() == expected


@pytest.mark.parametrize("name", ["aggregation_mse", "alignment_mse", "expected_mse", "energy_left_j"])
def test_the_interval_of_a_quantity_that_is_never_negative_ends_at_zero(name: str) -> None:
    assert band(name, Mean(mean=1.0, low=-0.5, high=2.5, trials=3)) == (0.0, 2.5)


@pytest.mark.parametrize(("columns", "inches", "abreast"), [(1, 3.5, 1), (2, 7.16, 3)])
def test_a_figure_for_a_paper_is_as_wide_as_its_columns_and_the_same_every_time(
    tmp_path: Path, columns: int, inches: float, abreast: int
) -> None:
    settings = [{SNR: s, EPSILON: e} for e in (1.0, 5.0, 9.0) for s in (0.0, 10.0)]
    plan = make_plan(settings, trials=20)
    config = FigureConfig(x=SNR, y="mse", panels=EPSILON, title="T")
    drawing = arrange(config, plan, summaries_of(plan, mse=1.0))
    figure = draw(drawing, inches=PAPER[columns])
    figure.draw_without_rendering()
    assert figure.get_figwidth() == pytest.approx(inches)
    assert len({axes.get_position().x0.round(3) for axes in figure.axes}) == abreast
    assert figure.axes[0].title.get_fontsize() == pytest.approx(0.75 * 10.5)
    assert figure.get_suptitle() == ""
    files = [write_for_paper(tmp_path / name, [drawing], kind="pdf", columns=columns) for name in "ab"]
    assert files[0][0].name == f"01-mse-{columns}col.pdf"
    assert files[0][0].read_bytes().startswith(b"%PDF")
    assert files[0][0].read_bytes() == files[1][0].read_bytes()
    (picture,) = write_for_paper(tmp_path, [drawing], kind="png", columns=columns)
    assert int.from_bytes(picture.read_bytes()[16:20]) == int(300 * inches)  # pixels, as the header of PNG has them


class Metrics:
    """Sizes of words in points, which matplotlib asks xelatex for."""

    def get_width_height_descent(self, text: str, _font: object) -> tuple[float, float, float]:
        if "@" in text:
            raise ValueError("Error measuring @")
        return 4.0 * len(text), 8.0, 2.0


def test_a_pgf_has_the_words_of_the_figure_and_needs_xelatex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(label: str) -> str:
        plan = make_plan([{SNR: s, "label": label} for s in (0.0, 10.0)], trials=3)
        drawing = arrange(FigureConfig(x=SNR, y="mse", series="label"), plan, summaries_of(plan, mse=1.0))
        (file,) = write_for_paper(tmp_path, [drawing], kind="pgf", columns=1)
        return file.read_text(encoding="utf-8")

    monkeypatch.setenv("PATH", "")
    with pytest.raises(ScenarioError, match="pgf needs xelatex, which is not installed; install TeX Live"):
        write("scheme")
    monkeypatch.setattr(LatexManager, "_get_cached_or_new", Metrics)
    text = write("my scheme")
    assert text.startswith("%% Creator: Matplotlib, PGF backend")
    assert "my scheme}" in text
    with pytest.raises(ScenarioError, match="xelatex fails: Error measuring @; install TeX Live"):
        write("@")
