"""One check reports every mistake, also those that show once its other remedies are followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import write_scenario

from scenarios.studies.check import check

FEDAVG = "name: a\nlearning:\n  algorithm: fedavg\n  data: digits\n"
LINK = "name: a\nlink: {access: orthogonal, modulation: qpsk, packet_size_bytes: 32}\nmeasure:\n  values: [0]\n"

ERRORS = {
    "a conflict behind a key that is left out": (
        FEDAVG + "link: {channel: {model: tdl-a, fading: rayleigh}}\n",
        ["leave fading out: the model has its own", "write ofdm: {num_subcarriers: 72}, or model: flat"],
    ),
    "a whole number for a section": (FEDAVG + "  codec: 8\n", ["write {name: uniform, bits: 8}"]),
    "a near key whose value does not fit": (
        FEDAVG + "link: {channel: {noise_powr: -90}}\n",
        ["did you mean link.channel.noise_power", "write for example 1.0"],
    ),
    "one number for a list that needs two": (
        FEDAVG + "link: {ofdm: {guard_carriers: 6}}\n",
        ["write for example [5, 6]"],
    ),
    "a constellation that is near no other": (LINK.replace("qpsk", "8psk"), ["write for example auto"]),
    "an unknown key beside the only missing one, which does not take its value": (
        LINK.replace("values: [0]", "wrong: 1"),
        [
            "add values under measure: write for example values: {start: 0, stop: 20, step: 2}",
            "leave it out: the keys of measure are over, ebno, values, num_devices, bits_per_batch, stop and "
            "confidence",
        ],
    ),
    "figures over an axis whose range has the wrong form": (
        LINK.replace("[0]", "0:4:20") + "report: {figures: [{x: ebno_db, y: ber}]}\n",
        ["write {start: 0, stop: 20, step: 4}", "did you mean bit_error_rate"],
    ),
    "a swept path in another unit": (
        FEDAVG + "sweep: {link.channel.speed_kmh: [36, 1800]}\n",
        ["write link.channel.speed_m_s: [10, 500]"],
    ),
    "one value among zipped lists": (
        FEDAVG + "sweep: {zip: {link.power.snr_max_db: [0, 10], learning.codec.bits: 8}}\n",
        ["move it out of zip: learning.codec.bits: [8]"],
    ),
    "a word in braces": (
        FEDAVG + "sweep: {learning.aggregation: [mean, {sign}]}\n",
        ["write sign without braces, or name: sign inside them"],
    ),
    "several keys on one line": (
        FEDAVG + "link:\n  power:\n    policy: fixed, snr_max_db: 20\n",
        ["write each of these keys on a line of its own"],
    ),
    "keys beside a section that fit together once they are moved into it": (
        FEDAVG + "  optimizer: sgd\n  local: {batch_size: 16}\n",
        ["did you mean learning.local.optimizer"],
    ),
    "a sweep within a section": (
        "name: a\nlink:\n  modulation: auto\n  sweep:\n    power.snr_max_db: [0, 10]\n",
        ["write sweep at the top of the file, outside link", "did you mean link.power.snr_max_db"],
    ),
    "a figure over a key of another algorithm": (
        FEDAVG + "report: {figures: [{x: round, y: test_accuracy, series: scheme}]}\n",
        ["did you mean learning.aggregation"],
    ),
    "metrics of which a word is a part": (
        FEDAVG + "report: {figures: [{x: round, y: mse}]}\n",
        ["did you mean expected_mse, alignment_mse or aggregation_mse"],
    ),
    "a bare path as the sweep": (
        FEDAVG + "sweep: link.power.snr_max_db\n",
        ["write for example {link.power.snr_max_db: [0, 10, 20]}"],
    ),
}


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case.replace(" ", "_"))
def test_one_check_has_the_remedies_of_all_mistakes(case: str, tmp_path: Path) -> None:
    text, remedies = ERRORS[case]
    assert [error.remedy for error in check(write_scenario(tmp_path, text)).errors] == remedies


WARNINGS = {
    "a list of start, stop and step": (
        LINK.replace("[0]", "[0, 20, 2]"),
        "measure.values: the list has 0, 20 and 2 dB alone; for all of 0 to 20 dB in steps of 2 write measure.values: "
        "{start: 0, stop: 20, step: 2}",
    ),
    "a codec beside amplitudes in the air": (
        FEDAVG + "  codec: uniform\nlink: {access: superposition}\n",
        "learning.codec: has no effect, because numbers add up in the air as they are",
    ),
    "curves over a path that no sweep varies": (
        FEDAVG + "report: {figures: [{x: round, y: test_accuracy, series: learning.local.steps}]}\n",
        "report.figures[0].series: all sweep points have one learning.local.steps; sweep it, or leave series out",
    ),
}


@pytest.mark.parametrize("case", WARNINGS, ids=lambda case: case.replace(" ", "_"))
def test_what_was_likely_not_meant_is_a_warning(case: str, tmp_path: Path) -> None:
    text, sentence = WARNINGS[case]
    checked = check(write_scenario(tmp_path, text))
    assert checked.ok
    assert any(warning.startswith(sentence) for warning in checked.warnings)


def test_an_error_behind_a_moved_section_has_the_line_where_it_is_written(tmp_path: Path) -> None:
    path = write_scenario(tmp_path, FEDAVG + "figures:\n  - {x: round, y: loss}\n")
    assert [(error.line, error.key) for error in check(path).errors] == [(5, "figures"), (6, "report.figures[0].y")]
