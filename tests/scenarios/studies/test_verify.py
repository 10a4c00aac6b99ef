"""`phyloop verify`: every reference check of the fast set passes, and each fails where a fault is planted."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from command import phyloop

from scenarios.schema.consistency.link_axes import Budget
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import LoadedScenario
from scenarios.studies.link.plan import expand_link
from scenarios.studies.verify.cards import (
    CONFIDENCE,
    EXPECTED,
    FAMILY,
    MAX_CHECKS,
    CardCheck,
    Expected,
    card_names,
    exact,
    load_card,
    table_of,
)
from scenarios.studies.verify.kinds.rates import Rates
from scenarios.studies.verify.study import run_card

NAMES = card_names()
FAST = tuple(name for name in NAMES if load_card(name).config.fast)


def checks(name: str, *overrides: str, fast: bool = True) -> list[CardCheck]:
    """All checks of a reference check, with keys of its scenario overridden but not what is expected of it."""
    return list(run_card(load_card(name, overrides=overrides), fast=fast, debug=True))


def failures(name: str, *overrides: str) -> list[str]:
    return [check.verdict for check in checks(name, *overrides) if not check.passed]


# --- the reference checks --------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_check_is_a_scenario_that_says_its_claim_and_its_source(name: str) -> None:
    card = load_card(name)
    assert card.name == name
    if card.loaded.scenario.measure is not None:
        assert expand_link(card.loaded).num_points > 0  # and so it runs under phyloop link as it stands


LATER = {"superposition-sums-ofdm"}
"""Compiled for ten seconds; `phy` has these sums against Sionna and closed forms in quick tests."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LATER else name for name in FAST]
)
def test_a_reference_check_of_the_fast_set_passes(name: str) -> None:
    found = checks(name)
    assert found
    assert [f"{check.what}: {check.verdict}" for check in found if not check.passed] == []


def test_the_table_as_a_whole_holds_at_its_confidence() -> None:
    """One reference check shows the worst of its taps: each of them shares in the confidence."""
    assert pytest.approx(1.0 - FAMILY) == (1.0 - CONFIDENCE) * MAX_CHECKS
    curves = [expand_link(c.loaded) for c in map(load_card, NAMES) if c.loaded.scenario.measure is not None]
    points = sum(plan.num_points for plan in curves)
    others = {"noma-cancellation": 4, "ldpc-1024-512": 2, "tdl-a-profile": 25}
    assert points + sum(others.values()) + 12 + 8 + 8 <= MAX_CHECKS  # brackets of codes, sums, caps


