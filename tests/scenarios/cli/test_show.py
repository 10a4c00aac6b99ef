"""`phyloop show`: sections, single keys and things, with the words that a scenario may write."""

from __future__ import annotations

import fnmatch
import math
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import yaml

from fl.attacks.attack import attacks
from phy.config.coding import CodingConfig
from phy.config.conflict import listing
from phy.config.fading import fading_laws
from phy.config.registry import registries
from phyloop.channel import save_channel
from scenarios.cli.words.meanings import (
    KEYS_BY_KIND,
    Meaning,
    elsewhere,
    kinds,
    meanings,
    path_of,
    registry_at,
    scenario_text,
)
from scenarios.cli.words.show import show
from scenarios.plan.plan import expand
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario
from scenarios.schema.schema_keys import choices, description_of
from scenarios.studies.check import check


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")


def shown(what: str, capsys: pytest.CaptureFixture[str]) -> str:
    show(what)
    return " ".join(capsys.readouterr().out.split())


def test_a_reference_check_is_shown_as_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    show("noma-cancellation")
    text = capsys.readouterr().out
    assert text.startswith("# a reference check: phyloop verify --only noma-cancellation\n")
    assert yaml.safe_load(text)["card"]["expect"]


def test_a_section_has_defaults_units_and_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert "subcarrier_spacing_hz 15000.0 distance of subcarriers [Hz]" in shown("link.ofdm", capsys)
    channel = shown("link.channel", capsys)
    assert "awgn, flat, tdl-a, tdl-b" in channel
    assert listing(fading_laws.words()) in channel


def test_a_section_of_kinds_has_the_keys_of_all_and_names_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    attack = shown("learning.attack", capsys)
    assert f"kind required {listing(attacks.words())}" in attack
    assert "phyloop show NAME has the keys of each: boost, duplicate" in attack
    assert "factor" not in attack
    assert "num_devices depends" in shown("learning", capsys)


def test_privacy_has_the_keys_of_each_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    head, *kinds = shown("privacy", capsys).replace("without mechanism", "mechanism: flmc").split("mechanism: ")
    of = {text.partition(" ")[0]: text for text in kinds}
    assert "budget" in head
    assert "analog_cap" in of["flmc"]
    assert "kappa required" in of["bit-flipping"]
    assert "analog_cap" not in of["bit-flipping"]
    assert "kappa" not in of["gaussian"]


def test_the_schemes_name_federated_averaging(capsys: pytest.CaptureFixture[str]) -> None:
    assert "weighted mean of the updates (FedAvg)" in shown("scheme", capsys)


def test_a_single_key_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "model flat awgn, flat, tdl-a" in shown("link.channel.model", capsys)
    assert "each combination is a sweep point" in shown("sweep", capsys)


def test_the_example_of_lists_that_step_together_can_be_swept(capsys: pytest.CaptureFixture[str]) -> None:
    example = yaml.safe_load(shown("zip", capsys).partition("as in ")[2])
    plan = expand(load_scenario({"name": "a", "sweep": example}))
    assert [one.scenario.learning.scheme for one in plan.points] == ["analog", "digital-orthogonal"]
    assert [one.scenario.link.coding == "none" for one in plan.points] == [True, False]


def test_a_partition_has_only_the_parameters_of_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown("dirichlet", capsys)
    assert "written as learning.partition: {kind: dirichlet, alpha: 0.3}" in text
    assert "labels_per_device" not in text


def test_an_attack_has_only_the_numbers_that_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown("sign-flip", capsys)
    assert "written as learning.attack: {kind: sign-flip, share: 0.2}" in text
    assert "factor" in text
    assert "standard deviation" not in text
    assert "written as link.channel: {fading: rician, rician_k_db: 6.0}" in shown("rician", capsys)


@pytest.mark.parametrize("kind", ["attack", "scheme", "codec", "fading law"])
def test_what_is_shown_as_written_can_be_loaded(kind: str, capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    for word in registries()[kind].words():
        show(f"{path_of(registries()[kind])}={word}")
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("written as ")]
        path, form = lines[0][11:].split(": ", 1)
        algorithm = "flmc" if word == "jam" else "fedavg"
        link = "link: {access: superposition}\n" if word == "boost" else ""
        for value in form.split(", or with parameters "):
            (tmp_path / "s.yaml").write_text(f"name: a\n{link}learning: {{algorithm: {algorithm}}}\n")
            loaded = load_scenario(tmp_path / "s.yaml", overrides=[f"{path}={value}"])
            assert len(expand(loaded).points) == 1


