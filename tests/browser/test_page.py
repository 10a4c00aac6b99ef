"""The report page in a browser: curves, tables, both themes, a phone and paper, and no request to any host.

Needs a chromium of the system.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_runs import PROVENANCE, make_plan, make_trial, store_trials, stored_run
from playwright.sync_api import sync_playwright

from fl.base.results import TrialResult
from scenarios.engine.options import RunOptions
from scenarios.engine.run import run_study
from scenarios.plan.points import Plan
from scenarios.report.comparison import comparison_page
from scenarios.report.page import write_report
from scenarios.schema.loader import load_scenario
from scenarios.store.store import Store
from scenarios.studies.comparing import compare_folders
from scenarios.studies.folders import study_in, write_report_of
from scenarios.studies.index import write_index
from scenarios.studies.link.inspection import inspect_point, write_inspection
from scenarios.studies.link.plan import expand_link
from scenarios.studies.tune.search import Search

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# pip installs no browser, and only Python is asked for; pytest says at its end why these tests did not run.
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="neither chromium nor google-chrome is in PATH")

SNR = "link.power.snr_max_db"
EVIL = '<img src=x onerror="window.broken=1"><script>window.broken=1</script> @{y} $$x$$ @y{safe}'
HOSTILE = EVIL.replace("'", "").replace('"', "`")
READY_MS = 2000
METRICS = ("mse", "wasserstein2", "variance_ratio")

# Where a spot lies on the screen, which renderers of its curve are visible, and the range of x.
LOOK = """([place, label, index]) => {
  const curves = figures.get(place), own = curves.curves[0].filter((one) => one.name === label);
  const marks = own.find((one) => one.glyph.type === "Scatter") ?? own[own.length - 1];
  const plot = Bokeh.documents.flatMap((one) => one.roots()).find((one) => one.renderers.includes(marks));
  const view = Bokeh.index.find_one(plot), { frame } = view, data = marks.data_source.data;
  const box = view.canvas_view.el.getBoundingClientRect();
  return {
    x: box.x + frame.x_scale.compute(data.x[index]), y: box.y + frame.y_scale.compute(data.y[index]),
    visible: own.map((one) => one.visible), range: [plot.x_range.start, plot.x_range.end],
    frame: [box.x + frame.bbox.left, box.y + frame.bbox.top, frame.bbox.width, frame.bbox.height],
  };
}"""
TIPS = """() => {
  const rows = [];
  const walk = (node) => node.querySelectorAll("*").forEach((one) => {
    if (one.shadowRoot) walk(one.shadowRoot);
    if (String(one.className).includes("bk-tooltip-row-")) rows.push(one.textContent.trim());
  });
  walk(document);
  return rows;
}"""
TICKS = """([low, high]) => {
  const [plot] = Bokeh.documents.flatMap((one) => one.roots());
  return plot.left[0].ticker.get_ticks(low, high, plot.y_range, NaN).major;
}"""
DRAWN = """(place) => figures.get(place).drawn && Bokeh.documents.every(
  (one) => one.roots().every((plot) => Bokeh.index.find_one(plot)?.has_finished()))"""


def page_of(folder: Path, plan: Plan, trials: dict[int, list[TrialResult]]) -> Path:
    """Store trials of a plan, and write its page."""
    store_trials(folder, plan, trials)
    with Store.open(folder, scenario_name="fake") as store:
        store.save_scenario(yaml="name: fake\n", root={"name": "fake"})
        store.finish_run(store.record_run(PROVENANCE))
        return write_report(folder, plan, store=store).html


def write_page(folder: Path, *, first: str = "one scheme") -> Path:
    """Write a page of two curves over three SNRs in two panels, and a table of twelve rows."""
    settings = [
        {"label": label, SNR: snr, "learning.num_devices": devices}
        for label in (first, "another")
        for snr in (0.0, 10.0, 20.0)
        for devices in (2, 4)
    ]
    figures: list[dict[str, Any]] = [
        {"x": SNR, "y": y, "series": "label", "panels": "learning.num_devices", "title": first}
        for y in ("mse", "bit_error_rate")
    ]
    figures.append({"x": "label", "y": "mse", "series": "learning.num_devices", "where": {SNR: 0}})
    plan = make_plan(settings, trials=4, report={"figures": figures, "notes": first}, description=first)
    trials = {
        point.index: [make_trial(t, metrics={"mse": 2.0 + point.index + 0.01 * t}) for t in range(4)]
        for point in plan.points
    }
    return page_of(folder, plan, trials)


class Browser:
    """A page in chromium; collects errors and requests."""

    def __init__(self, chromium: Any, path: Path, **context: Any) -> None:
        self.page = chromium.new_context(**context).new_page()
        self.errors, self.requests = list[str](), list[str]()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.errors.append(said.text))
        self.page.on("request", lambda one: self.requests.append(one.url.partition(":")[0]))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]", state="attached")
        self.results = self.page.locator("section", has=self.page.get_by_role("heading", name="Results per point"))
        if self.page.locator("figure.curves").count():
            self.show(0)

    def ready_ms(self, tries: int = 5) -> int:
        """Return the time until the page was ready; it is loaded again where others may load the machine."""
        time = int(self.page.locator("html").get_attribute("data-ready"))
        if time < READY_MS or tries == 1:
            return time
        self.page.reload()
        self.page.wait_for_selector("html[data-ready]", state="attached")
        return self.ready_ms(tries - 1)

    def show(self, number: int) -> None:
        """Scroll to a figure, which is drawn when it comes near."""
        self.figure = self.page.locator("figure.curves").nth(number)
        self.figure.scroll_into_view_if_needed()
        self.page.wait_for_function(DRAWN, arg=self.figure.element_handle())
        self.page.evaluate("turn")  # its neighbours are drawn
        self.figure.locator(".bk-Figure").first.hover(trial=True)  # and nothing moves any more

    def look(self, label: str, *, spot: int = 0) -> Any:
        return self.page.evaluate(LOOK, [self.figure.element_handle(), label, spot])

    def wait_for(self, label: str, condition: str) -> None:
        """Wait until a condition on what `look` returns holds; while a figure is drawn anew there is nothing to see."""
        seen = f"(at) => {{ try {{ return ({LOOK})(at).{condition}; }} catch {{ return false; }} }}"
        self.page.wait_for_function(seen, arg=[self.figure.element_handle(), label, 0])

    def tips(self, label: str, *, spot: int) -> list[str]:
        """Return heads and values of the tooltip at a spot."""
        at = self.look(label, spot=spot)
        self.page.mouse.move(at["x"] - 3, at["y"])
        self.page.mouse.move(at["x"], at["y"], steps=3)
        self.page.wait_for_function(f"() => ({TIPS})().length > 0")
        return list(self.page.evaluate(TIPS))

    def cells(self, column: int) -> list[str]:
        rows = self.results.locator("tbody tr:not([hidden])")
        return [row.locator("td").nth(column).text_content() for row in rows.all()]


def assert_harmless(chromium: Any, page: Path) -> None:
    """Open a page on a phone: it runs nothing from its scenario, asks no host, and is not wider than the phone."""
    opened = Browser(chromium, page, viewport={"width": 420, "height": 850})
    assert opened.page.evaluate("window.broken") is None
    assert opened.page.locator("img[src=x]").count() == 0
    assert "\u202e" not in opened.page.locator("html").inner_text()
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 420
    assert set(opened.requests) <= {"file", "data", "blob"}
    assert opened.errors == []


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def inspection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of 16 packets over Rayleigh fading, of a link study whose words are hostile."""
    folder = tmp_path_factory.mktemp("inspection")
    (folder / "links.yaml").write_text(
        f"name: a\ndescription: '{HOSTILE}'\nmeasure: {{values: [6]}}\n"
        "link: {channel: {fading: rayleigh, coherence: packet}, power: {policy: fixed}, packet_size_bytes: 32}\n"
        f"sweep: {{zip: {{link.modulation: [16qam, qpsk], label: ['{HOSTILE}', b]}}}}\n"
    )
    plan = expand_link(load_scenario(folder / "links.yaml"))
    return write_inspection(folder, inspect_point(folder, plan, at={"link.modulation": "16qam"}, num_packets=16))[0]