# --- planted faults -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "error_db"),
    [
        *((name, error_db) for name in ("awgn-packet-errors", "rician-6db") for error_db in (-0.5, 0.5)),
        ("ldpc-five-iterations", -0.5),
        ("noma-cancellation", 0.5),
        # To the other side the same card is measured once more, and others look to that side.
        pytest.param("ldpc-five-iterations", 0.5, marks=pytest.mark.slow),
        pytest.param("noma-cancellation", -0.5, marks=pytest.mark.slow),
    ],
)
def test_half_a_decibel_of_power_is_caught(name: str, error_db: float, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Budget.snr_max_db
    monkeypatch.setattr(Budget, "snr_max_db", lambda self, value, over: honest(self, value, over) + error_db)
    assert ("FAIL: too low" if error_db > 0 else "FAIL: too high") in failures(name)


@pytest.mark.slow
def test_one_decoder_iteration_less_is_caught() -> None:
    assert failures("ldpc-five-iterations", "link.coding.iterations=4") == ["FAIL: too high"]
    assert failures("ldpc-five-iterations", "link.coding.iterations=6") == ["FAIL: too low"]


def test_another_rule_at_the_check_nodes_is_caught() -> None:
    found = checks("ldpc-five-iterations", "link.coding.check_update=minsum", fast=False)
    assert [check.verdict for check in found] == ["FAIL: too high"]


def test_two_turbo_iterations_less_are_caught() -> None:
    assert failures("turbo-18444-6144", "link.coding.iterations=4") == ["FAIL: too high"]


def test_a_shorter_list_is_caught() -> None:
    assert "FAIL: too high" in failures("polar-128-64", "link.coding.list_size=2")


def test_a_shorter_register_is_caught() -> None:
    assert failures("convolutional-140-64", "link.coding.constraint_length=5") == ["FAIL: too high"]


def test_a_prefix_too_short_is_caught() -> None:
    assert failures("ofdm-long-prefix", "link.ofdm.cyclic_prefix_length=1") == ["FAIL: too high"]


def test_a_floor_elsewhere_is_caught() -> None:
    """The prefix is longer by two samples in the air than in the prediction."""
    assert set(failures("ofdm-short-prefix", "link.ofdm.cyclic_prefix_length=4")) == {"FAIL: too low"}


@pytest.fixture
def fresh_code() -> Iterator[None]:
    """Compiled links of the fast path hold the modulator that they were traced with."""
    from phy.coding import modulation
    from phy.engines.sionna import flat as flat_sionna

    def clear() -> None:
        modulation.modulator.cache_clear()
        flat_sionna._compiled.cache_clear()

    clear()
    yield
    clear()


@pytest.mark.usefixtures("fresh_code")
def test_labels_that_are_not_gray_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two bits of an axis are sent as b0 and b0 + b1 and read back so: neighbours then differ in both."""
    import tensorflow as tf

    from phy.coding.modulation import Modulator, pack_bits, unpack_bits

    send, detect = Modulator.modulate_bits, Modulator.detect

    def swapped(bits: Any) -> Any:
        label = tf.reshape(bits, [*bits.shape[:-1], bits.shape[-1] // 4, 4])
        first, second = label[..., :2], label[..., 2:]
        return tf.reshape(tf.concat([first, tf.bitwise.bitwise_xor(first, second)], axis=-1), bits.shape)

    monkeypatch.setattr(Modulator, "modulate_bits", lambda self, bits: send(self, swapped(bits)))
    monkeypatch.setattr(Modulator, "detect", lambda self, y: pack_bits(swapped(unpack_bits(detect(self, y)))))
    card = load_card("awgn-uncoded", overrides=["link.engine=sionna", "sweep={link.modulation: [16qam]}"])
    assert {check.verdict for check in run_card(card, fast=True, debug=True)} == {"FAIL: too high"}


@pytest.mark.parametrize("error_db", [-0.5, 0.5])
def test_a_sum_that_arrives_half_a_decibel_off_is_caught(error_db: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from phy.links import power

    honest = power.decide_amplitude
    factor = 10.0 ** (error_db / 20.0)

    def wrong(*arguments: Any, **options: Any) -> Any:
        decision = honest(*arguments, **options)
        return replace(decision, level=decision.level * factor, amplitude=decision.amplitude * factor)

    monkeypatch.setattr(power, "decide_amplitude", wrong)
    # What is sent weaker or stronger than the formula says leaves a share of the sum behind as error.
    assert "FAIL: too high" in failures("superposition-sums")


def test_a_faster_device_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    import phy.fading.build as build

    honest = build.tapped_delay_line

    def faster(*arguments: Any, doppler_hz: float, **options: Any) -> Any:
        return honest(*arguments, doppler_hz=1.15 * doppler_hz, **options)

    build._build.cache_clear()
    monkeypatch.setattr(build, "tapped_delay_line", faster)
    found = failures("tdl-a-doppler")
    build._build.cache_clear()
    assert found


@pytest.mark.parametrize("override", ["link.channel.model=tdl-b", "link.channel.model=tdl-c"])
def test_another_profile_is_caught(override: str) -> None:
    card = load_card("tdl-a-profile", overrides=[override])
    assert any(not check.passed for check in run_card(card, fast=True))


@pytest.mark.parametrize("override", ["link.channel.gain=0.0402", "learning.step_size=1.3e-4", "privacy.epsilon=5.01"])
def test_a_cap_off_in_its_last_digit_is_caught(override: str) -> None:
    assert failures("flmc-caps-analog", override)


def test_one_retransmission_less_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Rates.rate
    monkeypatch.setattr(Rates, "rate", lambda self, curve, point, shift_db: honest(self, curve, point, shift_db) ** 1.2)
    assert set(failures("retransmission")) == {"FAIL: too high"}


def test_a_reference_check_without_data_does_not_pass() -> None:
    found = failures("rician-6db", "measure.stop.max_bits=1", "measure.bits_per_batch=768")
    assert found == ["FAIL: too little data"]


# --- the command ----------------------------------------------------------------------------------


def test_the_command_prints_verdicts_and_writes_the_table(tmp_path: Path) -> None:
    result = phyloop("verify", "--fast", "--only", "flmc-caps-digital", "--only", "tdl-a-profile", "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    assert "2 reference checks, 7 comparisons: all pass" in result.stdout
    with (tmp_path / "verify.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["verdict"] for row in rows] == ["pass"] * 7
    assert float(rows[0]["measured"]) == pytest.approx(0.711, abs=5e-4)


def card_file(folder: Path, change: Callable[[str], str]) -> Path:
    path = folder / "mine.yaml"
    path.write_text(change(load_card("flmc-caps-analog").path.read_text()))
    return path


def test_a_failing_reference_check_ends_the_command_with_one(tmp_path: Path) -> None:
    mine = card_file(tmp_path, lambda text: text.replace("gain: 0.04", "gain: 0.05"))
    result = phyloop("verify", "--only", mine)
    assert result.returncode == 1, result.stderr
    assert "1 FAIL (flmc-caps-analog)" in result.stdout
    assert "FAIL: too high" in result.stdout


def test_the_list_names_every_reference_check_and_its_source() -> None:
    result = phyloop("verify", "--list")
    assert result.returncode == 0
    assert all(name in result.stdout for name in NAMES)
    assert "error_rate_references" in result.stdout


def test_an_unknown_name_is_refused_with_similar_ones() -> None:
    with pytest.raises(ScenarioError, match=r"no reference check has this name; did you mean .*rician-6db"):
        load_card("rician-6")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda text: text.replace("binds: lmc", "binds: mac"),
            r"mine.yaml:7: card.expect\[0\].binds = mac: must be power, lmc or privacy",
        ),
        (
            lambda text: text.replace("claim:", "claims:"),
            r"mine.yaml:3: card.claims = .*unknown key; did you mean card.claim",
        ),
        (lambda text: f"{text.split('  expect:')[0]}  expect: []\n", r"card.expect = \[\]: must have at least 1"),
    ],
)
def test_the_error_of_a_bad_card_section_names_its_key(
    tmp_path: Path, change: Callable[[str], str], sentence: str
) -> None:
    with pytest.raises(ScenarioError, match=sentence):
        load_card(card_file(tmp_path, change))


def test_a_new_kind_of_known_answer_is_one_class(tmp_path: Path) -> None:
    class Seed(Expected):
        kind: Literal["seed"]
        value: int

        def measure(self, loaded: LoadedScenario, *, resolves_db: float) -> Iterator[CardCheck]:
            assert resolves_db
            yield exact("seed", loaded.scenario.seed, self.value, tolerance=0.0)

    EXPECTED.register(Seed)
    try:
        path = tmp_path / "mine.yaml"
        card = "{claim: The seed is seven., source: this very test, expect: [{kind: seed, value: 7}]}"
        path.write_text(f"name: mine\nseed: 7\ncard: {card}\n")
        assert [one.passed for one in run_card(load_card(path), debug=True)] == [True]
        assert [one.verdict for one in run_card(load_card(path, seed=8), debug=True)] == ["FAIL: too high"]
    finally:
        EXPECTED.forget(__name__)
    with pytest.raises(ScenarioError, match=r"mine.yaml:3: card.expect\[0\].kind = seed: must be "):
        load_card(path)


def test_a_scenario_without_a_card_section_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plain.yaml"
    path.write_text("name: plain\n")
    with pytest.raises(ScenarioError, match="a reference check needs a card: section"):
        load_card(path)


def test_the_screen_has_every_comparison_in_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "80"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    checks = [
        CardCheck(
            what="amplitude sent, held by the printed cap of Langevin sampling",
            measured=1.909e-4,
            low=1.418e-4,
            high=2.603e-4,
            expected=(1.908e-4, expected),
            card="awgn-uncoded",
        )
        for expected in (1.91e-4, 1.9e-9)
    ]
    table_of(checks).print()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert text.count("awgn-uncoded") == 1
    assert text.count("0.0001418 to 0.0002603") == 2
    assert "0.0001908 to 0.000191 pass" in text
    assert "FAIL: too" in text
    assert "…" not in text


def test_a_point_without_its_rate_is_told_as_a_missing_entry(tmp_path: Path) -> None:
    card = "card: {claim: a, source: b, expect: [{kind: rates, points: [[0.05], [0.0144, 0.1]]}]}\n"
    link = "link: {access: orthogonal, modulation: qpsk}\nmeasure: {over: ebno_db, values: [4, 6]}\n"
    (tmp_path / "c.yaml").write_text(f"name: c\n{card}{link}")
    with pytest.raises(ScenarioError, match=r"points\[0\]\[1\]: entry 2 is missing; write 2 entries in card.expect"):
        load_card(tmp_path / "c.yaml")
