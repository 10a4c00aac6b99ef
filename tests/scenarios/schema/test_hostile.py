"""Scenarios from others: no code without a word, no file beside the named ones, no text that runs where it is shown."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake_runs import PROVENANCE, make_plan, make_trial, store_trials
from learning_run import export, run_scenario
from pace import OwnTime
from sentences import sentence_about

from fl.models.custom import check_digest, code_digest
from fl.tasks.base import LearningError
from scenarios.cli.check import check_scenario
from scenarios.plan.identity import physics_json
from scenarios.plan.own_code import with_own_code
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.report.page import write_report
from scenarios.report.tables.table import csv_cell
from scenarios.schema.errors import ScenarioError, printable
from scenarios.schema.loader import as_yaml, load_scenario, resolved_data
from scenarios.schema.permission import code_allowed
from scenarios.store.store import Store

OWN = "name: a\nlearning: {algorithm: fedavg, data: digits, model: 'pack.nets:net'}\n"
HTML = '<script>alert("x")</script>'


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario with a model of its own, whose package says so if it is imported."""
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("open('imported', 'w').close()\n")
    (tmp_path / "pack" / "nets.py").write_text("open('imported', 'w').close()\n")
    (tmp_path / "s.yaml").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    return tmp_path / "s.yaml"


def pinned(path: Path) -> Plan:
    loaded = load_scenario(path)
    with code_allowed():
        return with_own_code(loaded, expand(loaded))[1]


def test_code_of_a_scenario_is_not_run_unless_allowed(own: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        run_scenario(str(own), out=own.parent / "run", overrides=(), trials=None, seed=None)
    assert str(caught.value) == (
        f"{own}:2: learning.model: the scenario names pack.nets:net, Python code that runs with your rights; "
        "read it, and if you trust it and all that it imports, add --allow-code."
    )
    assert not (own.parent / "run").exists()


def test_check_and_planning_do_not_import_the_users_code(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_scenario(str(own), overrides=(), trials=None, seed=None)
    assert "run asks for --allow-code" in capsys.readouterr().out
    pinned(own)
    assert not (own.parent / "imported").exists()


def test_the_file_of_the_users_code_is_part_of_the_identity(own: Path) -> None:
    file = own.parent / "pack" / "nets.py"
    (point,) = pinned(own).points
    assert point.scenario.learning.model.digest == hashlib.sha256(file.read_bytes()).hexdigest()  # type: ignore[union-attr]
    before = physics_json(point.scenario)
    file.write_text("other = 1\n")
    assert physics_json(pinned(own).points[0].scenario) != before
    (own.parent / "pack" / "__init__.py").write_text("")  # what it imports is not looked at
    assert physics_json(pinned(own).points[0].scenario) == physics_json(pinned(own).points[0].scenario)


def test_a_resolved_scenario_continues_only_with_the_same_code(own: Path) -> None:
    loaded = load_scenario(own)
    with code_allowed():
        kept, _ = with_own_code(loaded, expand(loaded))
    again = own.parent / "again.yaml"
    again.write_text(as_yaml(resolved_data(kept.scenario)))
    assert physics_json(pinned(again).points[0].scenario) == physics_json(pinned(own).points[0].scenario)
    (own.parent / "pack" / "nets.py").write_text("other = 1\n")
    with pytest.raises(ScenarioError, match=r"code\.pack\.nets: its file now has SHA-256 .* leave code: out"):
        pinned(again)
    with pytest.raises(
        LearningError, match="its file has SHA-256"
    ):  # where the model is built, on another machine, say
        check_digest("pack.nets:net", digest=kept.scenario.code["pack.nets"])


@pytest.mark.parametrize("module", ["nowhere", "pack.nowhere", "pack.nets.deeper", "sys", "itertools"])
@pytest.mark.usefixtures("own")
def test_code_without_a_file_is_refused(module: str) -> None:
    with pytest.raises(LearningError, match=r"there is no module|is not a file of Python"):
        code_digest(f"{module}:net")


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
        (f"{'k' * 201}: 1\n", "a key of more than 200 characters"),
        ("".join(f"k{number}: 1\n" for number in range(1001)), "a mapping of more than 1000 keys"),
        ("sweep:\n" + "".join(f"  {key}: {list(range(1, 1001))}\n" for key in (
            "learning.rounds", "learning.num_devices", "link.probe_bits")), "1000000000 points, more than 100000"),
        ("sweep: {label: " + str(list(range(30_000))) + "}\n", "the same task twice"),
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
    assert sentences[-1].endswith(f"({4 * 990 + 1 - len(sentences)} more errors to correct after this).")
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
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 3


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
        "name: a\nsweep: {zip: {label: ['[/bold]', '[red]x', ':smile:'], learning.num_devices: [2, 3, 4]}}\n"
    )
    check_scenario(str(tmp_path / "s.yaml"), overrides=(), trials=1, seed=None)
    said = capsys.readouterr().out
    assert "[/bold]" in said
    assert "[red]x" in said