@pytest.fixture
def opened(chromium: Any, path: Path) -> Iterator[Browser]:
    browser = Browser(chromium, path, viewport={"width": 1280, "height": 900})
    yield browser
    assert browser.errors == []
    assert set(browser.requests) <= {"file", "data", "blob"}


def test_the_page_is_ready_within_two_seconds(opened: Browser) -> None:
    assert opened.ready_ms() < READY_MS


@pytest.mark.slow
def test_a_page_of_25800_tasks_is_below_8_megabytes_and_ready_within_two_seconds(chromium: Any, tmp_path: Path) -> None:
    settings = [
        {"learning.scheme": scheme, "learning.num_devices": devices, SNR: float(snr)}
        for scheme in ("analog", "digital")
        for devices in (5, 10, 20, 40, 80)
        for snr in range(86)
    ]
    figures = [{"x": SNR, "y": y, "series": "learning.num_devices", "panels": "learning.scheme"} for y in METRICS]
    plan = make_plan(settings, trials=30, report={"figures": figures})
    numbers = np.random.default_rng(1).random((len(settings), 30))
    trials = {
        point: [make_trial(trial, metrics=dict.fromkeys(METRICS, value)) for trial, value in enumerate(values)]
        for point, values in enumerate(numbers)
    }
    path = page_of(tmp_path, plan, trials)
    assert path.stat().st_size < 8e6
    opened = Browser(chromium, path, viewport={"width": 1280, "height": 900})
    assert "25800 of 25800" in opened.page.locator(".facts").inner_text()
    assert opened.ready_ms() < READY_MS


