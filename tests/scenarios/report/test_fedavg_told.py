"""What `check` and the report say of federated averaging: sizes, airtime, privacy, and who holds which samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_runs import make_plan, make_trial, store_trials
from own_network import own_network
from sentences import sentence_about

from fl.algorithms.fedavg.config import FedAvgConfig
from phy.config import LinkConfig
from phy.links.airtime import upload_airtime_s
from scenarios.cli.describe import describe, listings
from scenarios.engine.batch import LIBRARIES_BYTES, TENSORFLOW_BYTES, batch_size
from scenarios.engine.limits import estimate
from scenarios.plan.plan import expand
from scenarios.plan.points import Plan
from scenarios.report.check import check_figures
from scenarios.report.figures.images import label_counts
from scenarios.report.page import write_report
from scenarios.schema.errors import ScenarioError
from scenarios.schema.labels.labels import axis_label, setting_cell, setting_label
from scenarios.schema.loader import load_scenario
from scenarios.store.store import Store

FEDAVG = "name: a\ntrials: 3\nlearning:\n  algorithm: fedavg\n"


def planned(text: str, folder: Path) -> Plan:
    (folder / "s.yaml").write_text(text)
    return expand(load_scenario(folder / "s.yaml"))


def cells(plan: Plan) -> list[dict[str, str]]:
    (listing,) = listings(plan)
    return [dict(zip(listing.table.columns, row, strict=True)) for row in listing.table.rows]


def test_check_tells_parameters_bits_airtime_and_the_target_of_theorem_1(tmp_path: Path) -> None:
    plan = planned(
        f"{FEDAVG}  codec: fixed-point\n  rounds: 50\n  local: {{clip: 1, steps: 1}}\n"
        "link: {bandwidth_hz: 1e6}\n"
        "sweep:\n  privacy: [none, {mechanism: bit-flipping, epsilon: 10, kappa: 0.02}, "
        "{mechanism: bit-flipping, epsilon: 1, kappa: 0.02}, {mechanism: gaussian, epsilon: 10}]\n",
        tmp_path,
    )
    rows = cells(plan)
    # 64 pixels and a constant to 10 classes; 23 fraction bits each; two bits per symbol of a microsecond.
    assert {(row["numbers"], row["bits"], row["airtime"]) for row in rows} == {("650", "14,950", "0.007475 s")}
    # The digest: p = 0.0909 and 0.5 at eps 10 and 1 over 50 rounds.
    assert [row["target p"] for row in rows] == ["", "0.09091", "0.5 (clamped)", ""]
    sigma = 2 * 0.1 * 1.0 / 71 * 50 * (2 * np.log(1.25 / 0.25)) ** 0.5 / 10
    assert float(rows[3]["sigma"]) == pytest.approx(sigma, rel=1e-3)
    told = " ".join(describe(plan.points[0].scenario))
    assert "1,437 training and 360 test images of 8 x 8, 10 classes" in told
    assert "about 71 samples each" in told
    assert "50 rounds of 1 local step (gd), 23 bits per parameter (fixed-point)" in told


def test_check_tells_of_codec_studies_and_of_several_algorithms_at_once(tmp_path: Path) -> None:
    moments = planned("name: a\nlearning: {algorithm: flip-moments, draws: 100}\n", tmp_path)
    assert cells(moments)[0]["bits"] == "2,300"
    both = planned("name: a\nsweep: {learning: [{scheme: digital, step_size: 1e-4}, {algorithm: fedavg}]}\n", tmp_path)
    assert [one.title for one in listings(both)] == [
        "Receive amplitude A is limited by the LMC cap at 1 of 1 sweep point.",
        "What one device sends in a round:",
    ]
    assert listings(planned("name: a\nlearning: {algorithm: bit-distance}\n", tmp_path)) == []


def test_airtime_counts_code_check_sum_and_whole_ofdm_slots() -> None:
    plain = LinkConfig(access="orthogonal", modulation="16qam", bandwidth_hz=1e6)
    assert upload_airtime_s(plain, payload_bits=4001) == pytest.approx(1001e-6)
    assert upload_airtime_s(plain.model_copy(update={"error_model": "error_free"}), payload_bits=8) is None
    made: dict[str, Any] = {"access": "orthogonal", "modulation": "qpsk", "packet_size_bytes": 100}
    half = LinkConfig.model_validate({**made, "coding": {"code": "ldpc5g", "rate": 0.5}})
    # Two packets of 800 bits and one of 400, twice as many bits coded, two on a symbol.
    assert upload_airtime_s(half, payload_bits=2000) == pytest.approx(2000e-6, rel=0.1)
    ofdm = LinkConfig.model_validate(
        {**made, "ofdm": {"num_subcarriers": 72, "num_symbols": 14, "pilot_symbols": [2, 11]}}
    )
    assert ofdm.ofdm != "none"
    # 400 symbols of a packet in a slot of 72 x 12 = 864.
    assert upload_airtime_s(ofdm, payload_bits=1600) == pytest.approx(2 * 14 * ofdm.ofdm.symbol_s)


def test_only_trials_that_share_their_work_make_a_batch(tmp_path: Path) -> None:
    alone = planned("name: a\nlearning: {algorithm: flip-moments, draws: 2, rounds: 2}\n", tmp_path)
    assert batch_size(alone.points[0].scenario) == 1
    assert batch_size(planned("name: a\nlearning: {rounds: 20, burn_in: 10}\n", tmp_path).points[0].scenario) > 10


def test_the_estimate_of_memory_grows_with_the_model_and_the_images(tmp_path: Path) -> None:
    def memory(text: str) -> int:
        return estimate(planned(f"{FEDAVG}{text}", tmp_path)).memory_bytes

    linear = memory("  data: mnist\n")
    assert linear > LIBRARIES_BYTES + 70_000 * 784
    assert memory("  data: mnist\n  model: emnist-cnn\n") > linear + 20 * 4 * 1_000_000
    assert memory("  data: mnist\n  model: resnet18\n") > linear + TENSORFLOW_BYTES
    with own_network():
        assert memory("  data: mnist\n  model: own-network\n") > linear
    assert memory("  data: mnist\n  rounds: 10000\n") > linear


def test_a_network_of_the_user_has_no_known_size(tmp_path: Path) -> None:
    with own_network():
        plan = planned(f"{FEDAVG}  model: own-network\n", tmp_path)
        scenario = plan.points[0].scenario
        assert (scenario.learning.num_values(), scenario.learning.payload_bits()) == (None, None)
        assert not {"bits", "airtime [s]"} & cells(plan)[0].keys()  # columns that nothing is known of are left out
        assert scenario.learning.bytes_per_trial(scenario.link) > 0


@pytest.mark.parametrize(
    ("algorithm", "figure", "complaint"),
    [
        ("fedavg", "{x: learning.rounds, y: mse}", "names nothing that is measured; did you mean expected_mse"),
        ("flmc", "{x: learning.rounds, y: test_accuracy}", "names nothing that is measured; write one of mse"),
        ("fedavg", "{x: value, y: test_accuracy}", "names no key of a scenario; write round, channel_uses"),
        ("flip-moments", "{x: value, y: mse}", "write one of value, recovered_mean"),
        ("bit-distance", "{x: round, y: kappa}", "names no key of a scenario; did you mean learning.rounds"),
        ("fedavg", "{x: round, y: kappa}", "is no number of one round, which x = round asks for"),
        (
            "fedavg",
            "{x: round, y: test_accuracy, series: device}",
            "tells no curves of test_accuracy apart; set y to snr_db",
        ),
    ],
)
def test_a_figure_of_what_the_algorithm_never_measures_is_refused(
    algorithm: str, figure: str, complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(f"name: a\nlearning: {{algorithm: {algorithm}}}\nreport:\n  figures: [{figure}]\n")
    with pytest.raises(ScenarioError) as caught:
        check_figures(load_scenario(tmp_path / "s.yaml"))
    assert complaint in str(caught.value)
    assert caught.value.line == 4


@pytest.mark.parametrize(
    ("algorithm", "figure"),
    [
        ("fedavg", "{x: round, y: end_error_rate, series: [label, device]}"),
        ("fedavg", "{x: spent_j, y: test_accuracy}"),
        ("fedavg", "{x: privacy.epsilon, y: epsilon_accounted}"),
        ("fedavg", "{x: round, y: bound, y_scale: log}"),
        ("flip-moments", "{x: value, y: lemma1_variance}"),
        ("bit-distance", "{x: learning.dimension, y: l1_distance}"),
    ],
)
def test_a_figure_of_what_it_measures_passes(algorithm: str, figure: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"name: a\nlearning: {{algorithm: {algorithm}}}\nreport:\n  figures: [{figure}]\n")
    check_figures(load_scenario(tmp_path / "s.yaml"))


def test_a_sweep_of_algorithms_may_draw_what_any_of_them_measures(tmp_path: Path) -> None:
    text = "name: a\nsweep:\n  zip: {learning: [{algorithm: fedavg}, {}]}\nreport:\n"
    text += "  figures: [{x: label, y: mse}, {x: label, y: kappa}]\n"
    (tmp_path / "s.yaml").write_text(text)
    check_figures(load_scenario(tmp_path / "s.yaml"))


def test_settings_of_the_mechanisms_are_said_as_people_say_them() -> None:
    flips = {"mechanism": "bit-flipping", "epsilon": 10.0, "order": 2.0, "kappa": 0.02, "channel": "agnostic"}
    assert setting_label("privacy", flips) == "bit flipping, ε = 10, κ = 0.02, channel-agnostic"
    noise = {"mechanism": "gaussian", "epsilon": 10.0, "delta": None, "calibration": "dp-accounting"}
    assert setting_label("privacy", noise) == "Gaussian noise, ε = 10, calibrated"
    assert setting_label("privacy", {"epsilon": 5.0, "delta": 0.01, "analog_cap": "exact"}) == "ε = 5"
    codec = {"name": "uniform", "bits": 8, "bound": 0.5, "stochastic": True, "max_clipped": 0.05}
    assert setting_label("learning.codec", codec) == "uniform"
    assert setting_label("learning.codec", {**codec, "bound": 2.0}) == "uniform, bound = 2"
    assert setting_cell("learning.dimension", 1206590) == "1206590"
    assert setting_label("learning.dimension", 1206590) == "M = 1,206,590"
    assert axis_label("distance_sq") == "squared distance to the optimum ‖w - w*‖²"


def test_a_bad_partition_of_one_sweep_point_is_told_with_its_line(tmp_path: Path) -> None:
    text = f"{FEDAVG}  partition: {{samples_per_device: 50}}\nsweep:\n  learning.num_devices: [20, 50]\n"
    said = sentence_about(text, tmp_path)
    assert said.startswith("s.yaml:5: learning.partition.samples_per_device = 50: 50 devices of 50 samples need 2,500")
    assert "(at the sweep point learning.num_devices = 50)" in said


def test_label_counts_are_those_that_the_run_deals() -> None:
    plan = make_plan(
        [{}],
        trials=1,
        learning={"algorithm": "fedavg", "num_devices": 7, "partition": {"kind": "dirichlet", "alpha": 0.3}},
    )
    scenario = plan.points[0].scenario
    from fl.algorithms.fedavg.federation import Federation

    assert isinstance(scenario.learning, FedAvgConfig)
    federation = Federation(scenario.learning, link=scenario.link, privacy=None, seed=scenario.seed, trial=0)
    counts = label_counts(scenario.learning, seed=scenario.seed, trial=0)
    assert counts is not None
    np.testing.assert_array_equal(counts, federation.partition.label_counts())
    assert counts.sum() == 1437
    other = label_counts(scenario.learning, seed=scenario.seed, trial=1)
    assert other is not None
    assert (other != counts).any()


def test_the_page_shows_partitions_and_privacy_apart_from_results(tmp_path: Path) -> None:
    flips = {"mechanism": "bit-flipping", "epsilon": 10.0, "kappa": 0.02}
    unlike = {"kind": "dirichlet", "alpha": 0.3}
    learning = {
        "algorithm": "fedavg", "local": {"clip": 1.0}, "codec": {"name": "fixed-point"}, "partition": unlike,
    }  # fmt: skip
    plan = make_plan(
        [{"learning.num_devices": k, "privacy": p} for k in (5, 8) for p in (flips, "none")],
        trials=1,
        learning=learning,
    )
    private = make_trial(0, metrics={"test_accuracy": 0.75, "kappa": 0.02, "target_bit_error_rate": 0.125})
    shape = (3, 2)
    private = replace(
        private,
        devices={"flip_probability": np.full(shape, 0.0625), "clamp": np.zeros(shape, np.int64)},
    )
    open_ = make_trial(0, metrics={"test_accuracy": 0.875})
    store_trials(tmp_path, plan, {0: [private], 1: [open_], 2: [private], 3: [open_]})
    with Store.open(tmp_path, scenario_name="fake") as store:
        store.save_scenario(yaml="name: fake\n", root={"name": "fake"})
        paths = write_report(tmp_path, plan, store=store)
    page = paths.html.read_text()
    results, privacy = page[page.index(">Results per point</h2>") :].split(">Requested privacy</h2>")
    assert "0.875" in results
    assert "0.125" not in results
    assert privacy.count('<td class="number">0.125</td>') == 2
    assert privacy.count("0.0625") == 2
    assert page.count(", 5 devices: samples in the first trial") >= 1
    assert page.count(", 8 devices: samples in the first trial") >= 1
    partitions = {path.name for path in paths.figures if path.match("partition-*")}
    assert partitions == {"partition-1.svg", "partition-2.svg"}


def test_a_run_of_flmc_has_no_such_sections(tmp_path: Path) -> None:
    plan = make_plan([{}], trials=1)
    store_trials(tmp_path, plan, {0: [make_trial(0, metrics={"mse": 1.0})]})
    with Store.open(tmp_path, scenario_name="fake") as store:
        store.save_scenario(yaml="name: fake\n", root={"name": "fake"})
        page = write_report(tmp_path, plan, store=store).html.read_text()
    assert "Samples of each device" not in page
    assert "Requested privacy" not in page


def test_a_column_without_a_cell_is_left_out(tmp_path: Path) -> None:
    (row,) = cells(planned(f"{FEDAVG}  aggregation: {{name: sign, epsilon: 1, channel: native}}\n", tmp_path))
    assert "target p" in row
    assert not {"kappa", "sigma"} & row.keys()
