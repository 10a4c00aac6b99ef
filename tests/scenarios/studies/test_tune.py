"""`phyloop tune` end to end: planted optima, seeds of its own, stopped searches, successive halving, the tuned file."""

from __future__ import annotations

import csv
import json
import re
from html import unescape
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command import phyloop, write_scenario

import phyloop as in_python
from benchmarks import reference_results
from benchmarks.reference_results import write
from scenarios.engine.options import RunOptions
from scenarios.engine.run import run_study
from scenarios.engine.study import Progress
from scenarios.files.plain_files import RESULTS
from scenarios.plan.plan import expand
from scenarios.report.comparison import Cell
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.studies.link.level import theory
from scenarios.studies.link.plan import expand_link
from scenarios.studies.tune import plan as tune_plan
from scenarios.studies.tune.plan import plan_tuning, tuning_seed
from scenarios.studies.tune.report import RATES, Result, tuned_scenario
from scenarios.studies.tune.scores import Scored
from scenarios.studies.tune.search import Search

SAMPLES, DIMENSION, ROUNDS, BURN_IN = 600, 5, 60, 20
CURVATURE = SAMPLES + 1
"""Mean eigenvalue of the precision U U^T + I of the posterior."""
STEPS = [ratio / CURVATURE for ratio in (0.01, 0.04, 0.2, 1.0)]

LANGEVIN = f"""\
name: steps
seed: 3
trials: 6
learning:
  task: {{name: gaussian-linear, num_samples: {SAMPLES}}}
  scheme: noiseless
  num_devices: 4
  rounds: {ROUNDS}
  burn_in: {BURN_IN}
  step_size: {STEPS[2]}
  gradient_bound: 1.0e+6
tune:
  keys: {{learning.step_size: {STEPS}}}
  trials: 6
"""
HALVED = LANGEVIN + "  halving: {factor: 2, start: 15}\n"

LINKS = """\
name: links
seed: 5
link: {modulation: qpsk, channel: {model: flat, coherence: packet}, power: {policy: fixed}, packet_size_bytes: 32}
measure: {values: [2, 4], bits_per_batch: 65536, stop: {bit_errors: 300, max_bits: 1e6}}
sweep: {link.channel.fading: [constant, rayleigh]}
tune: {keys: {link.modulation: [64qam, bpsk, 16qam]}}
"""

DIGITS = """\
name: digits-rate
seed: 3
trials: 2
link: {error_model: error_free}
learning:
  algorithm: fedavg
  data: {name: digits, validation_samples: 200}
  num_devices: 3
  rounds: 6
sweep:
  - zip: {learning.aggregation: [{name: mean}, {name: sign, step: 0.01}], label: [mean, sign]}
report: {figures: [{x: label, y: validated_accuracy}]}
tune: {keys: {learning.local.learning_rate: {start: 1e-4, stop: 1, steps: 3, scale: log}}, trials: 2}
"""


def search(folder: Path, text: str, *, run: str = "run", stop_after: int | None = None) -> tuple[Search, int]:
    """Return a search that has run in `folder`, and how many tasks it computed; Ctrl-C after so many batches."""
    found = Search(write_scenario(folder, text), out=folder / run, options=RunOptions())
    batches = count(1)

    def settled(_: object) -> None:
        if next(batches) == stop_after:
            raise KeyboardInterrupt

    progress = Progress(settled=settled)
    return found, sum(run_study(study, folder=folder / run, progress=progress).computed for study in found.studies())


def tasks_of(text: str, tmp_path: Path) -> set[str]:
    return set(chain.from_iterable(expand(load_scenario(write_scenario(tmp_path, text))).task_ids))


def expected_mse(step: float, *, start: float = 1.29) -> float:
    """Mean over rounds of E ||theta_k - posterior mean||^2 of Langevin steps on a quadratic; `start`: ||theta*||^2.

    Each entry is an AR(1) process with a = 1 - step lambda: a^2k of the start stays, and the noise of 2 step adds up to
    2 step (1 - a^2k) / (1 - a^2).
    """
    a = (1.0 - step * CURVATURE) ** (2.0 * np.arange(BURN_IN + 1, ROUNDS + 1))
    noise = 2.0 * step / (1.0 - (1.0 - step * CURVATURE) ** 2)
    return float(np.mean(start * a + DIMENSION * noise * (1.0 - a)))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Search:
    return search(tmp_path_factory.mktemp("found"), LANGEVIN)[0]


