"""`phyloop audit`, from the file to the table, the picture and the numbers."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from command import phyloop, write_scenario
from learning_run import audit_scenario

from scenarios.plan.plan import expand
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.studies.audit.plan import AuditOptions, auditable
from scenarios.studies.audit.study import AuditStudy

SIGNS = """\
name: signs
seed: 5
link: {error_model: error_free}
learning:
  algorithm: fedavg
  upload: update
  data: {name: digits}
  num_devices: 10
  rounds: 3
sweep:
  - learning.aggregation.name: [sign]
    learning.aggregation.epsilon: [0.5, 2]
    label: [signs]
  - learning.aggregation: [{name: sign, epsilon: none}]
    label: [bare signs]
"""
GAMES = 4000


def audited(folder: Path, text: str = SIGNS, *, out: str = "out", options: AuditOptions | None = None) -> dict:
    source = write_scenario(folder, text)
    options = options or AuditOptions(games=GAMES)
    assert audit_scenario(str(source), out=folder / out, overrides=(), seed=None, options=options) == 0
    return json.loads((folder / out / "audit.json").read_text())


@pytest.fixture(scope="module")
def signs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("signs")
    return folder, audited(folder)


def test_each_point_has_a_lower_bound_below_its_claim(signs: tuple[Path, dict]) -> None:
    points = signs[1]["points"]
    assert [point["settings"]["label"] for point in points] == ["signs", "signs", "bare signs"]
    for point, epsilon in zip(points, (0.5, 2.0, None), strict=True):
        assert point["claims"][0]["epsilon"] == epsilon  # null: infinity, nothing is promised
        assert point["games"] == GAMES
        assert {claim["verdict"] for claim in point["claims"]} == {"stands"}
        if epsilon is not None:
            assert 0.3 * epsilon < point["lower"]["epsilon_lower"] <= epsilon
    bare = points[2]["lower"]
    assert bare["false_positives"] == bare["false_negatives"] == 0
    # What is told apart without an error is limited by the number of games alone.
    assert bare["epsilon_lower"] > points[1]["lower"]["epsilon_lower"]


def test_the_table_has_a_row_per_bound_and_the_picture_is_there(signs: tuple[Path, dict]) -> None:
    folder, found = signs
    with (folder / "out" / "audit.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["bound"] for row in rows].count("lower") == 3
    claimed = [row for row in rows if row["bound"] == "claimed"]
    assert [row["epsilon"] for row in claimed] == ["0.5", "2.0", "inf"]
    assert all(row["claim"] and row["source"] for row in claimed)
    lower = next(row for row in rows if row["bound"] == "lower")
    assert float(lower["epsilon"]) == found["points"][0]["lower"]["epsilon_lower"]
    assert {path.name for path in (folder / "out").iterdir()} >= {"audit.csv", "audit.json", "audit.svg"}


def test_the_same_seed_writes_the_same_files(signs: tuple[Path, dict]) -> None:
    folder, _ = signs
    audited(folder, out="again")
    for name in ("audit.csv", "audit.json", "audit.svg"):
        assert (folder / "again" / name).read_bytes() == (folder / "out" / name).read_bytes()


def test_the_terminal_labels_every_epsilon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audited(tmp_path, options=AuditOptions(games=GAMES, attack="classifier", rounds=2))
    told = capsys.readouterr().out
    for words in ("at least", "classifier attack", "99.9 % confidence", "Warner 1965", "stands", "∞"):
        assert words in told
    assert "no audit can refute it" in told


def test_what_is_published_and_wrong_is_called_refuted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = SIGNS.split("sweep:")[0] + "  aggregation: {name: laplace, epsilon: 1, as_coded: true}\n"
    (point,) = audited(tmp_path, text, options=AuditOptions(games=20_000))["points"]
    assert point["claims"][0]["verdict"] == "refuted"
    assert point["claims"][0]["standing"] == "as published"
    assert "refuted" in capsys.readouterr().out


def test_schemes_without_a_radio_are_left_out_and_said_so(tmp_path: Path) -> None:
    text = """\
