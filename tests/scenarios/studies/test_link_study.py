"""`phyloop link` end to end: counts against theory, going on from what is stored, and what it leaves behind."""

from __future__ import annotations

import csv
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import phyloop, start_phyloop, write_scenario

from phy.measure.monte_carlo import StopRule
from scenarios.engine.run import run_study
from scenarios.engine.study import Progress
from scenarios.files.plain_files import RESULTS
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario, load_scenario
from scenarios.store.store import Store
from scenarios.studies.folders import study_in
from scenarios.studies.link.level import theory
from scenarios.studies.link.plan import LinkPlan, expand_link
from scenarios.studies.link.results import LinkStore, PointRadio, Results, read_results
from scenarios.studies.link.study import LinkStudy
from scenarios.studies.tables import export

SMALL = """\
name: small-link
seed: 5
link: {modulation: qpsk, channel: {model: flat, coherence: packet}, power: {policy: fixed}, packet_size_bytes: 32}
measure:
  over: ebno_db
  values: [0, 4, 6, 30, 40]
  bits_per_batch: 65536
  stop: {bit_errors: 300, max_bits: 1e6}
sweep: {link.channel.fading: [constant, rayleigh]}
report: {notes: Two links.}
"""


def load(folder: Path, text: str = SMALL, *overrides: str) -> tuple[LoadedScenario, LinkPlan]:
    loaded = load_scenario(write_scenario(folder, text), overrides=overrides)
    return loaded, expand_link(loaded)


def measure(folder: Path, text: str = SMALL, *overrides: str, run: str = "run", **rule: Any) -> int:
    """Batches added."""
    loaded, plan = load(folder, text, *overrides)
    limits = plan.measure.rule() if not rule else StopRule(**rule)
    study = LinkStudy(loaded, plan, rule=limits)
    run_study(study, folder=folder / run)
    return study.batches_added


def results(run: Path) -> Results:
    with LinkStore.open_existing(run) as store:
        return read_results(store, LinkStudy.reload(store).plan)


def rows(run: Path) -> list[dict[str, str]]:
    """The exported table, without the time that things took."""
    (path,) = export(study_in(run), run, run / "csv", tables=["link"])
    with path.open() as file:
        table = list(csv.DictReader(file))
    for row in table:
        del row["seconds"]
    return table


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    assert measure(folder) > 0
    return folder / "run"


# --- what is measured -----------------------------------------------------------------------------


def test_theory_lies_within_the_interval_and_half_a_decibel_off_does_not(finished: Path) -> None:
    awgn = results(finished)[0]
    seen = [point for point in awgn if point.measured.tally.bits.errors > 250]
    assert len(seen) == 3
    for point in seen:
        found, _ = point.rates()
        assert found is not None
        expected = theory(point.curve, "bit_error_rate", point.point.esno_db)
        shifted = theory(point.curve, "bit_error_rate", point.point.esno_db + 0.5)
        assert expected is not None
        assert shifted is not None
        # Of 95 % intervals one in twenty misses: the seed is fixed, and a margin of its own width covers that.
        width = found.high - found.low
        assert found.low - width < expected < found.high + width
        # The planted fault: half a decibel of noise too little.
        assert not found.low - width < shifted < found.high + width


def test_the_level_on_the_axis_is_the_one_observed(finished: Path) -> None:
    for row in rows(finished):
        # Noise energy of n symbols varies by 1 / sqrt(n): below 0.05 dB for 32768; a fade per packet (4 standard
        # errors over 256 packets) by 1.1 dB.
        tolerance = 0.05 if row["link.channel.fading"] == "constant" else 1.1
        assert abs(float(row["measured_esno_db"]) - float(row["esno_db"])) < tolerance


def test_points_tell_why_they_stopped_and_hopeless_ones_are_skipped(finished: Path) -> None:
    awgn, rayleigh = results(finished)
    told = {p.point.value_db: (p.stop.reason, p.stop.target) for p in awgn if p.stop is not None}
    assert told == {0: ("bit_errors", 300), 4: ("bit_errors", 300), 6: ("bit_errors", 300), 30: ("max_bits", None)}
    silent, _ = awgn[-1].rates()
    assert silent is not None
    assert silent.rate is None
    assert [p.point.value_db for p in rayleigh] == [0, 4, 6, 30, 40]


