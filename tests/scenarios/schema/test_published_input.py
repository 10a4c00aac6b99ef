"""Published numbers that cannot stand beside a point are refused before the run, with file, line and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentences import sentence_about

from scenarios.plan.plan import expand
from scenarios.report.check import check_tables
from scenarios.report.published import without_others
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import as_yaml, load_scenario, resolved_root

HEAD = """name: a
learning: {algorithm: fedavg}
sweep:
  learning.num_devices: [10, 20]
  zip: {learning.local.steps: [1, 2], label: [CPA, nested CPA]}
report:
  tables:
"""
GOOD = "{metric: test_accuracy, source: S, at: {learning.num_devices: [10, 20]}, published: ROWS}"


def said_of(line: str, folder: Path) -> str:
    """What the check says of one table on line 8."""
    (folder / "s.yaml").write_text(f"{HEAD}    - {line}\n")
    loaded = load_scenario(folder / "s.yaml")
    with pytest.raises(ScenarioError) as caught:
        check_tables(loaded, expand(loaded))
    return str(caught.value).removeprefix(f"{folder}/")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            GOOD.replace("test_accuracy", "test_acuracy").replace("ROWS", "[{values: [1, 2]}]"),
            "s.yaml:8: report.tables[0].metric = test_acuracy: names no number of a whole trial; did you mean "
            "test_accuracy or best_accuracy.",
        ),
        (
            "{metric: test_loss, unit: percent, source: S, published: [{values: 1}]}",
            "s.yaml:8: report.tables[0].unit = percent: test_loss is no share, and has no percent; leave unit out.",
        ),
        (
            GOOD.replace("ROWS", "[]"),
            "s.yaml:8: report.tables[0].published: holds no number; add one, or leave the table out.",
        ),
        (
            GOOD.replace("num_devices", "num_device").replace("ROWS", "[{values: [1, 2]}]"),
            "s.yaml:8: report.tables[0].at.learning.num_device: names no key of a scenario; did you mean "
            "learning.num_devices.",
        ),
        (
            GOOD.replace("ROWS", "[{at: {labl: CPA}, values: [1, 2]}]"),
            "s.yaml:8: report.tables[0].published[0].at.labl: names no key of a scenario; did you mean label.",
        ),
        (
            GOOD.replace("ROWS", "[{at: {label: CPAA}, values: [1, 2]}]"),
            "s.yaml:8: report.tables[0].published[0].at.label: no point has label CPAA; did you mean CPA.",
        ),
        (
            GOOD.replace("ROWS", "[{at: {label: Laplace}, values: [1, 2]}]"),
            "s.yaml:8: report.tables[0].published[0].at.label: no point has label Laplace; write one of CPA or "
            "nested CPA.",
        ),
        (
            GOOD.replace("ROWS", "[{at: {learning.model.name: linaer}, values: [1, 2]}]"),
            "s.yaml:8: report.tables[0].published[0].at.learning.model.name: no point has learning.model.name linaer; "
            "did you mean linear.",
        ),
        (
            GOOD.replace("ROWS", "[{at: {label: {name: CPA}}, values: [1, 2]}]"),
            "s.yaml:8: report.tables[0].published[0].at.label = {name: CPA}: must be a word, a number or a list of "
            "them; write for example CPA.",
        ),
        (
            GOOD.replace("ROWS", "[{at: {label: CPA}, values: [1, 2, 3]}]"),
            "s.yaml:8: report.tables[0].published[0].values: lists 3 numbers, and learning.num_devices 2 values; make "
            "the lists equally long.",
        ),
        (
            GOOD.replace("ROWS", "[{at: {label: CPA}, values: 1}]"),
            "s.yaml:8: report.tables[0].published[0].values = 1.0: is one number, and learning.num_devices lists 2 "
            "values; write a list of as many numbers, or one value.",
        ),
        (
            "{metric: test_accuracy, source: S, published: [{at: {label: CPA}, values: [1, 2]}]}",
            "s.yaml:8: report.tables[0].published[0].values: lists 2 numbers, and no setting in at lists where they "
            "belong; write one number, or list the values of a swept path in at.",
        ),
        (
            "{metric: test_accuracy, source: S, published: [{at: {label: CPA}, values: 1}]}",
            "s.yaml:8: report.tables[0].published[0]: its settings are those of 2 points; add learning.num_devices to "
            "at, or run without published numbers: --set report.tables=[].",
        ),
        (
            GOOD.replace("ROWS", "[{at: {label: CPA}, values: [1, 2]}, {at: {label: CPA}, values: [3, 4]}]"),
            "s.yaml:8: report.tables[0].published[1]: two numbers, 1 and 3, belong to one point; keep one of them.",
        ),
    ],
)
def test_a_bad_table_raises_one_sentence_with_its_line(line: str, sentence: str, tmp_path: Path) -> None:
    assert said_of(line, tmp_path) == sentence


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "{metric: test_accuracy, source: S, published: [{values: high}]}",
            "report.tables[0].published[0].values = high: must be a number or a list of numbers; write for example 85.",
        ),
        (
            "{metric: test_accuracy, source: S, published: [{values: .nan}]}",
            "report.tables[0].published[0].values = nan: must be a number or a list of numbers; write for example 85.",
        ),
        (
            "{metric: test_accuracy, source: S, rounded_to: 0, published: [{values: 1}]}",
            "report.tables[0].rounded_to = 0: must be above 0; write for example 1.",
        ),
        (
            "{metric: test_accuracy, source: S, unit: per cent, published: [{values: 1}]}",
            "report.tables[0].unit = per cent: must be as-measured or percent; did you mean percent.",
        ),
        (
            "{metric: test_accuracy, published: [{values: 1}]}",
            "report.tables[0].source: the key is missing; add source: under report.tables[0].",
        ),
        (
            "{metric: test_accuracy, source: '', published: [{values: 1}]}",
            'report.tables[0].source = "": must not be empty; write some text.',
        ),
        (
            "{metric: test_accuracy, source: S, publishd: [{values: 1}], published: [{values: 1}]}",
            "report.tables[0].publishd: unknown key; leave it out: the keys of report.tables are metric, source, "
            "published, at, unit, rounded_to, comparable, title and note.",
        ),
    ],
)
def test_a_table_of_the_wrong_form_raises_one_sentence_with_its_line(line: str, sentence: str, tmp_path: Path) -> None:
    assert sentence_about(f"{HEAD}    - {line}\n", tmp_path) == f"s.yaml:8: {sentence}"


def checked(file: Path, *, overrides: tuple[str, ...] = ()) -> None:
    loaded = load_scenario(file, overrides=overrides)
    check_tables(loaded, expand(loaded))


TABLE = GOOD.replace("ROWS", "[{at: {label: CPA}, values: [1, 2]}, {at: {label: nested CPA}, values: [3, 4]}]")


def test_a_number_at_a_setting_that_is_not_swept_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"{HEAD}    - {TABLE.replace('[10, 20]}', '[10, 1000]}')}\n")
    checked(tmp_path / "s.yaml")


def test_a_smaller_sweep_leaves_out_published_numbers_of_other_points(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"{HEAD}    - {TABLE}\n")
    checked(tmp_path / "s.yaml", overrides=("sweep={label: [CPA]}",))
    checked(tmp_path / "s.yaml", overrides=("learning.model=mlp",))
    (tmp_path / "on-top.yaml").write_text("base: s.yaml\nname: b\nsweep: {label: [CPA], learning.num_devices: [10]}\n")
    checked(tmp_path / "on-top.yaml")


def test_the_stored_scenario_of_a_smaller_run_can_be_run_again(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"{HEAD}    - {TABLE}\n")
    loaded = load_scenario(tmp_path / "s.yaml", overrides=("sweep={label: [CPA], learning.num_devices: [10, 20]}",))
    plan = expand(loaded)
    kept = type(loaded)(
        scenario=without_others(loaded.scenario, plan), document=loaded.document, marks={}, source=tmp_path
    )
    (tmp_path / "kept.yaml").write_text(as_yaml(resolved_root(kept, swept_paths=plan.swept_paths)))
    checked(tmp_path / "kept.yaml")
    again = load_scenario(tmp_path / "kept.yaml").scenario.report.tables
    assert [row.values for row in again[0].published] == [1.0, 2.0]