name: one-radio
link: {channel: {model: flat, gain: 0.04, noise_power: 1.0}, power: {policy: inversion, snr_max_db: 20}}
learning: {task: {name: gaussian-linear, num_samples: 60, dimension: 2}, num_devices: 3, rounds: 4, burn_in: 2}
privacy: {epsilon: 1, delta: 0.05}
sweep: {learning.scheme: [analog]}
"""
    found = audited(tmp_path, text.replace("[analog]", "[analog, digital]"))
    assert len(found["points"]) == 2
    for point in found["points"]:
        assert point["lower"]["delta"] == 0.05
        assert min(c["epsilon"] for c in point["claims"]) >= point["lower"]["epsilon_lower"]
    assert found["points"][0]["lower_gaussian"] is not None
    without = text.replace("privacy: {epsilon: 1, delta: 0.05}\n", "")
    loaded = load_scenario(write_scenario(tmp_path, without.replace("[analog]", "[analog, noiseless]")))
    points, reasons = auditable(loaded, expand(loaded), AuditOptions())
    assert [point.settings["learning.scheme"] for point in points] == ["analog"]
    assert reasons == ["scheme noiseless sends nothing over a radio"]
    with pytest.raises(ScenarioError, match="nothing to audit"):
        audited(tmp_path, without.replace("[analog]", "[noiseless, exact]"))


ROUNDS = """\
name: rounds
link: {error_model: error_free}
learning: {algorithm: fedavg, upload: update, data: {name: digits}, num_devices: 10, rounds: 4}
sweep:
  - learning.aggregation: [{name: probit, bound: adaptive, b: 5, l1_clip: 0.2, epsilon: 2}]
    label: [adaptive]
  - learning.aggregation: [{name: sign, epsilon: 0.5}]
    privacy: [{mechanism: scheme, budget: {epsilon: 4000, delta: 0.01}}]
    learning.attack: [{kind: ones, share: 0.3}]
    label: [signs]