# --- planted optima -------------------------------------------------------------------------------


def test_the_step_size_of_the_closed_form_is_found(found: Search) -> None:
    theory = {step: expected_mse(step) for step in STEPS}
    best = min(theory, key=theory.__getitem__)
    assert best not in (STEPS[0], STEPS[-1])
    (choice,) = found.tuning.choices
    assert found.result.winner(choice) == {"learning.step_size": best}
    for one in found.result.of(choice)[0][1]:
        # The interval holds Student's 2.6 standard errors; the curvature varies by 9 % from entry to entry.
        step = one.candidate["learning.step_size"]
        assert abs(one.cell.value - theory[step]) < 0.2 * theory[step] + 2 * (one.cell.high - one.cell.value), step


def test_every_scheme_of_langevin_sampling_gets_the_step_of_its_own_units(tmp_path: Path) -> None:
    # A sign carries a / 2 = 1 / 40 of a gradient, levels carry all of it.
    text = LANGEVIN.replace(str(STEPS), "[1.0e-4, 4.0e-3]").replace("1.0e+6", "30").replace("  scheme: noiseless\n", "")
    text += "  metric: wasserstein2\nsweep:\n  - zip: {learning.scheme: [analog, digital, digital], "
    text += "learning.quantizer_bits: [1, 1, 4]}\nlink: {power: {snr_max_db: 40}, channel: {gain: 0.04}}\n"
    found, _ = search(tmp_path, text.replace("  rounds: 60", "  lmc_cap: none\n  rounds: 60"))
    best = [found.result.of(choice)[0][1][0].candidate["learning.step_size"] for choice in found.tuning.choices]
    assert best == [1e-4, 4e-3, 1e-4]


def test_the_modulation_of_the_closed_form_is_found_per_fading(tmp_path: Path) -> None:
    found = search(tmp_path, LINKS)[0]
    page = found.write(command="").html
    assert page is not None
    assert RATES in page.read_text(encoding="utf-8")
    result = found.result
    curves = expand_link(load_scenario(write_scenario(tmp_path, LINKS), overrides=("link.modulation=bpsk",))).curves
    assert [choice.words for choice in result.tuning.choices] == ["no fading", "Rayleigh fading"]
    for choice, curve in zip(result.tuning.choices, curves, strict=True):
        best, *others = result.of(choice)[0][1]
        assert best.candidate == {"link.modulation": "bpsk"}
        assert [one.behind and one.behind.verdict for one in others] == ["yes", "yes"]
        rates = [theory(curve, "bit_error_rate", point.esno_db) for point in curve.points]
        assert best.cell.low < np.mean([rate or 0.0 for rate in rates]) < best.cell.high


def test_accuracies_are_compared_on_validation_images_alone(tmp_path: Path) -> None:
    found, _ = search(tmp_path, DIGITS)
    rounds = in_python.load(tmp_path / "run").rounds
    for choice in found.tuning.choices:
        for one in found.result.of(choice)[0][1]:
            rate = one.candidate["learning.local.learning_rate"]
            own = rounds[(rounds["label"] == choice.words) & (rounds["learning.local.learning_rate"] == rate)]
            assert one.cell.value == pytest.approx(own.groupby("trial")["validation_accuracy"].max().mean())
            assert 0.0 <= one.cell.low <= one.cell.high <= 1.0  # of two trials, an interval reaches beyond
    assert found.result.winner(found.tuning.choices[0]) == {"learning.local.learning_rate": 1.0}


# --- seeds ----------------------------------------------------------------------------------------