@pytest.mark.parametrize("kind", kinds())
def test_the_scenario_that_a_page_shows_is_valid_without_a_warning(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (f"{row},{'benign' if row % 3 else 'malignant'},H{row % 8}" for row in range(80))
    (tmp_path / "mine.csv").write_text("\n".join(("age,diagnosis,hospital", *rows)) + "\n")
    save_channel(tmp_path / "site.npz", h=np.ones((60, 40, 1, 1), complex), sample_rate_hz=1e9)
    monkeypatch.chdir(tmp_path)
    path = KEYS_BY_KIND[kind] if kind in KEYS_BY_KIND else path_of(registries()[kind])
    for word in kinds()[kind]:
        meaning = Meaning(path, word, kind)
        found = check(yaml.safe_load(scenario_text(meaning.scenario())))
        assert found.ok, f"{word}: {found}"
        unseen = [one for one in found.warnings if not one.startswith("learning.data:")]  # no copy on this machine
        assert unseen == [], word
        assert word in scenario_text(meaning.scenario())


def test_every_word_of_the_table_of_meanings_is_one_that_a_scenario_may_write() -> None:
    table = yaml.safe_load(resources.files("scenarios.cli.words").joinpath("words.yaml").read_text(encoding="utf-8"))
    for entries in (table["meanings"], table["beside"]):
        for path, words in entries.items():
            known = [*choices(path), *(() if (registry := registry_at(path)) is None else registry.words())]
            for word in words:
                assert fnmatch.filter(known, word), (path, word)


@pytest.mark.parametrize("path", KEYS_BY_KIND.values())
def test_every_word_without_a_class_has_a_meaning_of_its_own(path: str) -> None:
    kind = next(one for one, key in KEYS_BY_KIND.items() if key == path)
    told = [Meaning(path, word, kind).about for word in choices(path)]
    about = description_of(path)
    assert about not in told


@pytest.mark.parametrize("word", ["linear", "gaussian", "random", "labels", "epsilon", "budget"])
def test_a_word_of_several_meanings_has_a_line_of_each_with_the_path_to_all_of_it(word: str, capsys) -> None:
    show(word)
    head, *lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 12
    assert head.startswith(f"{word} has {len(lines) - 2} meanings")
    show(lines[-1].removeprefix("phyloop show ").partition(" ")[0])
    assert capsys.readouterr().out.count("\n") >= 3


def test_a_scheme_shows_all_its_parameters_whatever_words_describe_them(capsys: pytest.CaptureFixture[str]) -> None:
    # "mean or majority", of which mean is another aggregation.
    assert "vote majority mean or majority" in shown("learning.aggregation=sign", capsys)
    assert "radius fixed fixed, scaled or decaying" in shown("cpa", capsys)


@pytest.mark.parametrize(
    ("word", "shown_keys", "hidden"),
    [
        ("ldpc5g", ["rate", "iterations", "check_update"], ["list_size", "constraint_length"]),
        ("polar5g", ["rate", "list_size"], ["iterations", "check_update"]),
        ("cdl-a", ["delay_spread_s", "speed_m_s"], ["fading", "rician_k_db", "nakagami_m"]),
    ],
)
def test_a_page_has_the_keys_that_its_word_reads_alone(word: str, shown_keys: list[str], hidden: list[str]) -> None:
    keys = {one.rpartition(".")[2] for one in meanings(word)[0].keys_beside()}
    assert {*shown_keys} <= keys
    assert not {*hidden} & keys


@pytest.mark.parametrize("word", ["jammer", "interference", "snr", "snr_db"])
def test_a_word_of_the_field_says_what_to_write_in_its_place(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(word, capsys)
    assert "link.power.snr_max_db" in text
    if "snr" in word:
        line = next(one for one in elsewhere(word) if one.startswith("link:"))
        link = check({"name": "a", **yaml.safe_load(line), "learning": {"algorithm": "fedavg"}})
        assert link.plan is not None
        level = link.plan.points[0].scenario.link.power.snr_max_db
        assert f"received SNR of {level + 10 * math.log10(0.5):.0f} dB" in text


def test_an_unknown_word_says_how_to_write_one_of_your_own() -> None:
    with pytest.raises(ScenarioError, match=r"krum is not known; the kinds are channel, fading law.*docs/plugins\.md"):
        show("krum")


def test_metrics_are_those_that_figures_may_draw(capsys: pytest.CaptureFixture[str]) -> None:
    fedavg, every = shown("metrics fedavg", capsys), shown("metrics", capsys)
    assert "test_accuracy trial, round test accuracy" in fedavg
    assert "wasserstein2" not in fedavg
    assert "mse trial MSE to the posterior mean flmc" in every
    assert "bit_error_rate rate bit error rate fedavg, flip-moments, flmc, reconstruction, link" in every
    with pytest.raises(ScenarioError, match="fedprox records no metrics"):
        show("metrics fedprox")


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("bit-flipping", "privacy: bit-flipping (mechanism)"),
        ("gaussian", "privacy=gaussian Gaussian noise on numbers"),
        ("gaussian", "learning.attack=gaussian Attackers send"),
        ("mse", "mse trial MSE to the posterior mean"),
        ("bler", "packet_error_rate rate"),
        ("error models", "iid independent bit flips at the error rate"),
        ("power policies", "truncated-inversion Inversion, but"),
        ("KIND", "mechanism bit-flipping, device-noise"),
    ],
)
def test_names_plurals_metrics_and_terms_of_the_field_are_shown(what: str, text: str, capsys) -> None:
    assert text in shown(what, capsys)


