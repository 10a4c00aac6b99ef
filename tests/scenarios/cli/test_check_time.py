"""`phyloop check` says who trains a network, and with `--time` what a round takes."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from command import write_scenario

from fl.algorithms.fedavg.federation import Federation
from scenarios.cli.check import check_scenario
from scenarios.schema.errors import ScenarioError

_TEXT = """\
name: small
learning: {algorithm: fedavg, data: digits, model: mlp, num_devices: 3, rounds: 5, codec: {max_clipped: 1}}
sweep:
  learning.model: [mlp, linear]
"""


def said(scenario: Path, capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    check_scenario(str(scenario), **options)
    return " ".join(capsys.readouterr().out.split())


def test_check_names_who_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = write_scenario(tmp_path, _TEXT)
    assert "networks trained by fused kernels about" in said(scenario, capsys)
    both = ("learning.local={optimizer: adam, batch_size: 8}",)  # softmax regression takes Adam in TensorFlow
    assert "networks trained by fused kernels and TensorFlow about" in said(scenario, capsys, overrides=both)
    assert "networks trained" not in said(Path("flmc-snr"), capsys)


OFDM = """\
name: slots
link:
  {modulation: 16qam, ofdm: {num_subcarriers: 72}, channel: {model: tdl-a}, coding: {code: ldpc5g, rate: 1/2},
   packet_size_bytes: 110}
learning: {algorithm: fedavg, data: digits, model: linear}
"""


def test_check_says_how_a_packet_fills_its_slots_and_which_size_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = write_scenario(tmp_path, OFDM)
    text = said(scenario, capsys)
    assert "a packet of 880 bits: 1 block of 880 bits coded as 1760, 440 symbols, 1 slot of its own, 51% of" in text
    assert "fills 51% of the data symbols of the 1 slot that it has for itself" in text
    size = int(text.partition("write packet_size_bytes: ")[2].split()[0])
    fuller = said(scenario, capsys, overrides=(f"link.packet_size_bytes={size}",))
    assert "fills" not in fuller, "following the remedy ends the warning"
    assert f"a packet of {8 * size:,} bits" in fuller
    assert "a packet of" not in said(Path("fedavg-digits"), capsys), "bits on a single carrier are not cut"


def test_time_is_that_of_the_second_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, run = write_scenario(tmp_path, _TEXT), []

    def slow(_: Federation, index: int) -> None:
        run.append(index)
        time.sleep(0.3 - 0.2 * index)

    monkeypatch.setattr(Federation, "round", slow)
    assert "phyloop check --time measures a round" in said(scenario, capsys)
    assert run == []
    timed = said(scenario, capsys, timed=True)
    assert run == [0, 1]
    found = re.search(r"first sweep point: ([\d.]+) ms a round; set-up and the first round ([\d.]+) (m?s)", timed)
    assert found is not None
    assert 100.0 <= float(found[1]) < 300.0
    assert float(found[2]) * (1.0 if found[3] == "s" else 1e-3) >= 0.3
    assert "measures a round" not in timed
    one = said(scenario, capsys, timed=True, overrides=("learning.rounds=1",))
    assert "ms a round" not in one
    assert "set-up and the first round" in one


def test_time_without_learning_is_refused(tmp_path: Path) -> None:
    text = "name: b\nlink: {modulation: qpsk, power: {policy: fixed}}\nmeasure: {over: ebno_db, values: [4]}\n"
    with pytest.raises(ScenarioError, match="the scenario has no learning; leave --time out"):
        check_scenario(str(write_scenario(tmp_path, text)), timed=True)
