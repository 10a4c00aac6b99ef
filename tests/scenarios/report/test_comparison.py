"""Runs beside each other: pairs of equal seeds, differences against closed forms, curves, hostile names."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from command import phyloop
from fake_runs import stored_run

from scenarios.engine.run import run_study
from scenarios.engine.study import Progress
from scenarios.report.answers.differences import Difference
from scenarios.report.comparison import UNMATCHED, Cell, RunComparison, comparison_page, difference
from scenarios.report.tables.summaries import with_interval
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.studies.comparing import compare_folders
from scenarios.studies.link.results import LinkStore
from scenarios.studies.link.study import LinkStudy

NOISE = np.random.default_rng(1).normal(size=6)
T = 2.570582  # Student's t of 5 degrees of freedom at 97.5 %
TEXT = """\
name: one
trials: 6
link: {channel: {gain: 0.04}}
learning: {scheme: digital, num_devices: 4}
sweep: {link.power.snr_max_db: [10, 20]}
"""


store = partial(stored_run, text=TEXT)


def rows(found: RunComparison, metric: str = "mse") -> list[dict[str, str | None]]:
    table = found.results[metric]
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def interval(values: np.ndarray) -> tuple[float, float]:
    half = T * values.std(ddof=1) / math.sqrt(6)
    return values.mean() - half, values.mean() + half


@pytest.mark.parametrize(("seed", "clear"), [(2022, "yes"), (7, "no")])
def test_a_planted_difference_is_clear_in_pairs_alone(tmp_path: Path, seed: int, clear: str) -> None:
    a, b = 10 + NOISE, 10.1 + NOISE + 1e-3 * NOISE**2
    one = store(tmp_path / "one", a, a, overrides=("seed=2022",))
    other = store(tmp_path / "other", b, a[::-1], overrides=("learning.num_devices=8", f"seed={seed}"))
    found = compare_folders([one, other])
    first, second = rows(found)
    mean = (b - a).mean()
    low, high = interval(b - a)
    if seed == 7:  # limits of independent means are those of a square root of a sum of squares
        half = math.hypot(*((interval(values)[1] - interval(values)[0]) / 2 for values in (a, b)))
        low, high = mean - half, mean + half
    assert first["difference"] == with_interval(mean, low=low, high=high)
    assert (first["trials"], first["clear"]) == ("paired" if seed == 2022 else "unpaired", clear)
    assert first["setting"] == "P₀/N₀ = 10 dB"
    assert second["clear"] == "no"
    assert found.settings.rows[-1] == ("learning.num_devices", "4", "8")
    assert len(found.settings.rows) == (1 if seed == 2022 else 2)


def test_equal_trials_are_equal_and_two_trials_too_few(tmp_path: Path) -> None:
    one = store(tmp_path / "one", 10 + NOISE, 10 + NOISE[:2])
    other = store(tmp_path / "other", 10 + NOISE, 11 + NOISE[:2], overrides=("learning.num_devices=8",))
    found = compare_folders([one, other])
    assert [row["clear"] for row in rows(found)] == ["equal", "too few trials"]
    assert found.runs[0].missing == "4 of 12 trials missing or failed"


def test_a_run_without_a_finished_trial_has_no_difference(tmp_path: Path) -> None:
    found = compare_folders([store(tmp_path / "one", NOISE), store(tmp_path / "other")])
    assert (found.results, found.summary) == ({}, [])
    assert UNMATCHED in comparison_page(found, command="")


def test_link_studies_are_compared_over_an_axis_with_the_closed_form(tmp_path: Path) -> None:
    """BPSK and QPSK have one bit error rate over Eb/N0; 16-QAM's is exact in three terms (Cho and Yoon, 2002)."""
    folders = []
    for word in ("bpsk", "qpsk", "16qam"):
        (tmp_path / "l.yaml").write_text(
            f"name: l\nlink: {{modulation: {word}, power: {{policy: fixed}}, packet_size_bytes: 32}}\n"
            "measure: {over: ebno_db, values: [0, 4], num_devices: 2, bits_per_batch: 25600, stop: {max_bits: 2e5}}\n"
        )
        folders.append(tmp_path / word)
        run_study(LinkStudy(load_scenario(tmp_path / "l.yaml")), folder=folders[-1], progress=Progress())
    found = rows(compare_folders(folders), "bit_error_rate")
    assert [(row["run"], row["setting"], row["trials"], row["clear"]) for row in found] == [
        (run, f"Eb/N₀ = {x} dB", "unpaired", clear) for run, clear in (("qpsk", "no"), ("16qam", "yes")) for x in (0, 4)
    ]

    def q(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    for row, x_db in zip(found, (0, 4, 0, 4), strict=True):
        ebno = 10 ** (x_db / 10)
        a = math.sqrt(0.8 * ebno)
        wider = 0.75 * q(a) + 0.5 * q(3 * a) - 0.25 * q(5 * a) - q(math.sqrt(2 * ebno))
        mean, low, high = map(float, re.findall(r"-?\d[\d.e-]*", row["difference"] or ""))
        standard_error = (high - low) / 2 / 1.96
        assert mean == pytest.approx(wider * (row["run"] == "16qam"), abs=4 * standard_error)
    assert compare_folders(folders[:2], by="esno_db").results == {}  # 3 dB apart


def test_an_unpaired_difference_of_rates_is_newcombes() -> None:
    """56 of 70 less 48 of 80 with Wilson's limits: 0.0524 to 0.3339 (Newcombe, Statistics in Medicine 17, 1998)."""

    def rate(errors: int, total: int) -> Cell:
        z, p = 1.959964, errors / total
        middle, half = p + z**2 / 2 / total, z * math.sqrt(p * (1 - p) / total + z**2 / 4 / total**2)
        low, high = ((middle + sign * half) / (1 + z**2 / total) for sign in (-1, 1))
        return Cell(key="", setting="", own="", value=p, low=low, high=high, count=total, text="")

    found: Difference = difference(rate(48, 80), rate(56, 70), paired=True)  # a rate has no trials to pair
    assert found.mean is not None
    assert (found.mean.low, found.mean.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert found.verdict == "yes"


def test_points_are_matched_by_the_settings_that_all_runs_sweep(tmp_path: Path) -> None:
    one = store(tmp_path / "one", NOISE**2, 2 + NOISE**2)
    swept = TEXT.replace("[10, 20]}", "[20, 30], learning.num_devices: [4, 8]}")
    other = store(tmp_path / "other", *(k + NOISE**2 for k in (3, 5, 7, 9)), text=swept)
    both = compare_folders([one, other])
    found = rows(both)
    ((_, curves),) = both.figures[0].panels
    assert [c.label for c in curves] == ["one", "other, devices = 4", "other, devices = 8"]
    assert [row["setting"] for row in found] == [f"P₀/N₀ = 20 dB; other: devices = {k}" for k in (4, 8)]
    assert [float((row["difference"] or "").split()[0]) for row in found] == [1.0, 3.0]


def test_settings_that_tell_no_points_apart_are_left_out(tmp_path: Path) -> None:
    zipped = TEXT.replace(
        "{link.power.snr_max_db: [10, 20]}",
        "{zip: {link.power.snr_max_db: [10, 20], learning.step_size: [1e-3, 2e-3]}}",
    )
    one = store(tmp_path / "one", NOISE, 1 + NOISE, text=zipped)
    other = store(tmp_path / "other", 1 + NOISE, 2 + NOISE, overrides=("learning.num_devices=8",))
    assert [row["setting"] for row in rows(compare_folders([one, other]))] == ["P₀/N₀ = 10 dB", "P₀/N₀ = 20 dB"]


@pytest.mark.parametrize(("seed", "values"), [(2022, NOISE), (7, np.full(6, 0.1))], ids=["in pairs", "unpaired"])
def test_a_metric_without_a_difference_has_a_sentence_alone(tmp_path: Path, seed: int, values: np.ndarray) -> None:
    one = store(tmp_path / "one", values, 2 * values, overrides=("seed=2022",))
    # The mean of six times 0.1 is not 0.1 but for rounding.
    found = compare_folders([one, store(tmp_path / "other", values, 2 * values, overrides=(f"seed={seed}",))])
    assert (found.results, found.figures) == ({}, [])
    assert {sentence for _, sentence in found.summary} == {"equal in all trials at all sweep points."}
    assert UNMATCHED not in comparison_page(found, command="")


def test_a_run_has_one_look_in_all_panels_and_the_named_axis(tmp_path: Path) -> None:
    text = TEXT.replace("[10, 20]}", "[10, 20], learning.scheme: [digital, analog]}")
    one, other = ([shift + k + NOISE**2 for k in range(4)] for shift in (0, 1))
    folders = [store(tmp_path / "one", *one, text=text), store(tmp_path / "other", *other, text=text)]
    (drawing,) = compare_folders(folders).figures
    assert (drawing.config.x, len(drawing.panels)) == ("link.power.snr_max_db", 2)
    assert {(c.label, c.series) for _, curves in drawing.panels for c in curves} == {("one", 0), ("other", 1)}
    (drawing,) = compare_folders(folders, by="learning.scheme").figures
    assert drawing.config.x == "learning.scheme"
    with pytest.raises(ScenarioError, match=r"learning\.rounds.*use link\.power\.snr_max_db, learning\.scheme, round"):
        compare_folders(folders, by="learning.rounds")


def test_studies_of_two_kinds_are_one_sentence(tmp_path: Path) -> None:
    one = store(tmp_path / "one", NOISE**2)
    text = "name: l\nmeasure: {values: [0, 4]}\nlink: {modulation: qpsk, power: {policy: fixed}}\n"
    (tmp_path / "l.yaml").write_text(text)
    root = load_scenario(tmp_path / "l.yaml").document
    with LinkStore.open(tmp_path / "other", scenario_name="l") as link:
        link.save_scenario(yaml=text, root=root)
    with pytest.raises(ScenarioError, match=r"holds results of phyloop link, and \S*one results of phyloop run; comp"):
        compare_folders([one, tmp_path / "other"])


def test_hostile_names_are_text_on_the_page_and_the_terminal(tmp_path: Path) -> None:
    name, label = "<img src=x onerror=alert(1)>\u202e", "</script><script>alert(2)</script>"
    text = TEXT.replace("{link.power.snr_max_db: [10, 20]}", f"{{label: ['{label}', b]}}")
    text = text.replace("sweep: {", "sweep: {zip: {link.power.snr_max_db: [10, 20], ").replace("]}", "]}}")
    folders = [store(tmp_path / one, NOISE**2, 1 + NOISE**2, text=text) for one in (name, "other")]
    page = comparison_page(compare_folders(folders), command=f"phyloop compare {name}")
    assert "alert(1)" in page
    assert "<img src=x" not in page
    assert "<script>alert" not in page
    assert "\u202e" not in page
    result = phyloop("compare", *folders, "--out", tmp_path / "page.html")
    assert (result.returncode, "\u202e" in result.stdout) == (0, False), result.stderr
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
