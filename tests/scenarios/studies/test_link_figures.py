"""Figures of a link study on counts written by hand: limits, gaps, closed forms, labels, legibility in grey."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Annotation

from phy.measure.counts import empty_counts
from phy.measure.monte_carlo import Stop
from scenarios.report.check import check_figures
from scenarios.report.figures.draw import draw
from scenarios.report.figures.drawing import Drawing
from scenarios.report.figures.style import render
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.schema.schema import FigureConfig
from scenarios.studies.link.level import has_closed_form, theory
from scenarios.studies.link.plan import LinkCurve, LinkPlan, expand_link
from scenarios.studies.link.report import DENSE, arrange, figures_of
from scenarios.studies.link.results import MeasuredPoint, PointResult, Results
from scenarios.studies.link.study import LinkStudy

TEXT = """\
name: drawn
link: {modulation: qpsk, power: {policy: fixed}, packet_size_bytes: 32}
measure: {values: [0, 4, 8, 12], num_devices: 2, bits_per_batch: 2560}
sweep: {link.modulation: [bpsk, qpsk, 16qam], link.channel.fading: [constant, rayleigh]}
"""


def load(tmp_path: Path, text: str = TEXT, *overrides: str) -> tuple[LoadedScenario, LinkPlan]:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    loaded = load_scenario(path, overrides=overrides)
    return loaded, expand_link(loaded)


def counted(curve: LinkCurve, errors: int) -> MeasuredPoint:
    """One batch in which the first device alone has `errors` wrong bits, all in one transmission."""
    shape = (curve.shape.transmissions, curve.num_devices)
    bit_errors = np.zeros(shape, np.int64)
    bit_errors[0, 0] = errors
    counts = empty_counts(*shape)
    counts = counts.__class__(
        **{
            **counts.__dict__,
            "bits": np.full(shape, curve.shape.num_bits, np.int64),
            "bit_errors": bit_errors,
            "packets": np.ones(shape, np.int64),
            "packet_errors": np.minimum(bit_errors, 1),
        }
    )
    return MeasuredPoint.of(counts, bursts=None, num_bits=curve.shape.num_bits, seconds=0.5)


def results(plan: LinkPlan, errors: tuple[int | None, ...]) -> Results:
    """Every curve with `errors` at its values; None: not simulated."""
    return [
        [
            PointResult(curve=curve, point=point, measured=counted(curve, seen), stop=Stop(reason="max_bits"))
            for point, seen in zip(curve.points, errors, strict=True)
            if seen is not None
        ]
        for curve in plan.curves
    ]


def figure(**keys: Any) -> FigureConfig:
    return FigureConfig(**{"x": "ebno_db", "y": "bit_error_rate", "y_scale": "log", **keys})


def picture(tmp_path: Path, *, errors: tuple[int | None, ...] = (100, 10, 0, None), **keys: Any) -> Drawing:
    _, plan = load(tmp_path)
    return arrange(figure(**keys), plan, results(plan, errors))


def test_zero_errors_are_an_upper_limit_and_what_was_not_simulated_is_absent(tmp_path: Path) -> None:
    line = picture(tmp_path).panels[0][1][0]
    assert [spot.x for spot in line.spots] == pytest.approx([0, 4, 8])
    assert line.spots[2].y is None
    assert line.spots[2].high is not None
    assert line.spots[2].high > 0
    axes = draw(picture(tmp_path)).axes[0]
    drawn = np.concatenate([np.asarray(one.get_ydata(), float) for one in axes.lines])
    # Closed forms fall below any limit; what was measured never touches zero.
    assert np.all(drawn[np.isfinite(drawn)] > 0)
    low, high = axes.get_ylim()
    assert 0 < low < line.spots[2].high < high


def test_an_upper_limit_is_drawn_as_an_arrow_of_its_own_curve(tmp_path: Path) -> None:
    with_limit, without = (draw(picture(tmp_path, errors=(100, 10, last, None))) for last in (0, 5))
    arrows = [sum(isinstance(text, Annotation) for text in one.axes[0].texts) for one in (with_limit, without)]
    # One arrow for each of the six curves.
    assert arrows == [6, 0]


def test_panels_and_series_say_what_tells_curves_apart(tmp_path: Path) -> None:
    drawn = picture(tmp_path, panels="link.channel.fading")
    assert [title for title, _ in drawn.panels] == ["no fading", "Rayleigh fading"]
    assert [line.label for line in drawn.panels[1][1]] == ["BPSK", "QPSK", "16-QAM"]
    assert [line.series for line in drawn.panels[1][1]] == [0, 1, 2]


def test_every_device_may_have_a_line_of_its_own(tmp_path: Path) -> None:
    drawn = picture(tmp_path, series=("link.modulation", "device"), panels="link.channel.fading")
    lines = drawn.panels[0][1]
    assert [line.label for line in lines[:2]] == ["BPSK, device 0", "BPSK, device 1"]
    assert lines[0].spots[0].y == pytest.approx(100 / 2560)
    assert lines[1].spots[0].y is None


def test_another_axis_moves_points_and_closed_form_alike(tmp_path: Path) -> None:
    ebno, esno = (picture(tmp_path, x=axis).panels[0][1][2] for axis in ("ebno_db", "esno_db"))
    assert [s.x for s in esno.spots] == pytest.approx([s.x + 10 * np.log10(2) for s in ebno.spots])
    assert len(ebno.theory) == DENSE
    assert [s.x for s in esno.theory] == pytest.approx([s.x + 10 * np.log10(2) for s in ebno.theory])
    assert [s.y for s in esno.theory] == [s.y for s in ebno.theory]


def test_curves_differ_without_colour(tmp_path: Path) -> None:
    lines = draw(picture(tmp_path)).axes[0].lines
    markers = [str(line.get_marker()) for line in lines if str(line.get_marker()) in "os^DvPX*<>ph"]
    assert len(set(markers)) == 6
    dashed = [line for line in lines if line.get_linestyle() == "--"]
    assert len(dashed) == 6
    assert all(line.get_marker() in ("None", "", None) for line in dashed)


def test_lines_join_points_only_where_no_closed_form_shows_the_way(tmp_path: Path) -> None:
    handles = draw(picture(tmp_path, y="packet_error_rate")).legends[0].legend_handles
    styles = {handle.get_label(): handle.get_linestyle() for handle in handles}
    assert styles["QPSK, no fading"] == "None"
    assert styles["QPSK, Rayleigh fading"] != "None"
    assert styles["16-QAM, no fading"] != "None"
    assert styles["closed form"] == "--"


def test_the_same_results_give_the_same_picture(tmp_path: Path) -> None:
    assert render(draw(picture(tmp_path)), "svg") == render(draw(picture(tmp_path)), "svg")


def test_the_caption_says_what_the_bars_are(tmp_path: Path) -> None:
    caption = picture(tmp_path).caption
    arrows = "Arrows: one-sided upper limit"
    for words in ("95 % interval", "Korn and Graubard", arrows, "Dashed: closed form", "Seed 0"):
        assert words in caption


def test_without_figures_bits_and_packets_are_drawn_over_the_axis(tmp_path: Path) -> None:
    _, plan = load(tmp_path, TEXT.replace("measure: {", "measure: {over: snr_db, "))
    assert [(f.x, f.y) for f in figures_of(plan, ())] == [
        ("snr_db", "bit_error_rate"),
        ("snr_db", "packet_error_rate"),
    ]
    own = FigureConfig(x="esno_db", y="bit_error_rate", y_scale="linear")
    assert figures_of(plan, (own, FigureConfig(x="round", y="mse"))) == (own,)


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        ("{x: snr, y: bit_error_rate}", "report.figures[0].x = snr: names no axis of a link study; write"),
        ("{x: snr_db, y: mse}", "s.yaml:5: report.figures[0].y = mse"),
        ("{x: snr_db, y: bit_error_rate, series: link.csy}", "series = link.csy: names no key of a scenario"),
        ("{x: snr_db, y: bit_error_rate, panels: device}", "panels = device: names no key of a scenario"),
    ],
)
def test_figures_of_something_else_are_refused_before_the_study(tmp_path: Path, figure: str, expected: str) -> None:
    loaded, _ = load(tmp_path, f"{TEXT}report: {{figures: [{figure}]}}\n")
    with pytest.raises(ScenarioError) as caught:
        check_figures(loaded)
    assert expected in str(caught.value)


def test_a_path_that_was_swept_and_is_set_makes_one_panel(tmp_path: Path) -> None:
    written = (
        "report: {figures: [{x: snr_db, y: bit_error_rate, panels: link.modulation, series: link.channel.fading}]}"
    )
    loaded, plan = load(tmp_path, f"{TEXT}{written}\n", "link.modulation=qpsk")
    check_figures(loaded)
    panels = arrange(loaded.scenario.report.figures[0], plan, results(plan, (100, 10, 0, None))).panels
    assert len(panels) == 1
    # The resolved scenario knows of no override: it is a valid scenario all the same.
    again, _ = load(tmp_path, LinkStudy(loaded).document()[0])
    check_figures(again)


def test_a_scenario_may_have_figures_of_a_link_and_of_learning(tmp_path: Path) -> None:
    both = "report: {figures: [{x: snr_db, y: bit_error_rate}, {x: round, y: squared_error}, {x: round, y: nope}]}"
    loaded, _ = load(tmp_path, f"{TEXT}learning: {{}}\n{both}\n")
    with pytest.raises(ScenarioError, match=r"figures\[2\].y = nope: names nothing that is measured"):
        check_figures(loaded)


# --- closed forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "link",
    [
        "coding: {code: ldpc5g}",
        "access: noma",
        "csi: {error_variance: 0.1}",
        "impairments: {phase_error_deg: 5}",
        "packets: {policy: drop, crc: crc16}",
        "channel: {model: tdl-a}, ofdm: {}",
        "channel: {cell: {}}",
    ],
)
def test_there_is_no_closed_form_for_a_link_that_has_none(tmp_path: Path, link: str) -> None:
    text = TEXT.split("sweep:")[0].replace("packet_size_bytes: 32", f"packet_size_bytes: 32, {link}")
    _, plan = load(tmp_path, text)
    assert not has_closed_form(plan.curves[0].link)
    assert theory(plan.curves[0], "bit_error_rate", [0.0]) is None
    assert theory(plan.curves[0], "packet_error_rate", [0.0]) is None


def test_closed_forms_know_antennas_gains_and_packets(tmp_path: Path) -> None:
    _, one = load(tmp_path, TEXT.split("sweep:")[0])
    _, two = load(tmp_path, TEXT.split("sweep:")[0], "link.receiver.num_antennas=2", "link.channel.model=awgn")
    three_db = 10 * np.log10(2)
    single, double = (
        theory(one.curves[0], "bit_error_rate", [3.0 + three_db]),
        theory(two.curves[0], "bit_error_rate", [3.0]),
    )
    assert single == pytest.approx(double)
    assert single is not None
    packet = theory(one.curves[0], "packet_error_rate", [3.0 + three_db])
    assert packet == pytest.approx(1 - (1 - single) ** 256)
    # Devices 10 dB apart: the mean of both error rates, at the mean of both powers.
    _, uneven = load(tmp_path, TEXT.split("sweep:")[0], "link.channel.gain=[1.0, 0.31622776601683794]")
    both = [theory(one.curves[0], "bit_error_rate", [3.0 + 10 * np.log10(power / 0.55)]) for power in (1.0, 0.1)]
    assert theory(uneven.curves[0], "bit_error_rate", [3.0]) == pytest.approx(np.mean(both))