def test_few_silent_packets_skip_nothing(tmp_path: Path) -> None:
    # max_bits is one batch of 32 packets of 256 bytes, too few to give up on higher values.
    options = ("measure.values=[30,40]", "measure.stop.max_bits=65536", "link.packet_size_bytes=256")
    assert measure(tmp_path, SMALL, "link.channel.fading=constant", *options) == 2


def test_errors_that_share_a_fade_have_a_wider_interval(finished: Path) -> None:
    awgn, rayleigh = (points[2].rates()[0] for points in results(finished))
    assert awgn is not None
    assert rayleigh is not None
    assert awgn.design_effect < 1.5
    assert rayleigh.design_effect > 5.0


def test_several_devices_are_counted_one_by_one(tmp_path: Path) -> None:
    text = SMALL.replace("coherence: packet}", "coherence: packet, gain: [1.0, 0.5]}")
    measure(tmp_path, text, "measure.num_devices=2", "measure.values=[4]", "sweep={}")
    ((point,),) = results(tmp_path / "run")
    near, far = (point.rates(device)[0] for device in range(2))
    assert near is not None
    assert far is not None
    # 6 dB apart, around a mean power gain of one.
    for device, found in enumerate((near, far)):
        expected = theory(point.curve, "bit_error_rate", point.point.esno_db, device=device)
        assert expected is not None
        width = found.high - found.low
        assert found.low - width < expected < found.high + width
    assert far.low > near.high
    table = rows(tmp_path / "run")
    assert [row["device"] for row in table] == ["all", "0", "1"]
    assert int(table[0]["bits"]) == int(table[1]["bits"]) + int(table[2]["bits"])


# --- going on -------------------------------------------------------------------------------------


def test_measuring_again_adds_nothing(finished: Path) -> None:
    before = rows(finished)
    assert measure(finished.parent) == 0
    assert rows(finished) == before


def test_more_errors_add_only_missing_batches_and_equal_a_fresh_study(tmp_path: Path) -> None:
    first = measure(tmp_path, SMALL, "measure.stop.bit_errors=100", run="grown")
    more = measure(tmp_path, SMALL, run="grown")
    fresh = measure(tmp_path, SMALL, run="fresh")
    assert 0 < more < fresh == first + more
    assert rows(tmp_path / "grown") == rows(tmp_path / "fresh")


def test_fewer_errors_than_stored_keep_the_counts_and_the_reason(tmp_path: Path) -> None:
    awgn = ("measure.values=[6]", "sweep={}")
    assert measure(tmp_path, SMALL, *awgn) > 1
    before = rows(tmp_path / "run")
    assert measure(tmp_path, SMALL, *awgn, "measure.stop.bit_errors=50") == 0
    assert rows(tmp_path / "run") == before


def test_more_time_goes_on_where_time_ran_out(tmp_path: Path) -> None:
    short = measure(tmp_path, SMALL, "measure.values=[8]", bit_errors=10_000, max_bits=1e6, max_seconds=1e-6)
    assert short == 2  # one batch on each curve: the clock is read after a batch
    assert {row["stop"] for row in rows(tmp_path / "run")} == {"time"}
    more = measure(tmp_path, SMALL, "measure.values=[8]", bit_errors=10_000, max_bits=1e6)
    assert more > 0
    measure(tmp_path, SMALL, "measure.values=[8]", run="fresh", bit_errors=10_000, max_bits=1e6)
    assert rows(tmp_path / "run") == rows(tmp_path / "fresh")


def test_another_value_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    measure(tmp_path, SMALL, "measure.values=[0, 4]")
    before = rows(tmp_path / "run")
    measure(tmp_path, SMALL, "measure.values=[0, 2, 4]")
    after = rows(tmp_path / "run")
    assert [row for row in after if row["ebno_db"] != "2.0"] == before
    assert len(after) == 6


def test_another_seed_gives_other_counts(finished: Path, tmp_path: Path) -> None:
    measure(tmp_path, SMALL, "seed=6", "measure.values=[0]")
    ours = {row["bit_errors"] for row in rows(tmp_path / "run")}
    assert not ours & {row["bit_errors"] for row in rows(finished)}


