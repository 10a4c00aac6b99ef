"""One wrong leaf in a library scenario gives one error at its line, whose remedy leaves none."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from command import write_scenario
from wrong_leaves import judged, wrong_leaves

from scenarios.schema.errors import has_parts
from scenarios.schema.loader import as_yaml, load_scenario
from scenarios.schema.yaml_marks import parse_yaml
from scenarios.studies.check import check

SAMPLE, SHARE_ALL = 60, 0.92
"""Leaves in a run of CI, and the least share of all leaves whose remedies leave no error, 0.96 of a sample of 246."""

FEDAVG = "name: a\nlearning: {algorithm: fedavg, data: digits, num_devices: 4"

PRIVACY = "name: a\nlearning: {algorithm: fedavg, data: digits}\nprivacy: {wrong: 1}\n"

ALONE = {
    "an unknown key of privacy alone": PRIVACY,
    "a key that the codec lacks": FEDAVG + ", codec: {name: fixed-point, protected_bits: 2}}\n",
    "an error variance below 0": "name: a\nlink: {csi: {error_variance: -1}}\n",
    "an epsilon of a budget below 0": FEDAVG
    + ", local: {clip: 1, steps: 1}}\nprivacy: {mechanism: gaussian, budget: {epsilon: -1}}\n",
    "an unknown access": FEDAVG + ", aggregation: {name: sign, vote: majority}}\nlink: {access: zzz}\n",
    "a figure over a number": FEDAVG + "}\nreport: {figures: [{x: -1, y: test_accuracy, series: label}]}\n",
}


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.replace(" ", "_"))
def test_what_follows_from_a_wrong_value_is_no_error(case: str, tmp_path: Path) -> None:
    errors = check(write_scenario(tmp_path, ALONE[case])).errors
    assert len(errors) == 1, "\n".join(map(str, errors))


def test_a_wrong_value_in_a_section_that_is_swept_as_a_whole_is_one_error(tmp_path: Path) -> None:
    sweep = "sweep: {learning.codec: [{name: fixed-point}, binary32]}\n"
    text = FEDAVG + ", codec: {name: fixed-point, bound: wrong}}\n" + sweep
    assert check(write_scenario(tmp_path, text)).ok, "every sweep point replaces the wrong codec"
    wrong = text.replace("{learning", "[{learning").replace("]}\n", "]}, {label: [other]}]\n")
    (error,) = check(write_scenario(tmp_path, wrong)).errors
    assert error.key == "learning.codec.bound"


LIMITS = {
    "link.channel.gain=1.0e-9": "must be above 1e-09; write for example 0.04",
    "learning.step_size=1.0e+12": "must be at most 1000000000; write for example 0.0001, or auto",
    "learning.step_size=-1": "must be above 1e-15; write for example 0.0001, or auto",
    "link.channel.nakagami_m=101": "must be at most 100; write for example 2.0",
    "link.channel.nakagami_m=2 km": "must be a number; write for example 2.0",
    "link.channel.cell.radius_m=2 km": "must be a number without a unit; write 2000",
    "link.channel.speed_m_s=30/3.6": "must be a number; write 8.33333",
    "trials=1.0e+30": "must be at most 10000000; write for example 3",
    "link.ofdm.num_symbols=some": "must be a whole number; write for example 14",
    "trials=50x": "must be a whole number; write 50",
}


@pytest.mark.parametrize("setting", LIMITS)
def test_a_remedy_names_the_limit_that_was_broken(setting: str, tmp_path: Path) -> None:
    first = check(write_scenario(tmp_path, "name: a\n"), overrides=[setting]).errors[0]
    assert f"{first.problem}; {first.remedy}" == LIMITS[setting]


SENTENCES = {
    "privacy without a known key": (
        PRIVACY,
        "s.yaml:3: privacy.wrong = 1: unknown key; write privacy: none in place of privacy.wrong.",
    ),
    "a number out of three": (
        FEDAVG + ", codec: {name: fixed-point, fraction_bits: 7}}\n",
        "s.yaml:2: learning.codec.fraction_bits = 7: must be 10, 23 or 52; write for example 10.",
    ),
    "a series that is no text": (
        FEDAVG + "}\nsweep: {learning.local.steps: [1, 2]}\nreport: {figures: [{x: round, y: test_accuracy, "
        "series: [7.25]}]}\n",
        "s.yaml:4: report.figures[0].series[0] = 7.25: must be text; write for example learning.local.steps.",
    ),
    "a figure without its metric": (
        "name: a\nreport:\n  figures:\n  - x: link.power.snr_max_db\n    y:\n",
        "s.yaml:5: report.figures[0].y: the key has no value; write for example mse.",
    ),
    "an algorithm without its name": (
        "name: a\nlearning:\n  algorithm:\n",
        "s.yaml:3: learning.algorithm: the key has no value; write for example fedavg.",
    ),
    "a batch without its size": (
        "name: a\nlearning:\n  local:\n    batch_size:\n",
        "s.yaml:4: learning.local.batch_size: the key has no value; write for example 32, or leave the key out.",
    ),
    "rounding to less than nothing": (
        "name: a\nsweep: {link.power.snr_max_db: [1, 2]}\nreport: {tables: [{metric: mse, rounded_to: -1, source: b, "
        "published: [{at: {link.power.snr_max_db: 1}, values: 1}]}]}\n",
        "s.yaml:3: report.tables[0].rounded_to = -1: must be above 0; write for example 1.",
    ),
}


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case.replace(" ", "_"))
def test_a_remedy_fits_what_is_written_around_it(case: str, tmp_path: Path) -> None:
    text, sentence = SENTENCES[case]
    path = write_scenario(tmp_path, text)
    (error,) = check(path).errors
    assert str(error).replace(str(path), "s.yaml") == sentence


def test_a_clip_beyond_single_precision_is_refused(tmp_path: Path) -> None:
    privacy = "privacy: {mechanism: device-noise, clip: 1.0e+39, epsilon: 5, delta: 1.0e-5}\n"
    (error,) = check(write_scenario(tmp_path, FEDAVG + "}\n" + privacy)).errors
    assert (error.key, error.problem) == ("privacy.clip", "must be at most 1000000000")


def test_the_remedy_for_one_sample_beside_a_personal_model_helps(tmp_path: Path) -> None:
    text = FEDAVG + ", personal: {}, partition: {samples_per_device: 1}}\n"
    (error,) = check(write_scenario(tmp_path, text)).errors
    assert error.remedy.startswith("write learning.partition.samples_per_device: 2")
    assert check(write_scenario(tmp_path, text.replace("device: 1", "device: 2"))).ok


@pytest.mark.parametrize(("written", "rate"), [("3/4", 0.75), ("1.5/2", 0.75), ("2 / 3", 2 / 3)])
def test_a_code_rate_may_be_a_quotient_of_two_numbers(written: str, rate: float, tmp_path: Path) -> None:
    link = "link: {access: orthogonal, modulation: qpsk, coding: {code: ldpc5g, rate: " + written + "}}\n"
    loaded = load_scenario(write_scenario(tmp_path, "name: a\n" + link + "measure: {values: [0]}\n"))
    assert loaded.scenario.link.coding is not None
    assert loaded.scenario.link.coding.rate == rate


@pytest.mark.parametrize("text", ["1e30", "1e+30", "-7", "true", "plain", "1.5.2"])
def test_a_text_that_looks_like_a_number_is_written_as_text(text: str) -> None:
    marked = parse_yaml(as_yaml({"description": text}), file="written")
    assert marked is not None
    assert marked.data == {"description": text}


def test_a_sample_of_wrong_leaves_gives_one_error_each_at_its_line(tmp_path: Path) -> None:
    leaves = Random(47).sample([*wrong_leaves()], SAMPLE)
    found = [(leaf, verdict) for leaf in leaves if (verdict := judged(leaf, tmp_path)) is not None]
    assert len(found) > 0.8 * SAMPLE
    wrong = [str(leaf) for leaf, verdict in found if len(verdict.errors) != 1 or not verdict.at_its_line]
    assert wrong == []
    # Three standard errors below the share of all leaves.
    share = sum(verdict.good for _, verdict in found) / len(found)
    assert share > SHARE_ALL - 3 * (SHARE_ALL * (1 - SHARE_ALL) / len(found)) ** 0.5


@pytest.mark.slow
def test_all_wrong_leaves_give_one_error_each_at_its_line(tmp_path: Path) -> None:
    found = [verdict for leaf in wrong_leaves() if (verdict := judged(leaf, tmp_path)) is not None]
    alone = sum(len(verdict.errors) == 1 and verdict.at_its_line for verdict in found) / len(found)
    good = sum(verdict.good for verdict in found) / len(found)
    print(f"{len(found)} wrong values, one error at the line: {alone:.2%}, none left: {good:.2%}")
    assert alone >= 0.95
    assert good >= SHARE_ALL


def test_wrong_leaves_are_those_of_the_whole_library() -> None:
    leaves = [*wrong_leaves()]
    assert len({leaf.scenario for leaf in leaves}) > 60
    assert any(leaf.wrong is None for leaf in leaves)
    assert not any(has_parts(leaf.right) for leaf in leaves)
