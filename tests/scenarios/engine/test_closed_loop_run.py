"""Learning over a link whose devices follow their measured errors, from the file to the exported table and back."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from pathlib import Path

import pytest
from command import phyloop, write_scenario
from learning_run import export_run, run_scenario

ROUNDS, DEVICES, TRIALS, BITS = 10, 2, 4, 120
START_DB, MAX_DB, SLOPE, STEP_DB, TARGET = 2.0, 14.0, 4.0, 2.5, 0.05

# The prefix of one sample is too short: 1.04 us against 9.66 us of the last path.
LOOP = f"""\
name: loop
seed: 5
trials: {TRIALS}
link:
  modulation: bpsk
  channel: {{model: tdl-a, delay_spread_s: 1e-6, coherence: round, gain: [1.0, 0.5]}}
  ofdm: {{num_subcarriers: 64, num_symbols: 2, pilot_symbols: [], cyclic_prefix_length: 1}}
  power:
    policy: closed-loop
    snr_max_db: {MAX_DB}
    loop: {{target_rate: {TARGET}, initial_snr_db: {START_DB}, db_per_decade: {SLOPE}, max_step_db: {STEP_DB}}}
learning:
  scheme: digital-orthogonal
  task: {{name: gaussian-linear, num_samples: 40, dimension: {BITS}}}
  num_devices: {DEVICES}
  rounds: {ROUNDS}
  burn_in: 5
  step_size: 1e-3
"""
WARNING = "warning: link.ofdm.cyclic_prefix_length: the last path of tdl-a comes 9.66 us late"


def run(source: Path, out: Path, *, trials: int = TRIALS) -> None:
    assert run_scenario(str(source), out=out, overrides=(), trials=trials, seed=None) == 0


def link_table(folder: Path, out: Path) -> str:
    export_run(folder, out)
    return (out / "link.csv").read_text()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scenario(tmp_path_factory.mktemp("loop"), LOOP)


@pytest.fixture(scope="module")
def table(source: Path) -> str:
    """The link table of an undisturbed run."""
    run(source, source.parent / "run")
    return link_table(source.parent / "run", source.parent / "csv")


def test_the_power_of_every_device_in_every_round_follows_its_errors_in_the_last(table: str) -> None:
    rows = list(csv.DictReader(table.splitlines()))
    assert len(rows) == TRIALS * ROUNDS * DEVICES
    powers: dict[tuple[str, str], list[float]] = defaultdict(list)
    expected: dict[tuple[str, str], float] = defaultdict(lambda: START_DB)
    for row in rows:
        who = (row["trial"], row["device"])
        assert int(row["round"]) == len(powers[who]) + 1
        power_db, errors, bits = float(row["power_db"]), int(row["bit_errors"]), int(row["bits"])
        assert power_db == pytest.approx(expected[who], abs=1e-9)
        assert bits == BITS
        powers[who].append(power_db)
        rate = errors / bits if errors else 0.5 / (bits + 1)
        step = min(max(SLOPE * math.log10(rate / TARGET), -STEP_DB), STEP_DB)
        expected[who] = min(max(power_db + step, -30.0), MAX_DB)
    # Were the loop open, or one for all devices, the above would hold for constants too.
    assert all(len(set(path)) > ROUNDS // 2 for path in powers.values())
    assert len({tuple(path) for path in powers.values()}) == TRIALS * DEVICES


def test_energy_follows_the_power_of_the_loop(table: str) -> None:
    rows = list(csv.DictReader(table.splitlines()))
    joules = [float(row["energy_j"]) / 10 ** (float(row["power_db"]) / 10) for row in rows]
    # The same symbols at other powers, in single precision.
    assert joules == pytest.approx([joules[0]] * len(joules), rel=1e-4)


def test_trials_added_later_end_in_the_same_table_to_the_last_bit(source: Path, table: str, tmp_path: Path) -> None:
    run(source, tmp_path / "run", trials=1)
    assert link_table(tmp_path / "run", tmp_path / "first") != table
    run(source, tmp_path / "run")
    assert link_table(tmp_path / "run", tmp_path / "csv") == table


def test_what_hurts_without_being_wrong_is_told_before_a_run(
    source: Path, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    del table  # the run is finished: nothing is computed again
    run(source, source.parent / "run")
    said = capsys.readouterr()
    assert said.err.startswith(f"phyloop: {WARNING}")
    assert said.err.count(WARNING) == 1
    assert f"0 computed, {TRIALS} found done" in said.out


def test_check_tells_it_too_and_calls_the_scenario_valid(source: Path) -> None:
    result = phyloop("check", source)
    assert result.returncode == 0, result.stderr
    assert "loop is valid" in result.stdout
    assert WARNING in " ".join(result.stdout.split())
