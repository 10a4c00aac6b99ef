"""The first remedy of every finding, followed to the letter, ends the finding and brings no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import write_scenario
from followed import followed

from scenarios.studies.check import check

FEDAVG = """\
name: a
link: {modulation: qpsk, channel: {fading: rayleigh}, power: {snr_max_db: 20}}
learning:
  algorithm: fedavg
  data: digits
  local: {optimizer: gd, clip: 1, steps: 1}
  num_devices: 20
  rounds: 30
"""
HELD_OUT = FEDAVG.replace("data: digits", "data: {name: digits, validation_samples: 300}")
AIR = FEDAVG.replace("modulation: qpsk", "access: superposition")
FLMC = """\
name: a
link: {channel: {gain: 0.04}, power: {policy: inversion, snr_max_db: 25}}
learning: {algorithm: flmc, scheme: analog, num_devices: 20, rounds: 300, burn_in: 200, gradient_bound: 30}
"""
LINK = """\
name: a
link:
  {access: orthogonal, modulation: qpsk, coding: {code: ldpc5g}, channel: {model: tdl-a}, ofdm: {num_subcarriers: 72}}
measure: {values: [0, 10], stop: {packet_errors: 10}}
"""
SWEPT = "sweep: {link.power.snr_max_db: [0, 10]}\n"

MISTAKES = {
    "a parameter of a swept key with its words in another order": (
        FEDAVG.replace("snr_max_db", "max_snr_db") + SWEPT,
        "did you mean link.power.snr_max_db.",
    ),
    "a key of another section with the same name": (
        FLMC.replace("scheme: analog, ", "").replace("link: {", "link: {scheme: analog, "),
        "did you mean learning.scheme.",
    ),
    "a number with a fraction": (FEDAVG.replace("rounds: 30", "rounds: 30.5"), "write 30."),
    "a rate above 1": (LINK.replace("ldpc5g", "ldpc5g, rate: 1.5"), "write for example 0.5."),
    "groups that do not fill": (
        FEDAVG.replace("modulation: qpsk", "modulation: qpsk, access: noma, noma: {group_size: 3}"),
        "write learning.num_devices: 21,",
    ),
    "a code in the air": (AIR.replace("link: {", "link: {coding: {code: ldpc5g}, "), "write coding: none,"),
    "an mcs in the air": (AIR.replace("link: {", "link: {mcs: 5, "), "leave mcs out,"),
    "a sweep as sections": (
        FEDAVG + "sweep: {link: {power: {snr_max_db: [0, 10]}}}\n",
        "in place of link in the sweep.",
    ),
    "privacy of amplitudes for averaging": (
        FEDAVG.replace("local: {optimizer: gd, clip: 1,", "local: {optimizer: sgd, batch_size: 8,")
        + "privacy: {epsilon: 100, delta: 0.25}\n",
        "write for example privacy: {mechanism: gaussian, epsilon: 100, delta: 0.25} and learning.local: "
        "{optimizer: gd, clip: 1, steps: 1}.",
    ),
    "keys of a figure beside the list of figures": (
        FEDAVG + SWEPT + "report: {x: round, y: test_accuracy, series: link.power.snr_max_db}\n",
        "write figures: [{x: round, y: test_accuracy, series: link.power.snr_max_db}] in place of x, y and series.",
    ),
    "a kind as a key": (
        FEDAVG + "  aggregation: {cpa: {gamma: 0.1}}\n",
        "write learning.aggregation: {name: cpa, gamma: 0.1}.",
    ),
    "privacy beside a scheme with an epsilon of its own": (
        FEDAVG + "  aggregation: cpa\nprivacy: {epsilon: 2}\n",
        "; leave privacy out.",
    ),
    "batches and momentum of gradient descent": (
        FEDAVG.replace("steps: 1", "steps: 1, batch_size: 8, momentum: 0.5"),
        "leave batch_size and momentum out,",
    ),
    "a speed in kilometres an hour by another name": (
        LINK.replace("model: tdl-a", "model: tdl-a, velocity_kmh: 36"),
        "write link.channel.speed_m_s: 10.",
    ),
    "a share in percent": (FEDAVG + "  attack: {kind: random, percent: 10}\n", "write learning.attack.share: 0.1."),
    "a gain in decibels": (FEDAVG.replace("fading: rayleigh", "gain: -20 dB"), "write 0.1."),
    "a section at the top that is not the code of a run": (
        FEDAVG.replace("learning:", "codec: {bits: 4}\nlearning:"),
        "did you mean learning.codec.",
    ),
    "a carrier frequency by its symbol": (
        LINK.replace("model: tdl-a", "model: tdl-a, fc_ghz: 3.5"),
        "write link.channel.carrier_frequency_hz: 3.5e9.",
    ),
    "amplitudes that add up in a link study": (
        LINK.replace("access: orthogonal, modulation: qpsk", "access: superposition, modulation: analog"),
        "write access: orthogonal and modulation: qpsk.",
    ),
    "a list in place of a sweep": (FEDAVG.replace("20}", "[0, 10]}"), "move the list into the sweep:"),
    "schemes of which some carry no bits and no code": (
        FLMC.replace("num_devices", "task: {name: gaussian-linear, dimension: 50}, num_devices").replace(
            "link: {", "link: {modulation: bpsk, coding: {code: ldpc5g, rate: 0.5}, "
        )
        + "sweep: {learning.scheme: [analog, digital, digital-orthogonal]}\n",
        "write zip: {learning.scheme: [analog, digital, digital-orthogonal], link.modulation: [auto, bpsk, bpsk], "
        "link.coding: [none, none, {code: ldpc5g, rate: 0.5}]} in place of learning.scheme in the sweep.",
    ),
    "aggregations of which one needs a slot for every device, beside a zip": (
        AIR
        + "sweep:\n  zip: {link.power.snr_max_db: [0, 10], label: ['a, b', c]}\n"
        + "  learning.aggregation: [mean, median]\n",
        'write zip: [{link.power.snr_max_db: [0, 10], label: ["a, b", c]}, {learning.aggregation: [mean, median], '
        "link.access: [superposition, orthogonal]}] in place of learning.aggregation and zip in the sweep.",
    ),
    "two axes of which one combination is impossible": (
        FEDAVG + "sweep: {link.access: [superposition, orthogonal], learning.aggregation: [mean, median]}\n",
        "write zip: {link.access: [superposition, orthogonal, orthogonal], learning.aggregation: [mean, mean, median], "
        "link.modulation: [auto, qpsk, qpsk]} in place of link.access and learning.aggregation in the sweep.",
    ),
    "candidates without keys": (
        HELD_OUT + "tune: {learning.local.learning_rate: [0.02, 0.2]}\n",
        "write keys: {learning.local.learning_rate: [0.02, 0.2]} and leave learning.local.learning_rate out.",
    ),
    "candidates in sections without keys": (
        HELD_OUT + "tune: {learning: {local: {learning_rate: [0.02, 0.2]}}}\n",
        "write keys: {learning.local.learning_rate: [0.02, 0.2]} and leave learning out.",
    ),
    "candidates in a grid": (
        HELD_OUT + "tune: {grid: {learning.local.steps: [1, 5]}}\n",
        "; write keys in place of grid.",
    ),
    "candidates in a sweep": (
        HELD_OUT + "tune: {sweep: {learning.local.steps: [1, 5]}}\n",
        "; write keys in place of sweep.",
    ),
    "candidates of a key without its section": (
        HELD_OUT + "tune: {keys: {learning_rate: [0.02, 0.2]}}\n",
        "did you mean learning.local.learning_rate",
    ),
    "candidates of a key in sections": (
        HELD_OUT + "tune: {keys: {learning: {local: {learning_rate: [0.02, 0.2]}}}}\n",
        "write learning.local.learning_rate: [0.02, 0.2] in place of learning.",
    ),
    "labels that are too few": (
        FEDAVG + "sweep: {zip: {learning.aggregation: [mean, median, {name: trimmed-mean}], label: [a, b]}}\n",
        "write zip: {learning.aggregation: [mean, median, {name: trimmed-mean}], label: [a, b, trimmed-mean]},",
    ),
    "bits beyond the limit": (
        FEDAVG.replace("gd, clip: 1", "sgd, batch_size: 8") + "  aggregation: {name: cpa, rate_bits: 8}\n",
        "write 6 or less.",
    ),
    "a number of values in place of a step": (
        LINK.replace("[0, 10]", "{start: 0, stop: 20, num: 11}"),
        "write step: 2 in place of num.",
    ),
    "a misspelt step, whose number is no number of values": (
        LINK.replace("[0, 10]", "{start: 0, stop: 20, stp: 2}"),
        "did you mean measure.values.step.",
    ),
    "a range of Python with a step of 0": (
        LINK.replace("[0, 10]", "'range(0, 20, 0)'"),
        "write for example {start: 0, stop: 20, step: 2}.",
    ),
    "an angle in radians": (
        FEDAVG.replace("link: {", "link: {impairments: {phase_error_rad: 0.5}, "),
        "write link.impairments.phase_error_deg: 28.6479.",
    ),
    "an energy in microjoules": (
        FEDAVG.replace("snr_max_db: 20", "snr_max_db: 20, budget: {energy_uj: 1.5}"),
        "write link.power.budget.energy_j: 1.5e-06.",
    ),
    "a time in minutes": (LINK.replace("stop: {", "stop: {max_time_min: 2, "), "write measure.stop.max_seconds: 120."),
    "a range as Python's": (
        FEDAVG + "sweep: {link.power.snr_max_db: 'range(0, 30, 10)'}\n",
        "write link.power.snr_max_db: [0, 10, 20].",
    ),
    "mechanisms of which one needs kappa": (
        FEDAVG.replace("rounds: 30", "rounds: 30\n  codec: {name: uniform, bits: 8, bound: 0.05}")
        + "privacy: {epsilon: 3000}\nsweep: {privacy.mechanism: [gaussian, bit-flipping]}\n",
        "write privacy: [{mechanism: gaussian, epsilon: 3000}, {mechanism: bit-flipping, epsilon: 3000, kappa: 0.02}] "
        "in place of privacy.mechanism in the sweep.",
    ),
    "a swept mechanism without kappa": (
        FEDAVG.replace("rounds: 30", "rounds: 30\n  codec: {name: uniform, bits: 8, bound: 0.05}")
        + "sweep: {privacy: [none, {mechanism: bit-flipping, epsilon: 3000}]}\n",
        "write privacy: [none, {mechanism: bit-flipping, epsilon: 3000, kappa: 0.02}] in the sweep.",
    ),
}


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case.replace(" ", "_"))
def test_the_first_remedy_works_to_the_letter(case: str, tmp_path: Path) -> None:
    text, words = MISTAKES[case]
    path = write_scenario(tmp_path, text)
    found = check(path)
    assert words in str(found)
    again = check(write_scenario(tmp_path, followed(path, found.errors)))
    # That the points of one sweep count epsilon or use the channel in their own ways is no mistake of the remedy.
    own = ("of different kinds", "equal rounds are not")
    assert [*again.errors, *(one for one in again.warnings if not any(words in one for words in own))] == []


def test_a_budget_that_makes_bits_fair_coins_has_a_codec_and_an_epsilon_that_do_not(tmp_path: Path) -> None:
    codec = "  codec: {name: fixed-point, bound: 1}\n"
    budget = "privacy: {mechanism: bit-flipping, budget: {epsilon: 5}}\n"
    (warning,) = check(write_scenario(tmp_path, FEDAVG + codec + budget)).warnings
    match = re.search(r"write learning.codec: ({.+?}) and privacy.budget.epsilon: (\d+), or more", warning)
    assert warning.startswith("privacy.budget.epsilon: 5 for 14,950 bits in each of 30 rounds flips them")
    assert match is not None
    found = check(write_scenario(tmp_path, FEDAVG + f"  codec: {match[1]}\n" + budget.replace("5", match[2])))
    assert found.ok
    assert found.warnings == ()


@pytest.mark.parametrize(("factor", "warned"), [(-4, True), (-1, False)])
def test_attackers_that_cancel_the_mean_are_warned_of(factor: int, warned: bool, tmp_path: Path) -> None:
    """1 - s + s f = 0.8 - 0.2 * 4 = 0 for a fifth of the devices with factor -4."""
    text = FEDAVG + f"  attack: {{kind: sign-flip, share: 0.2, factor: {factor}}}\n"
    warnings = check(write_scenario(tmp_path, text)).warnings
    assert any("cancels the mean" in one for one in warnings) == warned
