"""`phyloop list`, `phyloop show` and `phyloop check` of the library."""

from __future__ import annotations

from pathlib import Path

import pytest
from radio import context, link_config, random_payload

from phy.compile import compile_digital
from scenarios.cli.check import FEW_WARNINGS, check_scenario
from scenarios.cli.library import is_scenario, list_library, show_scenario
from scenarios.plan.plan import expand
from scenarios.plan.warnings import learning_warnings
from scenarios.report.published import read_reference
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import library_names, load_scenario
from scenarios.studies.check import check


def test_the_list_has_every_scenario_once_on_a_line_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    list_library()
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    named = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(named) == sorted(name for name, _ in library_names())
    assert "Other" not in lines
    told = [line.split(maxsplit=1)[1] for line in lines if line.startswith("  ")]
    assert len(set(told)) == len(told)  # what is cut off distinguishes no scenario
    assert not [text for text in told if text.startswith(("Li et al.", "Lang et al."))]


def test_the_list_is_filtered_by_words_of_name_system_or_description(capsys: pytest.CaptureFixture[str]) -> None:
    list_library("NOMA")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")] == [
        "link-noma-sic"
    ]
    with pytest.raises(ScenarioError, match="did you mean flmc-snr"):
        list_library("flmc-snrr")


def test_a_shown_scenario_has_the_plan_of_the_original(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    show_scenario("cpa-table5")
    (tmp_path / "s.yaml").write_text(capsys.readouterr().out)
    shown, original = (expand(load_scenario(one)) for one in (tmp_path / "s.yaml", "cpa-table5"))
    assert [point.scenario for point in shown.points] == [point.scenario for point in original.points]
    assert is_scenario("cpa-table5")
    assert not is_scenario("cpa")


@pytest.mark.installed
def test_stored_results_come_with_the_package() -> None:
    assert len(read_reference("cpa-table4")) > 9


@pytest.mark.installed
@pytest.mark.parametrize("name", [name for name, _ in library_names()])
def test_a_check_fits_a_screen_of_80_by_24(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    check_scenario(name, overrides=(), trials=None, seed=None)
    assert len(capsys.readouterr().out.splitlines()) <= 24


def test_all_rows_of_a_long_table_are_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    check_scenario("flmc-snr", overrides=(), trials=None, seed=None)
    shown = " ".join(capsys.readouterr().out.split())
    assert "of 86 sweep points. phyloop check flmc-snr --all shows 86 sweep points" in shown
    check_scenario("flmc-snr", overrides=(), trials=None, seed=None, everything=True)
    assert len(capsys.readouterr().out.splitlines()) > 86


def test_warnings_that_differ_in_numbers_alone_are_one() -> None:
    found = learning_warnings(expand(load_scenario("bitflip-resnet-paper")))
    assert len(found) == 4
    assert found[0].startswith("privacy.epsilon: 1 over 250 rounds")
    assert found[0].endswith("(6 more such warnings with other numbers)")


def test_check_tells_first_and_last_sweep_point_apart_and_prints_no_table_of_settings_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(
        "name: s\nlearning: {algorithm: fedavg, num_devices: 20, attack: {kind: sign-flip, share: 0.2}}\n"
        "sweep: {learning.attack.share: [0, 0.2]}\n"
    )
    check_scenario(str(tmp_path / "s.yaml"), overrides=(), trials=None, seed=None)
    told = capsys.readouterr().out
    assert "first sweep point: 0 of 20 devices attack" in told
    assert "last sweep point: 4 of 20 devices attack" in told
    assert told.rstrip().endswith("at all sweep points")


def test_warnings_beyond_the_first_are_counted_and_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    name = "bitflip-mechanisms-paper"
    total = len(check(name).warnings)
    assert total > FEW_WARNINGS
    said = []
    for everything in (False, True):
        check_scenario(name, everything=everything, overrides=(), trials=None, seed=None)
        said.append(" ".join(capsys.readouterr().out.split()))
    assert said[0].count("warning: ") == FEW_WARNINGS + 1
    assert f"phyloop check {name} --all shows {total - FEW_WARNINGS} more warning" in said[0]
    assert said[1].count("warning: ") == total


def test_the_received_snr_of_check_is_the_one_that_a_link_measures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text("name: a\nlink: {power: {snr_max_db: 10}}\nlearning: {algorithm: fedavg}\n")
    check_scenario(str(tmp_path / "s.yaml"), overrides=(), trials=None, seed=None)
    promised = float(capsys.readouterr().out.partition("received SNR ")[2].partition(" dB")[0])
    uplink = compile_digital(link_config("qpsk", snr_max_db=10.0), num_devices=1, num_bits=80_000)
    measured = uplink.send(random_payload(1, 1, 80_000), context=context(1), caps={}).counts.snr_db.item()
    # The mean power of 40,000 noise samples has a standard error of 0.5 % or 0.022 dB; check rounds to 0.1 dB.
    assert abs(measured - promised) < 0.05 + 4 * 0.022
