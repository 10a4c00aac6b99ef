"""`phyloop link --inspect`: the point it chooses, packets as the study measured them, and what it draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import phyloop, write_scenario

from phy.measure.monte_carlo import StopRule
from scenarios.engine.run import run_study
from scenarios.report.figures.radio import draw_fades
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.studies.link.inspection import (
    Inspected,
    choose,
    inspect_point,
    packet_table,
    parse_at,
    sentences,
    write_inspection,
)
from scenarios.studies.link.plan import LinkPlan, expand_link
from scenarios.studies.link.results import LinkStore, read_results
from scenarios.studies.link.study import LinkStudy

TEXT = """\
name: looked-at
description: <script>alert(1)</script>
seed: 5
link: {channel: {model: flat, fading: rayleigh, coherence: packet}, power: {policy: fixed}, packet_size_bytes: 32}
measure:
  over: ebno_db
  values: [0, 6, 20, 60]
  bits_per_batch: 65536
sweep:
  link.modulation: [qpsk, 16qam]
  link.channel: [{model: awgn}, {model: flat, fading: rayleigh, coherence: packet}]
"""
AWGN = {"link.modulation": "qpsk", "link.channel": {"model": "awgn"}, "ebno_db": 6}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LinkPlan]:
    """A run folder with one batch of every point, and its plan."""
    folder = tmp_path_factory.mktemp("inspection")
    loaded = load_scenario(write_scenario(folder, TEXT))
    plan = expand_link(loaded)
    run_study(LinkStudy(loaded, plan, rule=StopRule(max_bits=1)), folder=folder / "run")
    return folder / "run", plan


def looked_at(study: tuple[Path, LinkPlan], **options: Any) -> Inspected:
    return inspect_point(*study, **{"at": {"ebno_db": 6, "link.modulation": "16qam"}, "num_packets": 4, **options})


def test_the_packets_are_those_that_the_study_measured(study: tuple[Path, LinkPlan]) -> None:
    for number in (0, 1, 3):
        setting = study[1].curves[number].point.settings
        found = looked_at(study, at={**setting, "ebno_db": 6}, num_packets=256)
        assert found.measured is not None
        tally, wrong = found.measured.measured.tally, found.packets.wrong
        assert tally.batches == 1
        assert wrong.size == tally.bits.observations == 65536
        assert wrong.sum() == tally.bits.errors > 0
        assert (wrong.sum(axis=-1) ** 2).sum() == tally.bits.squared_errors  # packet by packet: each is a cluster
        assert wrong.any(axis=-1).sum() == tally.packets.errors
        bits, packets = found.rates
        assert bits == found.measured.rates()[0]
        assert packets == found.measured.rates()[1]


def test_the_point_nearest_to_a_hundredth_is_chosen_among_those_that_fit(study: tuple[Path, LinkPlan]) -> None:
    folder, plan = study
    with LinkStore.open_existing(folder) as store:
        points = [one for some in read_results(store, plan) for one in some]
    measured = {one.point.point_id: one for one in points}
    rates = {one.point.point_id: one.measured.tally.bits.errors / 65536 for one in points}

    def telling(ids: list[str]) -> str:
        return min((one for one in ids if rates[one]), key=lambda one: max(rates[one] / 0.01, 0.01 / rates[one]))

    for at, kept in (
        ({}, points),
        ({"link.modulation": "16qam"}, [one for one in points if one.curve.link.modulation == "16qam"]),
        ({"esno_db": 6 + 10 * 0.30102999566398}, [one for one in points if abs(one.point.esno_db - 9.0103) < 1e-3]),
    ):
        _, point, fitting = choose(plan, measured, at=at)
        assert point.point_id == telling([one.point.point_id for one in kept])
        assert fitting == len(kept)
    curve, point, fitting = choose(plan, {}, at=AWGN)  # a single point needs no measured rate
    assert (curve.link.channel.model, point.value_db, fitting) == ("awgn", 6, 1)


@pytest.mark.parametrize(
    ("at", "sentence"),
    [
        (
            {"snr": 6},
            "--at: snr: is neither swept in this study nor one of its axes; use link.modulation, link.channel",
        ),
        ({"ebno_db": 7}, "--at: ebno_db = 7: no point of the study has this value; use 0, 6, 20 or 60"),
        ({"link.modulation": "bpsk"}, "no point of the study has this value; use qpsk or 16qam"),
    ],
)
def test_a_choice_without_a_point_is_one_sentence(
    study: tuple[Path, LinkPlan], at: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        looked_at(study, at=at)
    assert sentence in str(caught.value)
    assert len(caught.value.errors) == 1


def test_more_packets_than_the_batch_has_are_refused(study: tuple[Path, LinkPlan]) -> None:
    with pytest.raises(ScenarioError, match=r"--packets = 1000000: the first batch .* has \d+ packets") as caught:
        looked_at(study, num_packets=1_000_000)
    most = int(caught.value.remedy.split()[2])
    with pytest.raises(ScenarioError, match=f"write --packets {most} or less"):
        looked_at(study, num_packets=most + 1)


def test_values_are_read_as_yaml() -> None:
    assert parse_at(["ebno_db=6", "link.csi={estimator: ls}"]) == {"ebno_db": 6, "link.csi": {"estimator": "ls"}}
    for text in ("ebno_db", "ebno_db="):
        with pytest.raises(ScenarioError, match="is no key with a value"):
            parse_at([text])


def test_a_page_has_what_the_link_has_and_runs_nothing_from_the_scenario(
    study: tuple[Path, LinkPlan], tmp_path: Path
) -> None:
    page, figures = write_inspection(tmp_path, looked_at(study, at=AWGN, num_packets=16))
    assert page == tmp_path / "inspect" / "curve-1-6dB" / "report.html"
    assert [one.svg.stem for one in figures] == ["errors", "constellation", "01-share_of_runs"]  # no channel to see
    html = page.read_text()
    assert "Sionna&#39;s blocks" in html
    assert "<h2>Channel</h2>" not in html
    assert "<script>alert" not in html
    curve = study[1].curves[3].point.settings
    page, figures = write_inspection(tmp_path, looked_at(study, at={**curve, "ebno_db": 6}))
    assert [one.svg.stem for one in figures] == ["errors", "constellation", "channel", "01-share_of_runs"]
    assert "<h2>Channel</h2>" in page.read_text()
    before = {path: path.read_bytes() for path in page.parent.iterdir()}
    write_inspection(tmp_path, looked_at(study, at={**curve, "ebno_db": 6}))
    assert before == {path: path.read_bytes() for path in page.parent.iterdir()}


def test_packets_without_a_code_may_begin_inside_a_symbol(tmp_path: Path) -> None:
    text = """\
