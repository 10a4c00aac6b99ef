"""A `measure:` section as curves and points: what the axes mean, what tells points apart, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phy.config import LinkConfig
from scenarios.report.settings import said
from scenarios.schema.consistency.link_axes import Budget
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.schema.schema import MeasureConfig, ValueRange
from scenarios.studies.link.level import axis_name, charged
from scenarios.studies.link.plan import LinkPlan, batch_shape, expand_link, rate_warning

BASE = """\
name: small-link
seed: 5
link: {modulation: qpsk, power: {policy: fixed}, packet_size_bytes: 32}
measure:
  values: [0, 2, 4]
"""


def plan_of(tmp_path: Path, text: str = BASE, *overrides: str) -> LinkPlan:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    return expand_link(load_scenario(path, overrides=overrides))


def link(**parts: Any) -> LinkConfig:
    return LinkConfig.model_validate({"modulation": "qpsk", "power": {"policy": "fixed"}, **parts})


# --- levels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", ["ebno_db", "esno_db", "snr_db"])
@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"modulation": "256qam", "channel": {"gain": 0.04, "noise_power": 3.0}},
        {"coding": {"code": "ldpc5g", "rate": 0.5}, "receiver": {"num_antennas": 4}},
        {"modulation": "auto", "mcs": 10},
        {"channel": {"gain": [0.1, 0.2, 0.3]}},
    ],
)
def test_the_power_that_is_set_gives_the_level_that_was_asked_for(parts: dict[str, Any], over: Any) -> None:
    config = link(**parts)
    num_devices = len(config.channel.gain) if isinstance(config.channel.gain, tuple) else 1
    budget = Budget.of(config, num_devices=num_devices, ebno="nominal")
    noise = config.channel.noise_power
    power = noise * 10 ** (budget.snr_max_db(7.0, over) / 10)
    resolved = config.resolve_mcs()
    bits = resolved.bits_per_symbol * (resolved.coding.rate if resolved.coding != "none" else 1.0)
    # The definition, written again: mean gain^2 P0 over the complex noise power 2 N0.
    esno = np.mean(np.square(config.channel.gains(num_devices))) * power / (2 * noise)
    expected = {"ebno_db": esno / bits, "esno_db": esno, "snr_db": esno * config.receiver.num_antennas}[over]
    assert 10 * np.log10(expected) == pytest.approx(7.0)
    assert budget.value_db(budget.esno_db(7.0, over), over) == pytest.approx(7.0)


def test_a_range_includes_its_end_and_has_round_values() -> None:
    assert ValueRange(start=0, stop=0.3, step=0.1).listed() == (0.0, 0.1, 0.2, 0.3)
    assert ValueRange(start=-1, stop=1.4, step=1).listed() == (-1.0, 0.0, 1.0)


def test_values_are_measured_in_ascending_order(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, BASE, "measure.values=[4, -2, 1]")
    assert [point.value_db for point in plan.curves[0].points] == [-2.0, 1.0, 4.0]


# --- batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits_per_batch", "packet_bytes", "expected"),
    [(256, 32, (1, 256)), (257, 32, (2, 256)), (1 << 20, 32, (256, 4096)), (1_000_000, 2312, (55, 18496))],
)
def test_a_batch_is_whole_packets_in_as_many_transmissions_as_possible(
    bits_per_batch: int, packet_bytes: int, expected: tuple[int, int]
) -> None:
    measure = MeasureConfig(values=(0.0,), bits_per_batch=bits_per_batch)
    shape = batch_shape(measure, link(access="orthogonal", packet_size_bytes=packet_bytes))
    assert (shape.transmissions, shape.num_bits) == expected


@pytest.mark.parametrize("num_devices", [1, 7, 5000])
@pytest.mark.parametrize("packet_bytes", [1, 32, 2312, 1 << 20])
def test_an_automatic_batch_stays_within_memory(num_devices: int, packet_bytes: int) -> None:
    measure = MeasureConfig(values=(0.0,), num_devices=num_devices)
    shape = batch_shape(measure, link(access="orthogonal", packet_size_bytes=packet_bytes))
    assert shape.num_bits % (8 * packet_bytes) == 0
    # No more than aimed at by a factor of two, unless a single packet of each device is more.
    assert shape.transmissions * shape.num_bits * num_devices <= max(2 << 20, 8 * packet_bytes * num_devices)


def test_an_automatic_batch_of_tiny_packets_in_long_blocks_is_bounded_by_what_is_decoded() -> None:
    coding = {"code": "ldpc5g", "rate": 0.5}
    measure = MeasureConfig(values=(0.0,))
    long_blocks = {**coding, "block_length": 8448, "standard": "sionna"}
    long = link(access="orthogonal", packet_size_bytes=2, coding=long_blocks)
    shape = batch_shape(measure, long)
    assert shape.transmissions * shape.num_bits // 16 * 16896 <= 8 << 18
    usual = batch_shape(measure, link(access="orthogonal", packet_size_bytes=128, coding=coding))
    assert (usual.transmissions, usual.num_bits) == (256, 1024)


@pytest.mark.parametrize(("packet_bytes", "warned"), [(8, True), (512, False)])
def test_a_rate_far_below_the_nominal_one_is_warned_of(tmp_path: Path, packet_bytes: int, warned: bool) -> None:
    options = ("link.coding.code=ldpc5g", "link.coding.rate=1/2", f"link.packet_size_bytes={packet_bytes}")
    options = (*options, "link.packets.crc=crc16")
    curve = plan_of(tmp_path, BASE, *options, "measure.ebno=nominal").curves[0]
    sentence = rate_warning(curve)
    assert (sentence is not None) == warned
    if sentence is not None:
        # 64 payload bits with a check sum of 16 at rate 1/2: 64 / 160.
        assert "code rate 0.5, but packets of 8 bytes carry 0.4 payload" in sentence
        assert "0.97 dB" in sentence
    for other in ("measure.ebno=sent", "measure.over=esno_db"):
        assert rate_warning(plan_of(tmp_path, BASE, *options, other).curves[0]) is None


@pytest.mark.parametrize(
    ("coding", "packet_bytes", "loss_db"),
    [
        # Seven zeros that clear the register, blocks of 12 bits at least, a check sum of 6 bits: 2.73, 1.76, 0.93 dB.
        ({"code": "convolutional", "constraint_length": 8}, 1, 10 * np.log10(15 / 8)),
        ({"code": "ldpc5g", "standard": "sionna"}, 1, 10 * np.log10(12 / 8)),
        ({"code": "polar5g", "rate": 0.9, "standard": "sionna"}, 2, 10 * np.log10(0.9 * 22 / 16)),
        # By the standard there are three parity checks more, and a bit that completes the symbol.
        ({"code": "polar5g", "rate": 0.9}, 2, 10 * np.log10(0.9 * 26 / 16)),
        ({"code": "convolutional", "constraint_length": 5}, 1000, 10 * np.log10(8032 / 8000)),
        ({"code": "polar5g"}, 2, 0.0),
        ({"code": "turbo", "rate": "1/3"}, 5, 0.0),
    ],
    ids=lambda one: one["code"] if isinstance(one, dict) else str(one),
)
def test_a_payload_bit_pays_for_all_bits_that_are_sent(
    coding: dict[str, Any], packet_bytes: int, loss_db: float
) -> None:
    config = link(access="orthogonal", packet_size_bytes=packet_bytes, coding=coding)
    sent, nominal = (Budget.of(config, num_devices=1, ebno=ebno) for ebno in ("sent", "nominal"))
    assert nominal.esno_db(4.0, "ebno_db") - sent.esno_db(4.0, "ebno_db") == pytest.approx(loss_db, abs=1e-9)
    assert sent.esno_db(4.0, "esno_db") == 4.0


def test_the_axis_says_which_rate_eb_n0_charges(tmp_path: Path) -> None:
    code = "link.coding={code: convolutional}"
    sent, nominal, uncoded = (
        plan_of(tmp_path, BASE, *options).curves
        for options in ((code,), (code, "measure.ebno=nominal"), ("measure.over=ebno_db",))
    )
    assert [axis_name(curves) for curves in (sent, nominal, uncoded)] == ["Eb/N0 as sent", "Eb/N0 nominal", "Eb/N0"]
    assert charged(sent, "esno_db") == ""


def test_curves_of_mcs_indices_are_called_by_them(tmp_path: Path) -> None:
    text = BASE.replace("modulation: qpsk, ", "") + "sweep: {link.mcs: [3, 9]}\n"
    plan = plan_of(tmp_path, text)
    assert [curve.label for curve in plan.curves] == ["MCS 3", "MCS 9"]
    assert [said(curve.point, "link.mcs") for curve in plan.curves] == ["MCS 3", "MCS 9"]


# --- identity -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ((), "bits"),
        (("link.channel.fading=rayleigh", "link.channel.coherence=symbol"), "bits"),
        (("link.channel.fading=rayleigh", "link.channel.coherence=packet"), "packets"),
        (("link.channel.fading=rayleigh", "link.channel.coherence=round"), "transmissions"),
        (("link.coding.code=ldpc5g", "link.coding.rate=1/2"), "packets"),
        (("link.channel.cell.scenario=umi",), "transmissions"),
    ],
)
def test_what_errs_independently_is_known_of_the_link(
    tmp_path: Path, overrides: tuple[str, ...], expected: str
) -> None:
    curve = plan_of(tmp_path, BASE, "link.modulation=qpsk", *overrides).curves[0]
    assert curve.independent == expected


NOMA = ("link.access=noma", "link.noma.group_size=2", "measure.num_devices=2", "measure.over=esno_db")


@pytest.mark.parametrize(
    ("overrides", "expected", "unit"),
    [
        ((), "bits", (4, 2)),
        (("link.modulation=bpsk",), "bits", (2, 2)),
        (("link.channel.fading=rayleigh",), "transmissions", (1, 1)),
        (("link.coding.code=ldpc5g", "link.coding.rate=1/2"), "transmissions", (1, 1)),
        (("link.csi={error_variance: 0.01}",), "transmissions", (1, 1)),
    ],
)
def test_devices_of_noma_err_together_in_a_symbol_where_noise_alone_makes_errors(
    tmp_path: Path, overrides: tuple[str, ...], expected: str, unit: tuple[int, int]
) -> None:
    curve = plan_of(tmp_path, BASE, "link.modulation=qpsk", *NOMA, *overrides).curves[0]
    assert (curve.independent, curve.unit) == (expected, unit)


def ids(plan: LinkPlan) -> list[str]:
    return [point.point_id for curve in plan.curves for point in curve.points]


def test_names_stopping_and_figures_are_no_part_of_a_point(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    for override in (
        "measure.stop.bit_errors=7",
        "measure.confidence=0.9",
        "description=other",
        "report.notes=other",
        "link.power.snr_max_db=3",
        "link.access=orthogonal",
        "link.power.cutoff_db=-10.0",
        "measure.values=[-0.0, 2, 4]",
    ):
        assert ids(plan_of(tmp_path, BASE, override)) == ids(plan), override


@pytest.mark.parametrize(
    "override",
    [
        "seed=6",
        "link.modulation=bpsk",
        "link.packet_size_bytes=33",
        "link.channel.fading=rayleigh",
        "measure.num_devices=2",
        "measure.bits_per_batch=4096",
        "measure.values=[1, 3]",
    ],
)
def test_whatever_changes_counts_makes_other_points(tmp_path: Path, override: str) -> None:
    assert not set(ids(plan_of(tmp_path, BASE, override))) & set(ids(plan_of(tmp_path)))


def test_the_same_level_on_two_axes_is_one_point(tmp_path: Path) -> None:
    over_ebno = plan_of(tmp_path, BASE, "link.modulation=bpsk")
    over_snr = plan_of(tmp_path, BASE, "link.modulation=bpsk", "measure.over=snr_db")
    assert ids(over_ebno) == ids(over_snr)


def test_a_sweep_makes_curves_and_learning_makes_none(tmp_path: Path) -> None:
    text = BASE + "sweep: {link.modulation: [bpsk, qpsk], learning.scheme: [analog, digital]}\n"
    plan = plan_of(tmp_path, text)
    assert [curve.label for curve in plan.curves] == ["BPSK", "QPSK"]
    assert plan.swept_paths == ("link.modulation",)


def test_a_label_of_the_sweep_names_the_curve(tmp_path: Path) -> None:
    text = BASE + "sweep: {zip: {link.modulation: [bpsk, qpsk], label: [slow, fast]}}\n"
    assert [curve.label for curve in plan_of(tmp_path, text).curves] == ["slow", "fast"]


def test_a_scenario_with_both_parts_may_sweep_the_power_for_learning(tmp_path: Path) -> None:
    text = BASE + "learning: {rounds: 300}\nsweep: {link.power.snr_max_db: [0, 10]}\n"
    assert len(plan_of(tmp_path, text).curves) == 1


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            ("[0, 2, 4]", "[0]\n  over: ebno"),
            "s.yaml:6: measure.over = ebno: must be ebno_db, esno_db or snr_db",
        ),
        (("values: [0, 2, 4]", "over: snr_db"), "measure.values: the key is missing"),
        (("[0, 2, 4]", "[0, x]"), "s.yaml:5: measure.values[1] = x: must be a number"),
        (("[0, 2, 4]", "[0, 2, 0]"), "0 stands twice in the list; write [0"),
        (("[0, 2, 4]", "{start: 4, stop: 0}"), "stop 0 is below start 4; write start: 0 and stop: 4"),
        (("[0, 2, 4]", "{start: 0, stop: 100, step: 0.01}"), "10001 values, at most 1000; write step: 0.101"),
        (("[0, 2, 4]", "[200]"), "s.yaml:5: measure.values[0] = 200: must be at most 150"),
        (("[0, 2, 4]", "3"), "s.yaml:5: measure.values = 3: must be a list"),
        (("[0, 2, 4]", "[0]\n  stop: {bit_errors: 1}"), "s.yaml:6: measure.stop.bit_errors = 1: must be at least 2"),
        (("[0, 2, 4]", "[0]\n  stop: {max_seconds: 0}"), "must be above 0"),
        (("[0, 2, 4]", "[0]\n  stop: {biterrors: 9}"), "did you mean measure.stop.bit_errors"),
        (
            ("[0, 2, 4]", "[0]\n  bits_per_batch: 255"),
            "s.yaml:6: measure.bits_per_batch = 255: less than one packet of 256 bits",
        ),
        (("[0, 2, 4]", "[0]\n  bits_per_batch: some"), "must be auto or a whole number"),
        (
            ("modulation: qpsk", "modulation: auto"),
            "s.yaml:3: link.modulation = auto: modulation auto follows the learning",
        ),
        (("modulation: qpsk", "modulation: analog"), "no device's bits are detected"),
        (
            ("modulation: qpsk", "access: superposition, modulation: bpsk"),
            "s.yaml:3: link.access = superposition: under",
        ),
        (
            ("modulation: qpsk", "modulation: qpsk, error_model: iid"),
            "measured on the simulated link, not on a model",
        ),
        (("policy: fixed", "policy: closed-loop"), "s.yaml:3: link.power.policy = closed-loop: a closed loop changes"),
        (
            ("modulation: qpsk", "modulation: qpsk, channel: {gain: [1, 2]}"),
            "gain has length 2, num_devices is 1; write measure.num_devices: 2, or one gain for all",
        ),
        (("modulation: qpsk", "modulation: qpsk, access: noma"), "1 device cannot form groups of 2"),
        (
            ("measure:\n  values: [0, 2, 4]", "trials: 3"),
            "phyloop link needs a measure: section, and this scenario has none",
        ),
        (
            ("[0, 2, 4]", "[0]\nsweep: {link.power.snr_max_db: [0, 3]}"),
            "s.yaml:6: link.power.snr_max_db: the transmit power",
        ),
        (
            ("[0, 2, 4]", "[0]\nsweep: {measure.values: [[0], [1]]}"),
            "s.yaml:6: measure.values: measure cannot be swept",
        ),
        (("[0, 2, 4]", "[0]\nsweep: {link.modulation: [qpsk, 8psk]}"), "s.yaml:6: link.modulation = 8psk: must be"),
    ],
)
def test_bad_input_is_one_sentence_with_place_value_and_remedy(
    tmp_path: Path, change: tuple[str, str], expected: str
) -> None:
    assert change[0] in BASE
    text = BASE.replace(*change)
    with pytest.raises(ScenarioError) as caught:
        plan_of(tmp_path, text)
    assert expected in str(caught.value)
    assert "; " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_power_out_of_reach_says_how_much_and_what_to_do(tmp_path: Path) -> None:
    text = BASE.replace("modulation: qpsk", "modulation: qpsk, channel: {gain: 2e-9}").replace("[0, 2, 4]", "[149]")
    with pytest.raises(ScenarioError, match="needs a transmit power of 329 dB over N0, at most 300 dB"):
        plan_of(tmp_path, text)