def shared_tasks(tmp_path: Path) -> set[str]:
    """Return the tasks of a search that are tasks of the scenario with one of its candidates chosen, too."""
    tuning = plan_tuning(load_scenario(write_scenario(tmp_path, HALVED)))
    derived = expand(tuning.derived(tuning.first()))
    whole = expand(tuning.derived([tune_plan.Block(choice=tuning.choices[0], candidates=tuning.candidates, rounds=60)]))
    reported = tasks_of(LANGEVIN, tmp_path)
    return reported & set(chain(*derived.task_ids, *whole.task_ids))


def test_a_search_computes_no_task_of_the_reported_run(tmp_path: Path) -> None:
    assert shared_tasks(tmp_path) == set()
    seeds = [0, 1, 2023, (1 << 63) - 1]
    assert not {*seeds} & {tuning_seed(seed) for seed in seeds}


def test_the_seed_of_the_reported_run_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune_plan, "tuning_seed", lambda seed: seed)
    assert len(shared_tasks(tmp_path)) == 6


# --- stopped searches, and successive halving -----------------------------------------------------


@pytest.mark.parametrize("stop_after", [1, 5])
def test_a_stopped_search_goes_on_and_computes_nothing_twice(stop_after: int, tmp_path: Path) -> None:
    whole, computed = search(tmp_path, HALVED, run="whole")
    assert computed == 6 * (4 + 2)  # trials x candidates of both stages
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, HALVED, stop_after=stop_after)
    with whole._study().store.open_existing(tmp_path / "run") as store:
        before = len(store.tasks)
    assert 0 < before < computed
    again, rest = search(tmp_path, HALVED)
    assert rest == computed - before
    assert list(again.result.rows()) == list(whole.result.rows())
    assert search(tmp_path, HALVED)[1] == 0