def test_an_interrupt_in_the_middle_of_a_point_keeps_its_batches(tmp_path: Path) -> None:
    loaded, plan = load(tmp_path)
    seen = 0

    def stop_after_three(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 3:
            raise KeyboardInterrupt

    rule = StopRule(bit_errors=100_000, max_bits=1e6)
    with pytest.raises(KeyboardInterrupt):
        run_study(
            LinkStudy(loaded, plan, rule=rule), folder=tmp_path / "run", progress=Progress(taken=stop_after_three)
        )
    with LinkStore.open_existing(tmp_path / "run") as store:
        (curve, _) = read_results(store, plan)
    assert curve[0].measured.tally.batches == 3
    assert curve[0].stop is None


LONGER = (
    SMALL.replace("bits_per_batch: 65536", "bits_per_batch: 8192")
    .replace("stop: {bit_errors: 300, max_bits: 1e6}", "stop: {packet_errors: 1000000, max_bits: 6e6}")
    .replace("[0, 4, 6, 30, 40]", "[0]")
)
"""Seven hundred batches a point, seconds, so that some are stored before it ends."""


def stored_batches(run: Path) -> int:
    if not (run / RESULTS).exists():
        return 0
    with LinkStore.open_existing(run) as store:
        return sum(task.trial for task in store.tasks.values())


def test_sigkill_loses_no_stored_batch_and_the_study_ends_as_if_undisturbed(tmp_path: Path) -> None:
    scenario, run = write_scenario(tmp_path, LONGER), tmp_path / "run"
    process = start_phyloop("link", scenario, "--out", run)
    deadline = time.monotonic() + 300
    while process.poll() is None and not (kept := stored_batches(run)) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "the study ended before it could be killed: make it longer"
    assert stored_batches(run) >= kept > 0
    result = phyloop("link", scenario, "--out", run)
    assert result.returncode == 0, result.stderr
    measure(tmp_path, LONGER, run="undisturbed")
    assert rows(run) == rows(tmp_path / "undisturbed")


def test_an_interrupted_command_says_how_to_go_on(tmp_path: Path) -> None:
    scenario, run = write_scenario(tmp_path, LONGER.replace("6e6", "1e9")), tmp_path / "run"
    process = start_phyloop("link", scenario, "--out", run)
    deadline = time.monotonic() + 180
    while not stored_batches(run) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert "Go on with: phyloop link" in said
    assert "Traceback" not in said
    assert "curve 1 of 2: no fading" in out
    assert max(map(len, out.splitlines())) <= 80


# --- what it leaves behind ------------------------------------------------------------------------


def test_a_study_leaves_figures_a_page_and_a_scenario(finished: Path) -> None:
    assert {p.name for p in finished.glob("figures/*")} == {
        f"{number}_error_rate.{kind}" for number in ("01-bit", "02-packet") for kind in ("svg", "csv")
    }
    page = (finished / "report.html").read_text()
    assert "<b>9</b> of <b>10</b> points finished, <b>1</b> skipped" in page
    assert "received energy per payload bit" in page
    assert "300 bit errors" in page
    assert re.search(r"Independent flips (do not )?describe this link", page)
    assert re.search(r"bit error rate</b>: the closed form lies in the interval of [789] of 9 points", page)
    assert "<b>Rayleigh fading</b>: packet error rate below 10 %, by its upper limit, from Eb/N0 = 30 dB on." in page
    assert "http" not in page[: page.index("<script>")].replace("http-equiv", "")
    loaded = load_scenario(finished / "scenario.yaml")
    assert "learning" not in loaded.document
    study = study_in(finished)
    plan, ours = expand_link(loaded), study.plan
    assert [p.point_id for c in plan.curves for p in c.points] == [p.point_id for c in ours.curves for p in c.points]


def test_the_report_is_drawn_again_as_it_was(finished: Path) -> None:
    before = {path: path.read_bytes() for path in finished.glob("figures/*.svg")}
    result = phyloop("report", finished)
    assert "report.html" in result.stdout
    assert {path: path.read_bytes() for path in finished.glob("figures/*.svg")} == before


def test_time_that_ran_out_is_said_in_table_and_caption(tmp_path: Path) -> None:
    measure(tmp_path, SMALL, "measure.values=[8]", bit_errors=10_000, max_bits=1e6, max_seconds=1e-6)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "time*" in page
    assert "how far such a point came depends on the machine" in page


def test_exported_rates_are_those_of_the_counts(finished: Path) -> None:
    table = rows(finished)
    assert len(table) == 9
    assert list(table[0])[:5] == ["link.channel.fading", "curve", "ebno_db", "esno_db", "snr_db"]
    for row in table:
        errors, bits = int(row["bit_errors"]), int(row["bits"])
        assert bits == int(row["transmissions"]) * 256
        assert row["raw_bit_errors"] == row["bit_errors"]
        if errors:
            # Corrected for stopping on 300 errors by no more than one error or so.
            assert float(row["bit_error_rate"]) == pytest.approx(errors / bits, rel=2 / 300)
            unbiased = float(row["bit_error_rate"]) != errors / bits
            assert row["bit_error_rate_is_unbiased"] == str(int(unbiased))
            assert float(row["bit_error_rate_low"]) < float(row["bit_error_rate"]) < float(row["bit_error_rate_high"])
        else:
            assert row["bit_error_rate"] == ""
        assert float(row["bit_error_rate_theory"]) >= 0


def test_run_and_link_point_to_each_other(tmp_path: Path, finished: Path) -> None:
    only_link = write_scenario(tmp_path, SMALL, "link.yaml")
    only_learning = write_scenario(tmp_path, "name: a\n", "learning.yaml")
    for arguments, expected in (
        (("run", only_link), "use phyloop link, or add learning:"),
        (("link", only_learning), "or use phyloop run"),
        (("link", only_link, "--set", "measure.values=[]"), "measure.values"),
        (("run", only_learning, "--out", finished, "--set", "name=small-link"), "holds results of phyloop link"),
    ):
        result = phyloop(*arguments)
        assert result.returncode == 2
        assert expected in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_a_folder_with_results_of_a_run_is_refused(tmp_path: Path) -> None:
    loaded, plan = load(tmp_path)
    Store.open(tmp_path / "run", scenario_name="small-link").close()
    with pytest.raises(ScenarioError, match="holds results of phyloop run"):
        run_study(LinkStudy(loaded, plan), folder=tmp_path / "run")


def test_check_says_how_many_points_and_what_x_means(tmp_path: Path) -> None:
    result = phyloop("check", write_scenario(tmp_path, SMALL))
    assert result.returncode == 0, result.stderr
    said = " ".join(result.stdout.split())
    assert "2 curves x 5 values = 10 points to measure, seed 5" in said
    assert "Eb/N0 is the received energy per payload bit at one antenna over the complex noise power" in said
    assert "A point stops at 300 bit errors, or at 1e+06 bits, or after 60 s." in said
    assert "Closed forms are drawn beside 2 of 2 curves." in said


def test_a_link_that_cannot_be_built_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from phy.links.link import LinkError

    def refuse(*_: object, **__: object) -> None:
        raise LinkError("this link cannot be", "choose another")

    monkeypatch.setattr("phy.compile.compile_digital", refuse)
    with pytest.raises(ScenarioError, match=r"this link cannot be .*no fading.*; choose another"):
        measure(tmp_path)


def test_a_study_gives_the_same_bits_whatever_the_batch_before_it(tmp_path: Path) -> None:
    """Batch 3 alone is batch 3 of a study: nothing is carried from one batch to the next."""
    _, plan = load(tmp_path)
    curve = plan.curves[1]
    fresh = PointRadio(curve, curve.points[1]).batch(3)
    walked = PointRadio(curve, curve.points[1])
    for number in range(3):
        walked.batch(number)
    again = walked.batch(3)
    assert np.array_equal(fresh.counts, again.counts)
    assert fresh.tallies == again.tallies
    assert np.array_equal(fresh.amounts, again.amounts)
    other = walked.batch(4)
    assert not np.array_equal(fresh.counts, other.counts)


def test_exported_are_the_points_and_the_curves(finished: Path, tmp_path: Path) -> None:
    result = phyloop("export", finished, "--out", tmp_path / "csv")
    assert result.returncode == 0, result.stderr
    assert {path.name for path in (tmp_path / "csv").iterdir()} == {"link.csv", "curves.csv"}
    curves = list(csv.DictReader((tmp_path / "csv" / "curves.csv").open()))
    beside = list(csv.DictReader((finished / "figures" / "01-bit_error_rate.csv").open()))
    assert [row["mean"] for row in beside] == [row["mean"] for row in curves if row["figure"] == "01-bit_error_rate"]
    assert {row["quantity"] for row in beside} == {"bit_error_rate", "theory"}
    table = {(row["curve"], row["ebno_db"]): row for row in rows(finished)}
    for row in beside:
        if row["quantity"] == "bit_error_rate":
            point = table[row["series"], row["ebno_db"]]
            assert [row[name] for name in ("mean", "low", "high")] == [
                point[f"bit_error_rate{part}"] for part in ("", "_low", "_high")
            ]