def test_the_legend_hides_a_curve_with_its_interval_in_all_panels_and_shows_it_again(opened: Browser) -> None:
    button = opened.figure.locator(".legend button").first
    assert set(opened.look("one scheme")["visible"]) == {True}
    button.click()
    assert set(opened.look("one scheme")["visible"]) == {False}
    assert set(opened.look("another")["visible"]) == {True}
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert set(opened.look("one scheme")["visible"]) == {True}


def test_a_dragged_box_zooms_all_panels(opened: Browser) -> None:
    before = opened.look("another")
    left, top, width, height = before["frame"]
    mouse, (start, end) = opened.page.mouse, before["range"]
    mouse.move(left + 0.2 * width, top + 0.2 * height)
    mouse.down()
    mouse.move(left + 0.6 * width, top + 0.6 * height, steps=5)
    mouse.up()
    opened.wait_for("another", f"range[0] > {start}")
    low, high = opened.look("another")["range"]
    assert high - low == pytest.approx(0.4 * (end - start), rel=0.05)


def test_a_logarithmic_axis_of_one_to_two_decades_has_ticks_in_both(chromium: Any, tmp_path: Path) -> None:
    low, high = 0.011, 0.43
    figure = {"x": SNR, "y": "mse", "y_scale": "log"}
    plan = make_plan([{SNR: 0.0}, {SNR: 10.0}], trials=1, report={"figures": [figure]})
    trials = {at: [make_trial(0, metrics={"mse": one})] for at, one in enumerate((low, high))}
    opened = Browser(chromium, page_of(tmp_path, plan, trials))
    ticks = opened.page.evaluate(TICKS, [low, high])
    assert any(low < one < 0.1 for one in ticks)
    assert any(0.1 < one < high for one in ticks)


def test_a_figure_of_many_panels_is_drawn_whole(chromium: Any, tmp_path: Path) -> None:
    settings = [{SNR: snr, "learning.num_devices": devices} for devices in range(2, 10) for snr in (0.0, 10.0)]
    plan = make_plan(settings, trials=1, report={"figures": [{"x": SNR, "y": "mse", "panels": "learning.num_devices"}]})
    opened = Browser(chromium, page_of(tmp_path, plan, {at: [make_trial(0, metrics={"mse": at})] for at in range(16)}))
    assert opened.figure.locator(".bk-Figure").count() == 8


def test_the_tooltip_has_series_value_interval_trials_and_seed(opened: Browser) -> None:
    tips = opened.tips("another", spot=1)
    heads = dict(zip(tips[::2], tips[1::2], strict=True))
    assert heads["series:"] == "another"
    assert heads["MSE to the posterior mean:"] == "10.015"
    assert heads["interval:"] == "9.9945 to 10.036"
    assert (heads["trials:"], heads["seed:"]) == ("4", "2022")


def test_the_tooltip_of_a_rate_has_its_counts(opened: Browser) -> None:
    opened.show(1)
    tips = opened.tips("another", spot=1)
    assert "24 of 24,000 bits" in tips


def test_the_table_sorts_by_a_click_and_filters_by_words(opened: Browser) -> None:
    heads = opened.results.locator("th")
    assert heads.nth(0).text_content() == "setting"
    assert heads.nth(1).text_content() == "MSE to the posterior mean"
    before = opened.cells(1)
    heads.nth(1).locator("button").click()
    heads.nth(1).locator("button").click()
    assert opened.cells(1) == before[::-1]
    opened.results.locator("input[type=search]").fill("another 20 dB")
    assert [text[:4] for text in opened.cells(1)] == ["13.0", "12.0"]


def test_the_switch_turns_the_page_dark_and_keeps_hidden_curves_hidden(opened: Browser) -> None:
    opened.figure.locator(".legend button").first.click()
    light = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.page.click("#theme")
    opened.wait_for("one scheme", "visible.every((one) => !one)")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert set(opened.look("another")["visible"]) == {True}


def test_the_page_follows_the_theme_of_the_system(chromium: Any, path: Path) -> None:
    dark = Browser(chromium, path, color_scheme="dark")
    assert dark.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"


def test_nothing_is_wider_than_a_phone(chromium: Any, path: Path) -> None:
    phone = Browser(chromium, path, viewport={"width": 420, "height": 850})
    assert phone.page.evaluate("document.documentElement.scrollWidth") == 420
    widths = phone.page.evaluate("[...document.querySelectorAll('.bk-Figure')].map((one) => one.clientWidth)")
    assert min(widths) > 350


