"""What a link study keeps of its points: read as written, and refused where no study wrote it."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import write_scenario

from phy.measure.theory import awgn_bit_error_rate
from scenarios.engine.run import run_study
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.store.rows import Batch, Row
from scenarios.studies.folders import study_in
from scenarios.studies.link.results import LinkStore, read_results
from scenarios.studies.link.study import LinkStudy
from scenarios.studies.link.tables import device_rows, screen_row
from scenarios.studies.tables import export

TEXT = """\
name: small-link
link: {modulation: qpsk, channel: {model: awgn}, power: {policy: fixed}, packet_size_bytes: 32}
measure: {over: ebno_db, values: [0], bits_per_batch: 65536, stop: {bit_errors: 300, max_bits: 1e6}}
"""

CHANGES = {
    "a count that is no number": lambda kept: kept["counts"][0].__setitem__(0, "x"),
    "a tally with a fraction": lambda kept: kept["tallies"][0]["bits"].update(errors=0.5),
    "bursts of another shape": lambda kept: kept.update(bursts=[1]),
    "a number of batches that is none": lambda kept: kept["last"][0].update(batches="many"),
    "nothing": lambda kept: kept.clear(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_counts_that_no_study_wrote_are_said_in_one_sentence(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    run_study(LinkStudy(load_scenario(write_scenario(tmp_path, TEXT))), folder=tmp_path / "run")
    with LinkStore.open(tmp_path / "run", scenario_name="small-link") as store:
        (task, *_) = store.tasks.values()
        content = store.read(task)
        change(content["measured"])
        store.add(Row(batch=Batch(ids=[task.task_id], numbers=[1], seconds=1.0)), content)
    with pytest.raises(ScenarioError, match=r"is damaged .*run the scenario"):
        export(study_in(tmp_path / "run"), tmp_path / "run", tmp_path / "csv")


@pytest.mark.parametrize(("access", "groups"), [("noma", 1), ("orthogonal", 2)])
def test_devices_that_send_at_once_share_their_airtime(tmp_path: Path, access: str, groups: int) -> None:
    text = TEXT.replace("{modulation: qpsk,", f"{{modulation: qpsk, access: {access},")
    text = text.replace("over: ebno_db,", "over: ebno_db, num_devices: 2,")
    run_study(LinkStudy(load_scenario(write_scenario(tmp_path, text))), folder=tmp_path / "run")
    export(study_in(tmp_path / "run"), tmp_path / "run", tmp_path / "csv")
    with (tmp_path / "csv" / "link.csv").open() as file:
        together, *each = (float(row["airtime_s"]) for row in csv.DictReader(file))
    assert each[0] == each[1] > 0
    assert together == pytest.approx(groups * each[0])


def test_the_terminal_has_a_row_of_each_device_and_counts_where_no_error_was_seen(tmp_path: Path) -> None:
    text = TEXT.replace("over: ebno_db, values: [0]", "over: ebno_db, num_devices: 2, values: [30]")
    study = LinkStudy(load_scenario(write_scenario(tmp_path, text)))
    run_study(study, folder=tmp_path / "run")
    with LinkStore.open(tmp_path / "run", scenario_name="small-link") as store:
        ((found,),) = read_results(store, study.plan)
    lines = [screen_row(found, stored=True), *device_rows(found)]
    both, *each = (re.findall(r"0 of ([\d,]+), < ([\de.-]+)", line) for line in lines)
    assert [line.split()[:2] for line in lines[1:]] == [["device", "0"], ["device", "1"]]
    for quantity in range(2):  # bits, packets
        counts = [int(one[quantity][0].replace(",", "")) for one in (both, *each)]
        assert counts[0] == counts[1] + counts[2]
        assert float(each[0][quantity][1]) >= float(both[quantity][1]) > 0.0  # fewer observations, a looser limit
    assert max(map(len, lines)) <= 80


def test_throughput_of_retransmissions_is_that_of_their_losses(tmp_path: Path) -> None:
    """A packet of n bits is lost with p = 1 - (1 - q)^n; k (1 - p) payload bits arrive per n / 2 symbols of QPSK."""
    text = TEXT.replace("packet_size_bytes: 32", "packet_size_bytes: 32, packets: {policy: retransmit}")
    text = text.replace("over: ebno_db, values: [0]", "over: esno_db, values: [9, 10]")
    text += "report: {figures: [{x: esno_db, y: throughput}]}\n"
    run_study(LinkStudy(load_scenario(write_scenario(tmp_path, text))), folder=tmp_path / "run")
    export(study_in(tmp_path / "run"), tmp_path / "run", tmp_path / "csv")
    with (tmp_path / "csv" / "link.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row, esno_db in zip(rows, (9.0, 10.0), strict=True):
        bits = 8 * 32 + 16
        arrives = (1.0 - awgn_bit_error_rate(10 ** (esno_db / 10), bits_per_symbol=2)) ** bits
        low, found, high = (float(row[f"throughput{part}"]) for part in ("_low", "", "_high"))
        assert abs(found - 256 * arrives / (bits / 2)) < 4.0 * (high - low) / 2 / 1.96
        assert (high - low) / found < 0.1
    assert "throughput [bit per channel use]" in (tmp_path / "run" / "figures" / "01-throughput.svg").read_text()


@pytest.mark.parametrize("change", ["access: noma", "multiplexing: ofdma, ofdm: {num_subcarriers: 72}"])
def test_throughput_of_devices_that_send_at_once_is_refused(tmp_path: Path, change: str) -> None:
    text = TEXT.replace("{modulation: qpsk,", f"{{modulation: qpsk, {change},")
    text = text.replace("over: ebno_db,", "over: ebno_db, num_devices: 2,")
    text += "report: {figures: [{x: ebno_db, y: throughput}]}\n"
    with pytest.raises(ScenarioError, match="these use the channel at once"):
        LinkStudy(load_scenario(write_scenario(tmp_path, text)))


def test_throughput_without_an_arrival_has_an_upper_limit(tmp_path: Path) -> None:
    text = TEXT.replace("packet_size_bytes: 32", "packet_size_bytes: 32, packets: {policy: drop}")
    study = LinkStudy(load_scenario(write_scenario(tmp_path, text.replace("values: [0]", "values: [-10]"))))
    run_study(study, folder=tmp_path / "run")
    with LinkStore.open(tmp_path / "run", scenario_name="small-link") as store:
        ((point,),) = read_results(store, study.plan)
    found = point.throughput()
    assert found is not None
    packets = point.measured.tally.packets.observations
    # No arrival among so many packets: fewer than 3.7 in the mean, at 95 % from both sides.
    assert found[:2] == (0.0, 0.0)
    assert found[2] == pytest.approx(3.69 / packets * 256 / 136, rel=0.05)
