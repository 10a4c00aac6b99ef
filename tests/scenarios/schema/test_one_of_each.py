"""One file outside the packages suffices for a new thing of every kind: found, checked, run and shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from learning_run import run_scenario

import phyloop
from phy.config.registry import registries
from privacy.accounting.inversion import epsilon_of_event
from privacy.events.noise_events import GaussianNoise
from scenarios.contracts import broken_checks, checks_of
from scenarios.engine.options import RunOptions
from scenarios.schema.loader import load_scenario
from scenarios.schema.permission import code_allowed
from scenarios.schema.plugins import import_plugins
from scenarios.schema.schema import Scenario

ONE_OF_EACH = Path(__file__).with_name("one_of_each.py")
FEDAVG = """\
name: own
plugins: [one_of_each.py]
trials: 1
link:
  modulation: qpsk
  channel: {fading: {name: own-law, shape: 2.5}, coherence: symbol}
  power: {policy: own-policy, snr_max_db: 20}
learning:
  algorithm: fedavg
  data: own-data
  model: own-model
  codec: own-codec
  aggregation: {name: own-scheme, part: 0.75}
  attack: {kind: own-attack, share: 0.2}
  num_devices: 5
  participation: {devices_per_round: 4, selection: own-selection}
  partition: {kind: own-partition, first: 1}
  rounds: 3
"""
PRIVATE = """\
name: own
plugins: [one_of_each.py]
trials: 1
link:
  modulation: qpsk
  channel: {model: trace, source: {name: own-channel, late: 0.3}}
  ofdm: {num_subcarriers: 72}
learning:
  algorithm: fedavg
  data: own-data
  model: linear
  codec: {name: uniform, bound: 100}
  num_devices: 5
  rounds: 3
privacy: {mechanism: own-mechanism, z: 5, clip: 0.5}
"""
FLMC = "name: own\nplugins: [one_of_each.py]\ntrials: 1\nlearning: {scheme: own-rounds, rounds: 20, burn_in: 10}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(ONE_OF_EACH, tmp_path)
    return tmp_path


def test_the_file_has_a_thing_of_every_kind_but_an_algorithm() -> None:
    try:
        found = {one.kind for one in checks_of(ONE_OF_EACH)}
        assert found == registries().keys() - {"algorithm", "reference check"}
        assert broken_checks(ONE_OF_EACH) == []
    finally:
        import_plugins({})


def test_the_mechanism_of_the_file_is_accounted_for_over_the_channel_of_the_file(folder: Path) -> None:
    """Three releases of multiplier 5 are one of 5 / sqrt(3), whose epsilon at delta 1e-5 is exact."""
    (folder / "own.yaml").write_text(PRIVATE)
    try:
        with code_allowed():
            assert run_scenario(str(folder / "own.yaml"), out=folder / "run") == 0
            claims = phyloop.epsilon(folder / "run", delta=1e-5)
    finally:
        import_plugins({})
    exact = epsilon_of_event(GaussianNoise(noise_multiplier=5.0 / 3.0**0.5), delta=1e-5)
    assert claims.set_index("scope").epsilon["run"] == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("text", [FEDAVG, FLMC], ids=["fedavg", "flmc"])
def test_every_thing_of_the_file_runs_and_workers_know_it(text: str, folder: Path) -> None:
    (folder / "own.yaml").write_text(text)
    try:
        for name, options in (("one", RunOptions()), ("two", RunOptions(workers=2))):
            with code_allowed():
                assert run_scenario(str(folder / "own.yaml"), out=folder / name, options=options) == 0
    finally:
        import_plugins({})


@pytest.mark.parametrize(
    ("good", "bad", "sentence"),
    [
        ("honest.updates[honest.attackers] *", "honest.updates[:, :3] *", "attack own-attack gives an array of shape"),
        ("return np.float32(self.part) * mean", "return values", "aggregation own-scheme gives an array of shape"),
    ],
)
def test_wrong_shapes_are_one_sentence_with_the_name_of_the_thing(
    good: str, bad: str, sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ONE_OF_EACH.read_text()
    assert good in text
    (folder / "one_of_each.py").write_text(text.replace(good, bad))
    (folder / "own.yaml").write_text(FEDAVG)
    try:
        with code_allowed():
            assert run_scenario(str(folder / "own.yaml"), out=folder / "run") == 1
    finally:
        import_plugins({})
    assert f"round 1: {sentence}" in capsys.readouterr().err


def test_a_parameter_of_each_thing_can_be_set(folder: Path) -> None:
    (folder / "own.yaml").write_text(FEDAVG)
    try:
        with code_allowed():
            scenario: Scenario = load_scenario(folder / "own.yaml", overrides=("learning.codec.bits=4",)).scenario
        written = scenario.model_dump(mode="json")
        assert written["link"]["channel"]["fading"] == {"name": "own-law", "shape": 2.5}
        assert written["learning"]["codec"]["bits"] == 4
        assert written["learning"]["aggregation"]["part"] == 0.75
    finally:
        import_plugins({})