def test_paper_has_pictures_in_place_of_what_needs_a_screen(chromium: Any, path: Path) -> None:
    page = Browser(chromium, path, viewport={"width": 1000, "height": 900}).page
    page.emulate_media(media="print")
    assert page.locator("figure.curves img").first.is_visible()
    assert not page.locator(".plots").first.is_visible()
    assert not page.locator("nav").is_visible()


def test_a_wide_table_fits_on_paper_with_its_heads_on_every_sheet(chromium: Any, path: Path) -> None:
    page = Browser(chromium, path, viewport={"width": 720, "height": 900}).page
    page.emulate_media(media="print")
    table = page.locator("table:has(thead)").last
    first = table.locator("tbody td").first.bounding_box()
    assert first["width"] > 80  # a word has room
    assert first["height"] < 100
    button = table.locator("th button").first
    assert button.evaluate("(one) => getComputedStyle(one).display") == "contents"  # chromium repeats no button


def test_without_scripts_the_page_has_pictures(chromium: Any, path: Path) -> None:
    page = chromium.new_context(java_script_enabled=False).new_page()
    page.goto(path.as_uri())
    assert page.locator("figure.curves img").first.is_visible()


def test_text_of_a_hostile_scenario_is_shown_and_runs_nothing(chromium: Any, tmp_path: Path) -> None:
    opened = Browser(chromium, write_page(tmp_path, first=EVIL), viewport={"width": 1280, "height": 900})
    assert EVIL in opened.figure.locator(".legend button").first.inner_text()
    assert EVIL in opened.tips(EVIL, spot=1)
    opened.show(2)  # the label stands below its axis
    assert opened.page.evaluate("window.broken") is None
    assert opened.page.locator("img[src=x]").count() == 0
    assert set(opened.requests) <= {"file", "data", "blob"}
    assert opened.errors == []


def test_hostile_runs_run_nothing_on_pages_of_several_runs(chromium: Any, tmp_path: Path) -> None:
    name = '<img src=x onerror="window.broken=1">\u202e'
    text = (
        f"name: a\ndescription: '{HOSTILE}'\ntrials: 3\nlearning: {{scheme: digital}}\n"
        f"sweep: {{zip: {{{SNR}: [0, 10], label: ['{HOSTILE}', b]}}}}\n"
        f"report: {{notes: '{HOSTILE}', figures: [{{x: {SNR}, y: mse, series: label}}]}}\n"
    )
    folders = [stored_run(tmp_path / "runs" / one, [1.0, 2, 3], [2.0, 3, 4], text=text) for one in (name, "other")]
    for folder in folders:
        write_report_of(study_in(folder), folder)
    compare = tmp_path / "compare.html"
    compare.write_text(comparison_page(compare_folders(folders), command=f"phyloop compare {name}"))
    for page in (compare, write_index(tmp_path / "runs")[0], folders[0] / "report.html"):
        assert_harmless(chromium, page)


def test_hostile_studies_run_nothing_on_pages_of_inspections_and_searches(
    chromium: Any, inspection: Path, tmp_path: Path
) -> None:
    (tmp_path / "steps.yaml").write_text(
        f"name: a\ndescription: '{HOSTILE}'\ntrials: 3\nreport: {{notes: '{HOSTILE}'}}\n"
        "learning: {scheme: noiseless, rounds: 4, burn_in: 2, gradient_bound: 1.0e+6}\n"
        f"sweep: {{zip: {{learning.num_devices: [2, 3], label: ['{HOSTILE}', b]}}}}\n"
        "tune: {keys: {learning.step_size: [0.0001, 0.0002]}, per: label, trials: 3}\n"
    )
    search = Search(tmp_path / "steps.yaml", out=tmp_path / "run", options=RunOptions())
    for study in search.studies():
        run_study(study, folder=tmp_path / "run")
    assert_harmless(chromium, inspection)
    assert_harmless(chromium, search.write(command=f"phyloop tune {HOSTILE}").html)


def test_the_pointer_shows_numbers_of_packets_symbols_and_channels(chromium: Any, inspection: Path) -> None:
    opened = Browser(chromium, inspection, viewport={"width": 1280, "height": 900})
    spots = {
        "Error positions": ("", ["packet:", "payload bit:", "wrong bits of the packet:"]),
        "Constellation": ("wrong decision", ["packet:", "symbol of the packet:", "in-phase part:", "quadrature part:"]),
        "Channel": ("", ["packet:", "|h|² [dB]:", "bits:"]),
    }
    for number, title in enumerate(opened.page.locator("figure.curves h3").all_inner_texts()):
        if (name := title.partition(" at ")[0].partition(":")[0]) in spots:
            label, heads = spots.pop(name)
            opened.show(number)
            tips = opened.tips(label, spot=0)
            assert tips[: 2 * len(heads) : 2] == heads
            assert all(text and "???" not in text for text in tips)
    assert spots == {}
    assert opened.errors == []
