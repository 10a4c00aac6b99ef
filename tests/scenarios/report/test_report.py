"""The report page is one honest file: complete, escaped, and without any tie to the outside."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_runs import FIGURE, PROVENANCE, make_plan, make_trial, store_trials

from scenarios.plan.points import Plan
from scenarios.report.html import reflow
from scenarios.report.page import write_report
from scenarios.report.paths import ReportPaths
from scenarios.report.tables.summaries import Mean, rate_interval
from scenarios.schema.errors import ScenarioError
from scenarios.store.store import Store

SNR = "link.power.snr_max_db"
VOID = {"meta", "img", "br", "link", "input", "hr"}


class Checker(HTMLParser):
    """Collects text and attributes, and notices tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(path: Path) -> Checker:
    checker = Checker()
    checker.feed(path.read_text(encoding="utf-8"))
    checker.close()
    assert checker.open == []
    return checker


@pytest.fixture
def plan() -> Plan:
    return make_plan(
        [{SNR: 0.0, "learning.scheme": "digital"}, {SNR: 10.0, "learning.scheme": "digital"}, {SNR: 20.0}],
        trials=3,
        description="Evil <script>alert(1)</script> & co",
        report={"figures": [FIGURE.model_dump()], "notes": "A note with <b>tags</b>"},
    )


def fill(folder: Path, plan: Plan) -> None:
    store_trials(
        folder,
        plan,
        {
            0: [make_trial(t, metrics={"mse": 1.0 + t}) for t in range(3)],
            1: [
                make_trial(0, metrics={"mse": 0.5}, errors=0),
                make_trial(1, metrics={}, failure="NaN in <round> 3"),
            ],
        },
    )
    with Store.open(folder, scenario_name="fake") as store:
        store.save_scenario(yaml="name: fake # <yaml>\n", root={"name": "fake"})
        store.finish_run(store.record_run(PROVENANCE))


def report(folder: Path, plan: Plan) -> ReportPaths:
    with Store.open_existing(folder) as store:
        return write_report(folder, plan, store=store)


def test_the_page_is_well_formed_and_says_what_was_done(plan: Plan, tmp_path: Path) -> None:
    fill(tmp_path, plan)
    paths = report(tmp_path, plan)
    assert paths.html == tmp_path / "report.html"
    assert [p.name for p in paths.figures] == ["01-mse.svg"]
    text = " ".join(" ".join(parsed(paths.html).text).split())
    for part in (
        "4 of 9 trials finished",
        "4 trials missing: this run is not complete.",
        "1 trial failed: they count in no mean",
        "seed 2022",
        "A note with <b>tags</b>",
        "Evil <script>alert(1)</script> & co",
        "name: fake # <yaml>",
        "NaN in <round> 3",
        "2.00 [0.00, 4.48]",
        "18,000 18 0.00100 [0.000593, 0.00158]",
        "6,000 0 < 0.0005 ",
        "phyloop run fake.yaml",
        "A <fast> CPU, 2 in use",
        "0123456789abcdef, with local changes",
        "Figure 1. Mean over",
    ):
        assert part in text, part


def test_the_page_needs_nothing_from_outside_and_runs_its_own_scripts_alone(plan: Plan, tmp_path: Path) -> None:
    fill(tmp_path, plan)
    path = report(tmp_path, plan).html
    text, checker = path.read_text(), parsed(path)
    assert not re.search(r"https?:|//[a-z]", re.sub(r"base64,[^\"]*", "", text[: text.index("<script>")]))
    assert {tag for tag, _ in checker.tags}.isdisjoint({"link", "iframe", "object"})
    assert all((attributes.get("href") or "#").startswith("#") for _, attributes in checker.tags)
    (policy,) = (attributes["content"] or "" for _, attributes in checker.tags if "http-equiv" in attributes)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digests = [b64encode(sha256(one.encode()).digest()).decode() for one in scripts]
    assert len(scripts) == 2
    assert policy.startswith("default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'sha256-")
    assert policy.split("script-src ")[1].split() == [f"'sha256-{one}'" for one in digests]
    images = [attributes for tag, attributes in checker.tags if tag == "img"]
    assert len(images) == 1
    assert (images[0]["src"] or "").startswith("data:image/svg+xml;base64,")
    assert images[0]["alt"]


def test_points_that_were_not_run_have_no_row(plan: Plan, tmp_path: Path) -> None:
    fill(tmp_path, plan)
    text = report(tmp_path, plan).html.read_text()
    results = text[text.index(">Results per point</h2>") : text.index(">Measured error rates</h2>")]
    assert results.count("<tr>") == 1 + 2


def test_a_run_without_any_result_still_has_a_page(plan: Plan, tmp_path: Path) -> None:
    with Store.open(tmp_path, scenario_name="fake") as store:
        store.save_scenario(yaml="", root={})
    text = report(tmp_path, plan).html.read_text()
    assert "No trial is finished yet." in text
    assert "No run was recorded." in text
    assert "No finished trial measured mse." in text


def test_the_same_run_gives_the_same_page_and_leaves_no_temporary_file(plan: Plan, tmp_path: Path) -> None:
    fill(tmp_path, plan)
    first = report(tmp_path, plan).html.read_bytes()
    assert report(tmp_path, plan).html.read_bytes() == first
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {"report.html", "figures", "results.phyloop", "run.lock"}


def test_a_page_that_cannot_be_written_is_an_error_for_the_user(plan: Plan, tmp_path: Path) -> None:
    fill(tmp_path, plan)
    (tmp_path / "report.html").mkdir()
    with pytest.raises(ScenarioError, match="report cannot be written"):
        report(tmp_path, plan)


@pytest.mark.parametrize(
    ("mean", "low", "high", "text"),
    [
        (1.23456, 1.22, 1.25, "1.235 [1.220, 1.250]"),
        (0.001, None, None, "0.001"),
        (123456.0, 100000.0, 150000.0, "1.23e+05 [1.00e+05, 1.50e+05]"),
        (0.0, -1.0, 1.0, "0.000 [-1.000, 1.000]"),
        (27_751_570.0, None, None, "27,751,570"),
        (14_950.0, 14_950.0, 14_950.0, "14,950"),
    ],
)
def test_a_mean_shows_the_digits_its_interval_allows(
    mean: float, low: float | None, high: float | None, text: str
) -> None:
    assert str(Mean(mean=mean, low=low, high=high, trials=5)) == text


def test_a_rate_without_errors_is_shown_as_its_upper_limit() -> None:
    assert str(rate_interval(errors=0, total=1000)) == "< 0.0037"


def test_a_line_end_inside_a_paragraph_is_a_space() -> None:
    assert reflow("one\n  two\n\nthree\n") == "one two\n\nthree"