def test_halving_keeps_the_best_half_at_growing_rounds(tmp_path: Path) -> None:
    text = HALVED.replace("start: 15", "start: 8")
    found, _ = search(tmp_path, text)
    assert found.tuning.stages == (8, 16, 60)
    metrics = in_python.load(tmp_path / "run").metrics
    alive = set(STEPS)
    for rounds, size in ((8, 4), (16, 2)):
        means = metrics[metrics["learning.rounds"] == rounds].groupby("learning.step_size")["mse"].mean()
        assert set(means.index) == alive
        assert len(alive) == size
        alive = set(means.nsmallest(size // 2).index)
    assert found.result.winner(found.tuning.choices[0]) == {"learning.step_size": alive.pop()}
    assert set(metrics["learning.burn_in"]) == {2, 5}


def test_a_candidate_without_a_result_is_last_and_none_is_an_error(tmp_path: Path) -> None:
    found, _ = search(tmp_path, rates("[1.0e+9, 0.1]"))
    best, last = found.result.of(found.tuning.choices[0])[0][1]
    assert best.candidate == {"learning.local.learning_rate": 0.1}
    assert last.cell.text == "2 of 2 trials without a result"
    with pytest.raises(ScenarioError, match="no candidate of all sweep points has a result"):
        search(tmp_path, rates("[1.0e+9]"), run="none")


def test_a_search_with_a_failed_candidate_ends_with_exit_code_1_as_a_run_does(tmp_path: Path) -> None:
    ended = phyloop("tune", write_scenario(tmp_path, rates("[1.0e+9, 0.1]")), "--out", tmp_path / "run")
    assert ended.returncode == 1
    assert "learning.local.learning_rate: 0.1" in ended.stdout


def rates(candidates: str) -> str:
    """Return a search of learning rates in one setting. With l2 = 1 a rate of 1e9 leaves float32 after five rounds."""
    settings = {"l2": 1.0, "steps": 1, "learning_rate": 0.1}
    text = DIGITS.replace("rounds: 6", f"rounds: 8\n  codec: binary32\n  local: {json.dumps(settings)}")
    text = re.sub(r"sweep:.*?report", "report", text, flags=re.DOTALL)
    return re.sub(r"\{start.*?\}", candidates, text)


# --- what is left behind --------------------------------------------------------------------------


def fake(tuning: Any, best: list[dict[str, Any]]) -> Result:
    """Return a finished search in which the k-th choice has its best candidate in `best[k]`."""

    def scored(candidate: Any, value: float) -> Scored:
        cell = Cell(key="", setting="", own="", value=value, low=value, high=value, count=1, text=str(value))
        return Scored(candidate=candidate, cell=cell)

    return Result(
        tuning=tuning,
        blocks=tuple(tuning.first()),
        ranked=tuple((scored(one, 1.0), scored(tuning.candidates[0], 0.0)) for one in best),
    )


@pytest.mark.parametrize("key", ["learning.local.momentum", "learning.local.learning_rate"], ids=["new", "swept"])
def test_the_tuned_scenario_of_the_library_stands_on_it_with_its_sweep_zipped(key: str, tmp_path: Path) -> None:
    loaded = load_scenario("cpa-table4-mlp", overrides=(f"tune.keys={{{key}: [0.01, 0.9]}}", "tune.per=label"))
    tuning = plan_tuning(loaded)
    chosen = [0.9 if "CPA" in choice.words else 0.01 for choice in tuning.choices]
    data = tuned_scenario(fake(tuning, [{key: one} for one in chosen]))
    assert data["base"] == "cpa-table4-mlp"
    assert list(data["sweep"]) == ["zip"]
    (tmp_path / "tuned.yaml").write_text(yaml.safe_dump(data))
    tuned = load_scenario(tmp_path / "tuned.yaml")
    points = expand(tuned).points
    assert [getattr(point.scenario.learning.local, key.split(".")[-1]) for point in points] == chosen
    assert [point.scenario.label for point in points] == [choice.words for choice in tuning.choices]
    assert tuned.scenario.seed == 2023
    assert tuned.scenario.tune is None
    assert tuned.scenario.report.tables == loaded.scenario.report.tables
    assert f"seed {tuning_seed(2023)} = 2^63 + 2023" in tuned.scenario.report.notes


def test_candidates_take_the_place_of_a_key_that_is_the_whole_sweep(tmp_path: Path) -> None:
    text = f"{LANGEVIN}sweep: {{learning.step_size: [{STEPS[0]}]}}\n"
    tuning = plan_tuning(load_scenario(write_scenario(tmp_path, text)))
    assert [choice.words for choice in tuning.choices] == ["all sweep points"]
    points = expand(tuning.derived(tuning.first())).points
    assert [point.scenario.learning.step_size for point in points] == pytest.approx(STEPS, rel=1e-5)


def test_the_best_candidates_of_a_search_are_stored_with_its_seed(
    found: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference_results, "MOST_CANDIDATES", 3)
    found.write(command="")
    path = write(found.folder, into=tmp_path)
    assert path == tmp_path / "tune" / "steps.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["seed"], row["source"]) for row in rows} == {(str(tuning_seed(3)), "phyloop tune steps")}
    ((_, scored),) = found.result.of(found.tuning.choices[0])
    numbers = np.array([(row["learning.step_size"], row["mean"]) for row in rows], dtype=float)
    scores = [(one.candidate["learning.step_size"], one.cell.value) for one in scored]
    np.testing.assert_allclose(numbers, scores[:3], rtol=1e-4)  # five digits are kept


def test_other_axes_stay_axes_and_the_metric_is_their_mean(tmp_path: Path) -> None:
    text = LANGEVIN + "  per: [learning.scheme]\n"
    text += "sweep: {learning.scheme: [noiseless, exact], learning.num_devices: [2, 4]}\n"
    text = text.replace("step_size: 0", "step_size: auto  # 0")
    found, _ = search(tmp_path, text)
    metrics = in_python.load(tmp_path / "run").metrics
    for choice in found.tuning.choices:
        for one in found.result.of(choice)[0][1]:
            own = metrics[metrics["learning.scheme"] == choice.settings["learning.scheme"]]
            own = own[own["learning.step_size"] == one.candidate["learning.step_size"]]
            assert one.cell.value == pytest.approx(own["mse"].mean())
            assert one.cell.count == 6
    sweep = tuned_scenario(found.result)["sweep"]
    assert sweep["learning.num_devices"] == [2, 4]
    assert sweep["zip"][0]["learning.scheme"] == ["noiseless", "exact"]


def test_the_command_shows_the_winner_and_writes_a_scenario_that_runs(tmp_path: Path) -> None:
    scenario, out = write_scenario(tmp_path, LANGEVIN), tmp_path / "out"
    first = phyloop("tune", scenario, "--out", out)
    assert first.returncode == 0, first.stderr
    assert f"learning.step_size: {STEPS[2]}" in first.stdout.replace("\n", "")
    again = phyloop("tune", scenario, "--out", out)
    assert again.stdout == first.stdout
    assert {"tune.html", "tuned.yaml", "tune.csv", "report.html", "scenario.yaml"} <= {
        one.name for one in out.iterdir()
    }
    run = phyloop("run", out / "tuned.yaml", "--out", tmp_path / "tuned", "--trials", "1")
    assert run.returncode == 0, run.stderr


def test_the_command_on_the_page_of_a_search_in_python_repeats_it(tmp_path: Path) -> None:
    scenario = yaml.safe_load(LANGEVIN)
    first = in_python.tune(scenario, seed=7, set={"trials": 2}, out=tmp_path / "run", progress=False)
    page = unescape((tmp_path / "run" / "tune.html").read_text(encoding="utf-8"))
    (command,) = re.findall(r"phyloop\.tune\(.*\)", page)
    stored = (tmp_path / "run" / RESULTS).read_bytes()
    again = eval(command, {"phyloop": in_python})
    assert again.equals(first)
    assert (tmp_path / "run" / RESULTS).read_bytes() == stored


# --- bad input ------------------------------------------------------------------------------------

FLMC = LANGEVIN.partition("tune:\n")[0]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (FLMC, None, "needs a tune: section, and this scenario has none; add for example tune:"),
        (f"{FLMC}tune: {{keys: {{learning.step: [1]}}}}", 12, "names no key of a scenario; did you mean"),
        (f"{FLMC}tune: {{keys: {{learning.step_size: 1}}}}", 12, "must be a list of candidates, or a range, "),
        (
            f"{FLMC}tune: {{keys: {{learning.step_size: {{start: 0, stop: 1, steps: 3, scale: log}}}}}}",
            12,
            "if scale is log",
        ),
        (
            DIGITS.replace("learning.local.learning_rate:", "learning.aggregation.step:"),
            13,
            "is tuned and learning.aggregation swept, one inside the other; leave learning.aggregation out",
        ),
        (f"{LANGEVIN}  per: [label]", 15, "names no swept path; leave it out"),
        (f"{LANGEVIN}  metric: mes", 15, "names nothing that is measured; did you mean mse"),
        (f"{LANGEVIN}  metric: amplitude", 15, "write tune.better: larger, or smaller"),
        (f"{FLMC}tune: {{keys: {{learning.step_size: [-1.0, 1.0]}}}}", 12, "must be above 1e-15"),
        (f"{FLMC}tune: {{keys: {{seed: [1, 2]}}}}", 12, "seed cannot be swept"),
        (f"{LANGEVIN}  halving: {{start: 60}}", 15, "is no less than learning.rounds, 60; write start: 20"),
        (
            DIGITS.replace(", validation_samples: 200", ""),
            13,
            "no images are held out for validation; write",
        ),
        (f"{DIGITS[:-2]}, metric: test_loss}}", 13, "is measured on the test set, on which the tuned scenario reports"),
        (f"{LINKS[:-2]}, halving: {{start: 5}}}}", 6, "a link study has no rounds; leave it out"),
    ],
)
def test_a_wrong_search_is_refused_in_one_sentence(text: str, line: int | None, words: str, tmp_path: Path) -> None:
    path = write_scenario(tmp_path, text)
    with pytest.raises(ScenarioError) as caught:
        plan_tuning(load_scenario(path))
    sentence = caught.value.sentence()
    assert words in sentence
    assert sentence.startswith(f"{path}:{line}: " if line else f"{path}: "), sentence
    if text != FLMC:
        assert words in str(in_python.check(path))