"""


def test_budgets_attackers_and_rounds_are_told_with_the_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adaptive, signs = audited(tmp_path, ROUNDS)["points"]
    told = " ".join(capsys.readouterr().out.split())
    assert "Game for adaptive: the whole upload of one device" in told
    assert adaptive["game"]["when"].startswith("round 1 of 4, all of them alike, b at 0.8, the smallest")
    assert "attackers among the others (3, ones) change nothing" in signs["game"]["worlds"]
    run = next(claim for claim in signs["claims"] if claim["scope"] == "run")
    # The larger of the delta of signs, 0, and that of the budget.
    assert (run["epsilon"], run["delta"], signs["lower"]["delta"]) == (4000.0, 0.01, 0.01)
    assert "budget for all 4 rounds" in told


def test_an_attack_on_single_uploads_has_games_of_one_round(tmp_path: Path) -> None:
    scheme = "{name: sign, epsilon: 0.5}"
    text = (
        f"name: a\nlink: {{error_model: error_free}}\nlearning: {{algorithm: reconstruction, aggregation: {scheme}}}\n"
    )
    (point,) = audited(tmp_path, text)["points"]
    assert point["game"]["when"] == "round 1"
    assert point["claims"][0]["source"].startswith("Warner")
    with pytest.raises(ScenarioError, match="single uploads has games of one round, and 2 were asked for"):
        audited(tmp_path, text, options=AuditOptions(games=GAMES, rounds=2))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"games": 10}, r"--games = 10: an audit needs 200"),
        ({"delta": 1.0}, r"--delta = 1.0: delta is a probability"),
        ({"confidence": 1.0}, r"--confidence = 1.0"),
        ({"rounds": 0}, r"--rounds"),
        ({"attack": "guess"}, r'--attack = "?guess'),
    ],
)
def test_options_that_make_no_audit_are_one_sentence(given: dict, named: str) -> None:
    usual = {"games": 1000, "delta": None, "confidence": 0.99, "attack": None, "rounds": 1}
    with pytest.raises(ScenarioError, match=named):
        AuditOptions(**{**usual, **given})


def test_a_game_longer_than_the_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="longer than the run of 3"):
        audited(tmp_path, options=AuditOptions(games=GAMES, rounds=4))


def test_the_command_line_says_one_sentence_and_exits_2(tmp_path: Path) -> None:
    result = phyloop("audit", write_scenario(tmp_path, SIGNS), "--confidence", "2")
    assert result.returncode == 2
    assert result.stderr.startswith("phyloop: --confidence = 2.0: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_point_that_cannot_be_audited_costs_none_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Laplace noise of epsilon 2 for 650 numbers spends 1300 in a round: the second budget holds one, not two."""
    text = SIGNS.split("sweep:")[0] + (
        "sweep:\n"
        "  learning.aggregation: [{name: laplace, epsilon: 2}]\n"
        "  privacy.mechanism: [scheme]\n"
        "  privacy.budget.calibrate: [false]\n"
        "  privacy.budget.accountant: [basic]\n"
        "  privacy.budget.epsilon: [5000, 2000, 6000]\n"
    )
    source, out = write_scenario(tmp_path, text), tmp_path / "out"
    options = AuditOptions(games=400, rounds=2)
    assert audit_scenario(str(source), out=out, overrides=(), seed=None, options=options) == 1
    written = json.loads((out / "audit.json").read_text())
    assert [point["settings"]["privacy.budget.epsilon"] for point in written["points"]] == [5000, 6000]
    (failed,) = written["not_audited"]
    assert failed["settings"]["privacy.budget.epsilon"] == 2000
    assert "point 2: the budget of epsilon 2000 lets a device send in 1 round" in failed["reason"]
    with (out / "audit.csv").open() as file:
        assert [row["bound"] for row in csv.DictReader(file)].count("not audited") == 1
    told = capsys.readouterr()
    assert failed["reason"] in told.err
    assert "Not audited, each for its reason: ε of the run = 2000." in told.out


def test_an_interrupted_audit_keeps_its_points_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play, played = AuditStudy._audit, []

    def breaks(*given: Any) -> Any:
        if played:
            raise KeyboardInterrupt
        played.append(play(*given))
        return played[0]

    monkeypatch.setattr(AuditStudy, "_audit", breaks)
    source = write_scenario(tmp_path, SIGNS)
    options = AuditOptions(games=400)
    assert audit_scenario(str(source), out=tmp_path / "out", options=options) == 130
    (kept,) = json.loads((tmp_path / "out" / "audit.json").read_text())["points"]
    assert kept["lower"] == played[0].result.to_dict()
    monkeypatch.setattr(AuditStudy, "_audit", play)
    assert audit_scenario(str(source), out=tmp_path / "out", options=options) == 0
    assert "3 points of 400 games, 1 found done," in capsys.readouterr().out
    assert audit_scenario(str(source), out=tmp_path / "fresh", options=options) == 0
    assert (tmp_path / "out" / "audit.csv").read_bytes() == (tmp_path / "fresh" / "audit.csv").read_bytes()


def test_an_audit_is_reported_and_exported_from_its_folder(signs: tuple[Path, dict]) -> None:
    folder = signs[0] / "out"
    before = {name: (folder / name).read_bytes() for name in ("audit.csv", "audit.json", "audit.svg")}
    assert phyloop("report", folder).returncode == 0
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert phyloop("export", folder, "--out", folder / "csv").returncode == 0
    kept, exported = (list(csv.DictReader((folder / name).open())) for name in ("audit.csv", "csv/privacy.csv"))
    assert [row.keys() for row in exported] == [row.keys() for row in kept]
    assert [row["epsilon"] for row in exported] == [row["epsilon"] for row in kept]
    assert "3 of 3 points done" in phyloop("status", folder).stdout
