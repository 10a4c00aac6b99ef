"""Scenarios from others: no code without a word, no file beside the named ones, no text that runs where it is shown."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake_runs import PROVENANCE, make_plan, make_trial, store_trials
from learning_run import export
from pace import OwnTime
from sentences import sentence_about

from scenarios.cli.check import check_scenario
from scenarios.report.page import write_report
from scenarios.report.tables.table import csv_cell
from scenarios.schema.errors import ScenarioError, printable
from scenarios.schema.loader import load_scenario
from scenarios.store.store import Store

HTML = '<script>alert("x")</script>'


@pytest.mark.parametrize("base", ["/etc/passwd", "../secret.yaml", "sub/../../secret.yaml", "link.yaml", "/dev/zero"])
def test_a_base_outside_the_folder_is_refused(base: str, tmp_path: Path) -> None:
    folder = tmp_path / "scenarios"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.yaml").write_text("token: 1234\n")
    (folder / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    said = sentence_about(f"name: a\nbase: {base}\n", folder)
    assert said.startswith(f"s.yaml:2: base = {base}: ")
    assert "outside the folder" in said or "neither a file beside" in said
    assert "1234" not in said


def test_a_base_below_the_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.yaml").write_text("seed: 5\n")
    (tmp_path / "s.yaml").write_text("name: a\nbase: sub/b.yaml\n")
    assert load_scenario(tmp_path / "s.yaml").scenario.seed == 5


def test_a_long_chain_of_bases_is_refused(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}.yaml").write_text(f"base: {number + 1}.yaml\n")
    assert "more than 16 files, each the base of another" in sentence_about("name: a\nbase: 0.yaml\n", tmp_path)


@pytest.mark.parametrize("key", ["name", "label", "description"])
@pytest.mark.parametrize("character", ["\\e", "\\0", "\\x7F", "\\u202E", "\\u009B", "\\r"])
def test_characters_that_steer_a_terminal_are_refused_and_not_printed(key: str, character: str, tmp_path: Path) -> None:
    said = sentence_about(f'{key}: "a{character}[2J"\n', tmp_path)
    assert "cannot be shown; leave it out." in said
    assert said.isprintable()


def test_an_error_escapes_characters_that_steer_a_terminal() -> None:
    assert printable("a\x1b[2J\u202e\n\u2028é \xa0😀") == "a\\x1b[2J\\u202e\\n\\u2028é \xa0😀"
    assert str(ScenarioError(problem="p", remedy="r", file="a\x1bb")) == "a\\x1bb: p; r."


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a\\b", "", "-a", "~", "a b", "a" * 81, "../x", "a\u0301", "CON:"])
def test_a_name_must_be_a_plain_file_name(name: str, tmp_path: Path) -> None:
    assert "must be" in sentence_about(f'name: "{name}"\n'.replace("\\", "\\\\"), tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"label: {'a' * 201}\n", "at most 200 characters"),
        (f"description: {'a' * 20_001}\n", "at most 20000 characters"),
        ("report: {figures: [" + "{x: label, y: mse}, " * 101 + "]}\n", "at most 100 entries"),
        (f"{'k' * 201}: 1\n", "a key must be text of at most 200 characters"),
        ("".join(f"k{number}: 1\n" for number in range(1001)), "a mapping of more than 1000 keys"),
        ("sweep:\n" + "".join(f"  {key}: {list(range(1, 1001))}\n" for key in (
            "learning.rounds", "learning.num_devices", "link.probe_bits")), "1,000,000,000 points, more than 100,000"),
        ("sweep: {label: " + str(list(range(30_000))) + "}\n", "the same task twice"),
        ("sweep: {label: [" + ", ".join(f"&a{number} {number}" for number in range(1001)) + "]}\n", "1000 anchors"),
        ("sweep: {label: [&a 1" + ", *a" * 1000 + "]}\n", "more than 1000 anchors and aliases"),
    ],
)  # fmt: skip
def test_too_long_input_is_refused_at_once(text: str, words: str, tmp_path: Path) -> None:
    assert words in sentence_about(f"name: a\n{text}", tmp_path)


def test_many_bad_lines_raise_the_first_errors_within_a_second(tmp_path: Path) -> None:
    nonsense = "".join(f"  k{key}: 1\n" for key in range(990))
    text = "name: a\n" + "".join(f"{section}:\n{nonsense}" for section in ("link", "learning", "report", "measure"))
    with OwnTime() as own:
        sentences = sentence_about(text, tmp_path).split("\n")
    assert sentences[0].startswith("s.yaml:3: link.k0 = 1: unknown key;")
    assert sentences[-1].endswith(f"({4 * 990 + 1 - len(sentences):,} more errors to correct after this).")
    assert own.seconds < 1.0


HOSTILE = ("=HYPERLINK(1)", HTML, "[/bold]", r"$\frac{$", "a|b", "%s{0}", "\\")


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The run folder and the CSV folder of a run whose texts are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    figures = [{"x": "learning.num_devices", "y": "mse", "series": "label", "title": " ".join(HOSTILE)}]
    settings = [{"label": label, "learning.num_devices": number} for label in HOSTILE for number in (2, 3)]
    report = {"figures": figures, "notes": HTML}
    plan = make_plan(settings, trials=2, description=HTML, report=report)
    trials = [make_trial(trial, metrics={"mse": 0.5 + trial}) for trial in range(2)]
    store_trials(folder / "run", plan, dict.fromkeys(range(len(plan.points)), trials))
    with Store.open(folder / "run", scenario_name="fake") as store:
        store.save_scenario(yaml=f"description: {HTML}", root={"name": "fake"})
        store.finish_run(store.record_run(PROVENANCE))
        write_report(folder / "run", plan, store=store)
    export(folder / "run", folder / "csv", plan=plan)
    return folder / "run", folder / "csv"


def test_markup_in_text_is_shown_and_not_interpreted(reported: tuple[Path, Path]) -> None:
    page = (reported[0] / "report.html").read_text()
    assert HTML not in page
    assert page.count("&lt;script&gt;alert") >= 3
    (described,) = re.findall(r'<script type="application/json">(.*?)</script>', page)
    assert not set("<>&") & set(described)
    labels = [curve["label"] for panel in json.loads(described)["panels"] for curve in panel["curves"]]
    assert labels == list(HOSTILE)


def test_marks_that_turn_the_direction_of_text_are_shown_as_escapes(tmp_path: Path) -> None:
    turning = "a\u202eb\u2067c"
    figure = {"x": "learning.num_devices", "y": "mse", "series": "label", "title": turning}
    settings = [{"label": turning, "learning.num_devices": number} for number in (2, 3)]
    plan = make_plan(settings, trials=1, description=turning, report={"figures": [figure], "notes": turning})
    store_trials(tmp_path, plan, {index: [make_trial(0, metrics={"mse": 0.5})] for index in (0, 1)})
    with Store.open(tmp_path, scenario_name="fake") as store:
        store.save_scenario(yaml=turning, root={"name": "fake"})
        page = write_report(tmp_path, plan, store=store).html.read_text()
    ours = page[: page.index("<script>")]
    assert not set(ours) & set("\u202e\u2067")
    assert ours.count("aU+202EbU+2067c") >= 5
    assert "a\\\\u202eb" in ours


def test_figures_with_hostile_labels_are_drawn(reported: tuple[Path, Path]) -> None:
    pictures = list((reported[0] / "figures").glob("*.svg"))
    assert pictures
    for picture in pictures:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", picture.name)
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(picture).iter()}
        assert not tags & {"script", "foreignObject"}


def test_text_that_begins_like_a_formula_is_escaped_in_csv(reported: tuple[Path, Path]) -> None:
    rows = list(csv.DictReader(io.StringIO((reported[1] / "metrics.csv").read_text())))
    labels = {row["label"] for row in rows}
    assert "'=HYPERLINK(1)" in labels
    assert labels >= set(HOSTILE[1:])
    assert csv_cell(-1.5) == -1.5
    assert csv_cell("@x") == "'@x"


def test_brackets_in_labels_do_not_break_the_console(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text(
        "name: a\nsweep: {zip: {label: ['[/bold]', '[red]x', ':smile:'], link.power.snr_max_db: [2, 3, 4]}}\n"
    )
    check_scenario(str(tmp_path / "s.yaml"), overrides=(), trials=1, seed=None)
    said = capsys.readouterr().out
    assert "[/bold]" in said
    assert "[red]x" in said
