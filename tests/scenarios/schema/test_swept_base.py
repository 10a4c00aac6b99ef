"""A scenario that is swept is judged sweep point by sweep point: values that the sweep replaces are in none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.engine.options import RunOptions
from scenarios.plan.plan import expand
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_kept, load_scenario, resolved_root
from scenarios.studies.check import check
from scenarios.studies.prepare import learning

LEARNING = "learning: {algorithm: fedavg, data: digits, model: linear, num_devices: 4, rounds: 2}\n"
DOPPLER = "name: a\nlink:\n  modulation: qpsk\n  channel: {fading: rayleigh, coherence: doppler}\n" + LEARNING


def written(folder: Path, text: str) -> Path:
    """A scenario file."""
    file = folder / "s.yaml"
    file.write_text(text, encoding="utf-8")
    return file


VALID = {
    "a speed": DOPPLER + "sweep:\n  link.channel.speed_m_s: [1, 15]\n",
    "a speed with the power": DOPPLER
    + "sweep:\n  zip: {link.channel.speed_m_s: [1, 15], link.power.snr_max_db: [0, 9]}\n",
    "a speed in every block": DOPPLER + "sweep:\n- link.channel.speed_m_s: [1, 15]\n"
    "- {link.channel.speed_m_s: [9], link.channel.model: [tdl-a], link.channel.fading: [constant], link.ofdm: [{}]}\n",
    "the kind that has a key": "name: a\nlearning: {algorithm: fedavg, data: digits, aggregation: {epsilon: 1}}\n"
    "sweep: {learning.aggregation.name: [cpa, mvu]}\n",
    "ring of a cell": "name: a\nlink: {channel: {cell: {min_distance_m: 300}}}\n" + LEARNING + "sweep:\n"
    "  link.channel.cell.radius_m: [400, 900]\n",
}


@pytest.mark.parametrize("case", VALID)
def test_a_conflict_of_values_that_the_sweep_replaces_is_none(case: str, tmp_path: Path) -> None:
    file = written(tmp_path, VALID[case])
    assert check(file).errors == ()
    plan = expand(loaded := load_scenario(file))
    kept = load_kept(resolved_root(loaded, swept_paths=plan.swept_paths), folder=tmp_path)
    assert expand(kept).task_ids == plan.task_ids


REFUSED = {
    "a value of the sweep beside good ones": (
        DOPPLER + "sweep:\n  link.channel.speed_m_s: [30, 0]\n",
        "s.yaml:7: link.channel.speed_m_s = 0: coherence doppler needs a speed_m_s above 0; write for example "
        "speed_m_s: 1.",
    ),
    "the first value of the sweep": (
        DOPPLER + "sweep:\n  link.channel.speed_m_s: [0, 30]\n",
        "s.yaml:7: link.channel.speed_m_s = 0: coherence doppler needs a speed_m_s above 0; write for example "
        "speed_m_s: 1.",
    ),
    "the only value of the sweep beside one that stays": (
        DOPPLER + "sweep:\n  link.channel.speed_m_s: [0]\n  link.power.snr_max_db: [0, 10]\n",
        "s.yaml:7: link.channel.speed_m_s = 0: coherence doppler needs a speed_m_s above 0; write for example "
        "speed_m_s: 1.",
    ),
    "a block that leaves the base as it is": (
        DOPPLER + "sweep:\n- link.channel.speed_m_s: [30]\n- link.power.snr_max_db: [0]\n",
        "s.yaml:4: link.channel.coherence = doppler: coherence doppler needs a speed_m_s above 0; write for example "
        "speed_m_s: 1.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_conflict_within_the_sweep_is_reported_once_with_the_line_of_the_value(case: str, tmp_path: Path) -> None:
    text, sentence = REFUSED[case]
    errors = check(written(tmp_path, text)).errors
    assert [str(one).removeprefix(f"{tmp_path}/") for one in errors] == [sentence]


SEVERAL = """\
name: a
link:
  modulation: qpsk
  channel: {model: cdl-a}
learning:
  algorithm: fedavg
  data: digits
  num_devices: 4
  participation: {devices_per_round: many}
privacy: {mechanism: gaussian, epsilon: 1, delta: 1e-5}
sweep:
  learning.aggregation.name: [cpa, prbit]
"""


def test_a_wrong_value_hides_no_error_that_can_be_judged_without_it(tmp_path: Path) -> None:
    errors = check(written(tmp_path, SEVERAL)).errors
    assert {(one.line, one.key) for one in errors} == {
        (4, "link.channel.model"),
        (9, "learning.participation.devices_per_round"),
        (10, "privacy.mechanism"),
        (12, "learning.aggregation.name"),
    }
    with pytest.raises(ScenarioError) as run:
        learning(tmp_path / "s.yaml", out=tmp_path, options=RunOptions())
    assert {str(one) for one in run.value.errors} == {str(one) for one in errors}


def test_a_conflict_that_rests_on_a_wrong_number_waits_until_that_is_corrected(tmp_path: Path) -> None:
    text = f"name: a\nlink: {{channel: {{gain: [1, 1, 1, 1]}}}}\n{LEARNING.replace('devices: 4', 'devices: -4')}"
    assert [one.key for one in check(written(tmp_path, text)).errors] == ["learning.num_devices"]


def test_one_of_each_is_counted_in_the_singular(tmp_path: Path) -> None:
    text = f"name: a\ntrials: 1\nlink: {{modulation: qpsk}}\n{LEARNING}"
    assert "1 point x 1 trial = 1 task, seed 0" in check(written(tmp_path, text)).verdict