name: odd
link: {modulation: 64qam, channel: {model: awgn}, power: {policy: fixed}, packet_size_bytes: 32}  # 42.7 symbols
measure: {values: [8]}
"""
    loaded = load_scenario(write_scenario(tmp_path, text))
    plan = expand_link(loaded)
    run_study(LinkStudy(loaded, plan, rule=StopRule(max_bits=1)), folder=tmp_path / "run")
    found = inspect_point(tmp_path / "run", plan, at={}, num_packets=64)
    rows = packet_table(found).rows
    assert len(rows) == 64
    assert sum(int(row[-1]) for row in rows) == found.packets.wrong.sum() > 0


def test_hard_decisions_before_the_decoder_are_those_of_devices_that_send(tmp_path: Path) -> None:
    text = """\
name: silent
link:
  modulation: qpsk
  channel: {fading: rayleigh, coherence: packet}
  coding: {code: repetition}
  power: {policy: truncated-inversion}
  packet_size_bytes: 32
measure: {values: [-2], num_devices: 2, bits_per_batch: 16384}
"""
    loaded = load_scenario(write_scenario(tmp_path, text))
    plan = expand_link(loaded)
    run_study(LinkStudy(loaded, plan, rule=StopRule(max_bits=1)), folder=tmp_path / "run")
    found = inspect_point(tmp_path / "run", plan, at={}, num_packets=64)
    assert found.measured is not None
    counts = found.measured.measured.of_device(None)
    said = f"{counts['raw_bit_errors']:,} of {counts['raw_bits']:,} hard decisions are wrong"
    assert dict(sentences(found))["before the decoder"].startswith(said)
    assert counts["raw_bits"] < found.packets.raw_wrong.size  # some are silent
    rows = packet_table(found).rows
    silent = [row for row in rows if row[-1] == "not sent"]
    assert len(silent) == found.packets.kept.size - counts["packets"] > 0
    assert {row[2:-1] for row in silent} == {("", "", "")}
    assert "nan" not in str(rows)


def test_the_line_of_a_channel_joins_all_packets_and_wrong_ones_are_marked(study: tuple[Path, LinkPlan]) -> None:
    found = looked_at(study, at={**study[1].curves[3].point.settings, "ebno_db": 6}, num_packets=64).packets
    wrong = found.wrong.any(axis=-1)[0]
    assert 0 < wrong.sum() < len(wrong)
    drawn = draw_fades(found).axes[0].lines
    assert [len(one.get_xdata()) for one in drawn if one.get_linestyle() == "-"] == [len(wrong)]
    (marked,) = [one.get_xdata() for one in drawn if one.get_linestyle() == "None"]
    assert list(marked) == list(np.flatnonzero(wrong))


def test_a_point_without_a_wrong_bit_has_no_runs(study: tuple[Path, LinkPlan], tmp_path: Path) -> None:
    _, figures = write_inspection(tmp_path, looked_at(study, at={**AWGN, "ebno_db": 60}))
    assert [one.svg.stem for one in figures] == ["errors", "constellation"]


@pytest.mark.parametrize("csi", ["perfect", "{estimator: ls}"])
def test_the_grid_of_carriers_is_drawn_device_by_device(tmp_path: Path, csi: str) -> None:
    text = f"""\