def test_a_bare_show_has_the_words_of_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    show(None)
    text = capsys.readouterr().out
    for word in ("cdl-c", "ldpc5g", "analytic", "bit-flipping", "mse-optimal", "mmse", "type-based"):
        assert word in text


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        (
            "codec",
            ["encode(values: Reals, *, keys: U32) -> Encoded [must be defined]", "bits_per_value -> int [property"],
        ),
        ("fading law", ["quantile(tail: NDArray[Any], *, upper: bool) -> NDArray[Any] Amplitude r", "--of fading"]),
        ("mechanism", ["perturb(updates: Floats32, *, strength: float,", "event(*, strength: float, num_values: int)"]),
        ("fixed-point", ["methods of FixedPoint (fl.schemes.codecs.partwise)", "to_values(codes: "]),
    ],
)
def test_a_kind_and_a_thing_show_their_methods_with_types(what: str, lines: list[str], monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = shown(what, capsys)
    for line in lines:
        assert line in text
    assert "undefined" not in text


def test_a_section_fits_80_columns_with_few_lines_a_key(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show("link.coding")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    table = lines[1 : lines.index("")]
    starts = [number for number, line in enumerate(table) if not line.startswith(" ")]
    assert [table[number].split()[0] for number in starts] == list(CodingConfig.model_fields)
    lengths = [after - before for before, after in zip(starts, [*starts[1:], len(table)], strict=True)]
    assert max(lengths) <= 6  # the words, and a description of at most five lines
    assert sum(lengths) < 4 * len(lengths)


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        ("noma", ["link: {access: noma, noma: {group_size: 2, detector: sic}}", "ladder_db"]),
        ("cdl-a", ["{model: cdl-a, delay_spread_s: 1e-07, speed_m_s: 3}", "ofdm: {num_subcarriers: 72}"]),
        ("ldpc5g", ["link: {coding: {code: ldpc5g, rate: 1/2}}", "check_update"]),
        ("dirichlet", ["partition: {kind: dirichlet, alpha: 0.3}"]),
        ("alpha", ["learning.partition.alpha"]),
        ("majority", ["learning: {aggregation: {name: sign, vote: majority}}"]),
        ("fixed-point.bound", ["nu_inf"]),
        ("privacy.epsilon", ["privacy: {epsilon: 5}"]),
    ],
)
def test_a_word_a_last_name_and_a_parameter_show_how_they_are_written(
    what: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    show(what)
    text = capsys.readouterr().out
    assert [line for line in lines if line not in text] == []
