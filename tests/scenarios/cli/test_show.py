"""`phyloop show`: sections, single keys and things, with the words that a scenario may write."""

from __future__ import annotations

import pytest
import yaml

from fl.config.attack import attacks
from phy.config.fading import fading_laws
from phy.config.registry import registries
from scenarios.cli.show import show
from scenarios.plan.plan import expand
from scenarios.schema.errors import ScenarioError, listing
from scenarios.schema.loader import load_scenario


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")


def shown(what: str, capsys: pytest.CaptureFixture[str]) -> str:
    show(what)
    return " ".join(capsys.readouterr().out.split())


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
    assert "analog_tail" in of["flmc"]
    assert "kappa required" in of["bit-flipping"]
    assert "analog_tail" not in of["bit-flipping"]
    assert "kappa" not in of["gaussian"]


def test_the_schemes_name_federated_averaging(capsys: pytest.CaptureFixture[str]) -> None:
    assert "weighted mean (FedAvg)" in shown("scheme", capsys)


def test_a_single_key_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "model flat awgn, flat, tdl-a" in shown("link.channel.model", capsys)
    assert "each combination is a sweep point" in shown("sweep", capsys)


def test_the_example_of_lists_that_step_together_can_be_swept(capsys: pytest.CaptureFixture[str]) -> None:
    example = yaml.safe_load(shown("zip", capsys).partition("as in ")[2])
    plan = expand(load_scenario({"name": "a", "sweep": example}))
    assert [one.scenario.learning.scheme for one in plan.points] == ["analog", "digital-orthogonal"]
    assert [one.scenario.link.coding == "none" for one in plan.points] == [True, False]


def test_an_attack_has_only_the_numbers_that_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown("sign-flip", capsys)
    assert "written as learning.attack: {kind: sign-flip, share: 0.2}" in text
    assert "factor" in text
    assert "standard deviation" not in text
    assert "written as link.channel: {fading: rician, rician_k_db: 6.0}" in shown("rician", capsys)


@pytest.mark.parametrize("kind", ["attack", "scheme", "codec", "fading law"])
def test_what_is_shown_as_written_can_be_loaded(kind: str, capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    for word in registries()[kind].words():
        show(word)
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("written as ")]
        path, form = next(line for line in lines if kind != "attack" or "attack" in line)[11:].split(": ", 1)
        algorithm = "flmc" if word == "jam" else "fedavg"
        link = "link: {access: superposition}\n" if word == "boost" else ""
        for value in form.split(", or with parameters "):
            (tmp_path / "s.yaml").write_text(f"name: a\n{link}learning: {{algorithm: {algorithm}}}\n")
            loaded = load_scenario(tmp_path / "s.yaml", overrides=[f"{path}={value}"])
            assert len(expand(loaded).points) == 1


def test_an_unknown_word_says_how_to_write_one_of_your_own() -> None:
    with pytest.raises(ScenarioError, match=r"krum is not known; the kinds are fading law.*docs/plugins\.md"):
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
        ("bit-flipping", "privacy.mechanism: bit-flipping"),
        ("gaussian", "privacy.mechanism: gaussian"),
        ("gaussian", "gaussian, an attack"),
        ("mse", "mse trial MSE to the posterior mean"),
        ("bler", "packet_error_rate rate"),
        ("error models", "measured, iid, analytic or error_free"),
        ("power policies", "truncated-inversion Inversion, but"),
        ("KIND", "privacy mechanism bit-flipping, device-noise"),
    ],
)
def test_names_plurals_metrics_and_terms_of_the_field_are_shown(what: str, text: str, capsys) -> None:
    assert text in shown(what, capsys)


def test_a_bare_show_has_the_words_of_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    show(None)
    text = capsys.readouterr().out
    for word in ("cdl-c", "ldpc5g", "analytic", "bit-flipping", "mse-optimal", "mmse", "type-based"):
        assert word in text


def test_a_section_fits_80_columns_with_few_lines_a_key(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show("link.coding")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 30  # nine keys of at most four lines, most of two


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        ("noma", ["link: {noma: {group_size: 2, detector: sic}}", "ladder_db"]),
        ("cdl-a", ["link: {channel: {model: cdl-a}}", "delay_spread_s"]),
        ("ldpc5g", ["link: {coding: {code: ldpc5g}}", "check_update"]),
        ("dirichlet", ["learning: {partition: {kind: dirichlet, alpha: 0.3}}"]),
        ("alpha", ["learning.partition.alpha"]),
        ("majority", ["learning: {aggregation: {name: sign, vote: majority}}"]),
        ("fixed-point.bound", ["nu_inf"]),
        ("epsilon", ["privacy: {budget: {epsilon: 5}}", "privacy: {epsilon: 5}"]),
    ],
)
def test_a_word_a_last_name_and_a_parameter_show_how_they_are_written(
    what: str, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    show(what)
    text = capsys.readouterr().out
    assert [line for line in lines if line not in text] == []