name: grid
link:
  access: noma
  modulation: qpsk
  channel: {{model: tdl-a, delay_spread_s: 300e-9, coherence: packet}}
  ofdm: {{num_subcarriers: 24, subcarrier_spacing_hz: 15e3, cyclic_prefix_length: 3}}
  csi: {csi}
  packet_size_bytes: 20
measure: {{values: [5], num_devices: 2}}
"""
    plan = expand_link(load_scenario(write_scenario(tmp_path, text)))
    found = inspect_point(tmp_path / "run", plan, at={}, num_packets=3)
    assert found.measured is None
    page, figures = write_inspection(tmp_path / "run", found)
    assert [one.svg.stem for one in figures][2:4] == ["channel-0", "channel-1"]
    assert ("dashed the estimate of the receiver" in page.read_text()) == (csi != "perfect")


def test_the_command_names_the_point_and_its_files(study: tuple[Path, LinkPlan]) -> None:
    folder, scenario = study[0], study[0].parent / "small.yaml"
    arguments = ("link", scenario, "--out", folder, "--packets", "8", "--at", "ebno_db=6")
    done = phyloop(*arguments, "--inspect", "--at", "link.modulation=qpsk")
    assert done.returncode == 0, done.stderr
    assert "the bit error rate nearest to 0.01 of 2 points" in " ".join(done.stdout.split())
    assert "report.html" in done.stdout.splitlines()[-1]
    place = done.stdout.split()[-1].removeprefix(f"{folder}/")
    assert f'<a href="./{place}">' in (folder / "report.html").read_text()
    assert '<a href="./../../report.html">' in (folder / place).read_text()
    sentence = phyloop(*arguments, "--inspect", "--at", "ebno_db=6dB")  # a word is no level
    assert (sentence.returncode, len(sentence.stderr.splitlines())) == (2, 1)
