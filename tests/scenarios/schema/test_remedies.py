"""Remedies that show what to write, and the errors that show once remedies are followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentences import sentence_about

from fl.schemes.scheme import schemes
from phy.config.conflict import listing
from scenarios.studies.check import check

SENTENCES = {
    "a key of a list written with dots": (
        "name: a\nreport.figures.x: b\nreport: {figures: []}\n",
        "s.yaml:2: report.figures.x = b: unknown key; nest it instead of dots: report: {figures: {x: b}}.",
    ),
    "errors behind a wrong key, a wrong kind and a wrong value": (
        "name: a\nlearning:\n  algorithm: FedAvg\n  local: {optimiser: adam}\n  partition: {kind: iid, alpha: 1}\n"
        "  aggregation: {name: cap, gama: 1}\n  epochs: 3\n",
        "s.yaml:3: learning.algorithm = FedAvg: must be bit-distance, fedavg, flip-moments, flmc or reconstruction; "
        "did you mean fedavg.\n"
        "s.yaml:4: learning.local.optimiser = adam: unknown key; write optimizer: adam in place of optimiser: adam.\n"
        "s.yaml:4: learning.local: adam needs batch_size; write for example batch_size: 32.\n"
        "s.yaml:5: learning.partition.alpha = 1: alpha belongs to kind dirichlet, the kind is iid; leave it out, or "
        "write kind: dirichlet.\n"
        f"s.yaml:6: learning.aggregation.name = cap: must be {listing(schemes.words())}; did you mean cpa.\n"
        "s.yaml:6: learning.aggregation.gama = 1: unknown key; did you mean learning.aggregation.gamma.\n"
        "s.yaml:7: learning.epochs = 3: unknown key; did you mean learning.local.steps (E, local "
        "iterations per round, samples / batch_size in an epoch).",
    ),
    "no algorithm beside the keys of one": (
        "name: a\nlearning: {data: digits, model: linear, partition: {kind: iid}}\n",
        "s.yaml:2: learning.data: data, model and partition belong to algorithm fedavg, and no algorithm is written; "
        "add algorithm: fedavg under learning.",
    ),
    "another algorithm beside the keys of one": (
        "name: a\nlearning: {algorithm: fedavg, scheme: analog, burn_in: 3}\n",
        "s.yaml:2: learning.algorithm = fedavg: scheme and burn_in belong to algorithm flmc; write algorithm: flmc, or "
        "leave these keys out.",
    ),
    "an aggregation scheme as the algorithm": (
        "name: a\nlearning: {algorithm: probit}\n",
        "s.yaml:2: learning.algorithm = probit: must be bit-distance, fedavg, flip-moments, flmc or reconstruction; "
        "write algorithm: fedavg and aggregation: probit.",
    ),
    "a section under the key of another": (
        "name: a\nlearning: {algorithm: fedavg, scheme: {name: cpa, gamma: 1}}\n",
        "s.yaml:2: learning.scheme: unknown key; write aggregation: {name: cpa, gamma: 1} in place of scheme: {name: "
        "cpa, gamma: 1}.",
    ),
    "one value in place of a section or of a list": (
        "name: a\nlink: {channel: rayleigh, csi: lmmse}\nlearning: {algorithm: fedavg, model: {name: mlp, hidden: 8}}\n"
        "privacy: bitflip\nreport: [{x: round, y: test_accuracy}]\n",
        "s.yaml:2: link.channel = rayleigh: must be a mapping of keys to values; write {fading: rayleigh}.\n"
        "s.yaml:2: link.csi = lmmse: must be perfect or a mapping with error_variance or estimator; write {estimator: "
        "lmmse}.\n"
        "s.yaml:3: learning.model.hidden = 8: must be a list; write [8].\n"
        "s.yaml:4: privacy = bitflip: must be none or a mapping with epsilon; write {mechanism: bit-flipping, epsilon: "
        "5, kappa: 0.02}.\n"
        "s.yaml:5: report = [{x: round, y: test_accuracy}]: must be a mapping of keys to values; write {figures: [{x: "
        "round, y: test_accuracy}]}.",
    ),
    "the nearest of two keys with one word": (
        "name: a\nreport: {figures: [{x: link.power.snr_max_db, y: mse, yscale: log}]}\n",
        "s.yaml:2: report.figures[0].yscale = log: unknown key; write y_scale: log in place of yscale: log.",
    ),
    "another word for a key that is missing": (
        "name: a\nmeasure: {grid: [0, 1]}\n",
        "s.yaml:2: measure.grid: unknown key; did you mean measure.values (values of the axis [dB], a list or "
        "{start, stop, step}).",
    ),
    "a near key that does not take the value, and the only one that does": (
        "name: a\nlearning:\n  algorithm: fedavg\n  local: {step_size: 0.2}\n"
        "  partition: {kind: dirichlet, beta: 0.5}\n",
        "s.yaml:4: learning.local.step_size = 0.2: unknown key; did you mean learning.local.learning_rate (step "
        "size eta).\n"
        "s.yaml:5: learning.partition.beta = 0.5: unknown key; did you mean learning.partition.alpha "
        "(concentration, a small one is far from IID (kind dirichlet)).",
    ),
    "a number in place of a list, and a mapping": (
        "name: a\nmeasure: {values: 10, stop: 100}\nreport: {figures: {x: ebno_db, y: bit_error_rate}}\n",
        "s.yaml:2: measure.values = 10: must be a list; write [10].\n"
        "s.yaml:2: measure.stop = 100: must be a mapping of keys to values; write {bit_errors: 100}.\n"
        "s.yaml:3: report.figures = {x: ebno_db, y: bit_error_rate}: must be a list; write [{x: ebno_db, y: "
        "bit_error_rate}].",
    ),
    "values without commas": (
        "name: a\nsweep: {link.power.snr_max_db: [0 5]}\n",
        "s.yaml:2: link.power.snr_max_db = 0 5: must be a number; put commas between the values: 0, 5.",
    ),
    "a range of Python in the sweep, and a path without its beginning": (
        "name: a\nsweep: {link.power.snr_max_db: 'range(0, 9, 3)', power.cutof_db: [-10, 0]}\n",
        "s.yaml:2: link.power.snr_max_db = range(0, 9, 3): must be a list of at least one value; write "
        "link.power.snr_max_db: [0, 3, 6].\n"
        "s.yaml:2: power.cutof_db: the sweep names a path that does not exist; did you mean link.power.cutoff_db.",
    ),
    "an open bracket": (
        "name: a\nlink: {power: {snr_max_db: 1}\n",
        "s.yaml:2: not valid YAML: did not find expected ',' or '}'; close the { of this line with }.",
    ),
    "an equals sign": (
        "name: a\nlearning:\n  rounds = 10\n  algorithm: flmc\n",
        "s.yaml:3: not valid YAML: mapping values are not allowed in this context; write rounds: 10.",
    ),
}


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case.replace(" ", "_"))
def test_a_remedy_is_yaml_to_paste(case: str, tmp_path: Path) -> None:
    text, sentence = SENTENCES[case]
    assert sentence_about(text, tmp_path) == sentence


def test_another_algorithm_than_that_of_the_base_leaves_its_sweep_and_figures_out(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("name: a\nbase: flmc-epsilon\nlearning: {algorithm: fedavg}\n")
    found = check(file)
    assert found.ok
    assert found.loaded is not None
    assert found.loaded.scenario.link.channel.gain == 0.04  # of the base
    assert (found.loaded.scenario.sweep, found.loaded.scenario.privacy) == ({}, "none")


def test_an_error_of_all_sweep_points_names_none_of_them(tmp_path: Path) -> None:
    text = "name: a\nlink: {access: orthogonal}\nsweep: {learning.scheme: [analog, %s], learning.rounds: [300, 301]}\n"
    assert "sweep point learning.scheme = analog" in sentence_about(text % "noiseless", tmp_path)
    assert "sweep point" not in sentence_about(text.replace(", %s", ""), tmp_path)


def test_figures_of_what_is_not_swept_are_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "name: a\nsweep: {learning.num_devices: [3, 4]}\nreport:\n  figures:\n"
        "    - {x: learning.rounds, y: mse}\n    - {x: learning.num_devices, y: mse, where: {link.access: noma}}\n"
        "    - {x: learning.num_devices, y: mse}\n"
    )
    assert [one for one in check(file).warnings if "report" in one] == [
        "report.figures[0].x: all sweep points have one learning.rounds; sweep it, or write x: round",
        "report.figures[1].where: no sweep point has link.access noma; write a value that is swept",
    ]
