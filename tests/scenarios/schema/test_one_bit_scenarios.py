"""How aggregations, attackers and personal models are written, refused, warned of, and run."""

from __future__ import annotations

from pathlib import Path

import pytest
from learning_run import run_plan
from one_bit_learning import FEDAVG, learnt, scenario, with_scheme
from sentences import sentence_about

from fl.attacks.attack import attacks
from fl.schemes.cpa.scheme import CpaScheme
from fl.schemes.scheme import schemes
from fl.schemes.sign import SignScheme
from phy.config.conflict import listing
from scenarios.cli.describe import describe
from scenarios.engine.batch import InProcess
from scenarios.engine.study import Progress
from scenarios.plan.identity import physics_json
from scenarios.plan.plan import expand
from scenarios.schema.consistency.conflicts import find_conflicts
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.consistency.warnings import find_warnings
from scenarios.schema.loader import as_yaml, load_scenario, resolved_data
from scenarios.schema.schema import Scenario, validate_quickly

# --- written --------------------------------------------------------------------------------------


def test_a_bare_word_is_the_aggregation_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"{FEDAVG}  aggregation: cpa\n")
    made = load_scenario(tmp_path / "s.yaml", overrides=["learning.aggregation.stages=2"])
    assert learnt(made.scenario).aggregation == CpaScheme(name="cpa", stages=2)


def test_another_aggregation_keeps_no_key_of_the_bases(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(f"{FEDAVG}  aggregation: {{name: cpa, stages: 3, epsilon: 2}}\n")
    (tmp_path / "s.yaml").write_text("base: base.yaml\nlearning: {aggregation: {name: sign}}\n")
    assert learnt(load_scenario(tmp_path / "s.yaml").scenario).aggregation == SignScheme(name="sign")


def test_epsilon_none_survives_a_round_trip(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"{FEDAVG}  aggregation: {{name: cpa, epsilon: none}}\n")
    made = load_scenario(tmp_path / "s.yaml").scenario
    assert learnt(made).aggregation == CpaScheme(name="cpa", epsilon=None)
    (tmp_path / "r.yaml").write_text(as_yaml(resolved_data(made)))
    assert load_scenario(tmp_path / "r.yaml").scenario == made
    assert validate_quickly(resolved_data(made)) == made
    assert physics_json(made) != physics_json(with_scheme(name="cpa"))


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (
            "aggregation: cpaa",
            f"s.yaml:5: learning.aggregation = cpaa: must be {listing(schemes.words())}; did you mean cpa.",
        ),
        (
            "aggregation: {name: probit, gamma: 1}",
            "s.yaml:5: learning.aggregation.gamma = 1: unknown key; it belongs to learning.aggregation cpa only: ",
        ),
        (
            "aggregation: {name: cpa, trim: 0.1}",
            "s.yaml:5: learning.aggregation.trim = 0.1: unknown key; it belongs to learning.aggregation mean, median, ",
        ),
        ("aggregation: {name: cpa, gama: 1}", "s.yaml:5: learning.aggregation.gama = 1: unknown key; did you mean "),
        ("aggregation: {name: cpa, epsilon: 0}", "s.yaml:5: learning.aggregation.epsilon = 0: must be above 1e-06; "),
        (
            "aggregation: {name: cpa, rate_bits: 0}",
            "s.yaml:5: learning.aggregation.rate_bits = 0: must be at least 1; ",
        ),
        (
            "aggregation: {name: cpa, dimension: 2, rate_bits: 5}",
            "s.yaml:5: learning.aggregation.rate_bits = 5: a hexagonal lattice of rate_bits 5 has 979 points in its "
            "ball, and codewords have at most 512 entries; write rate_bits: 4 or less, or dimension: 1.",
        ),
        ("aggregation: {name: cpa, gamma: -1}", "s.yaml:5: learning.aggregation.gamma = -1: must be above "),
        (
            "aggregation: {name: probit, bound: clip}",
            "s.yaml:5: learning.aggregation.bound = clip: bound clip needs clip, and no other bound has one; ",
        ),
        (
            "aggregation: {name: probit, epsilon: 1}",
            "s.yaml:5: learning.aggregation.epsilon = 1: epsilon needs l1_clip; write l1_clip: 1.0 and bound: "
            "adaptive, or leave epsilon out.",
        ),
        (
            'aggregation: {name: cpa, gamma: "0.1"}',
            's.yaml:5: learning.aggregation.gamma = "0.1": must be a number, not text; write 0.1 without quotes.',
        ),
        ("attack: {kind: ones}", "s.yaml:5: learning.attack: attackers are named by share or by devices, one of both"),
        (
            "attack: {kind: one, share: 0.1}",
            f"s.yaml:5: learning.attack.kind = one: must be {listing(attacks.words())}; ",
        ),
        ("personal: {test_share: 1}", "s.yaml:5: learning.personal.test_share = 1: must be below 1; "),
    ],
)
def test_a_mistake_names_the_aggregation_and_what_to_write(written: str, sentence: str, tmp_path: Path) -> None:
    said = sentence_about(f"{FEDAVG}  {written}\n", tmp_path)
    assert said.startswith(sentence), said
    assert "tagged" not in said


def test_a_scheme_with_its_own_bits_needs_updates(tmp_path: Path) -> None:
    said = sentence_about("name: a\nlearning:\n  algorithm: fedavg\n  upload: model\n  aggregation: cpa\n", tmp_path)
    assert said.startswith("s.yaml:5: learning.aggregation: aggregation cpa sends updates; write upload: update."), said


# --- refused --------------------------------------------------------------------------------------

DROP = {"packets": {"policy": "drop"}}
IMPOSSIBLE: list[tuple[str, str, Scenario]] = [
    (
        "privacy.mechanism",
        "aggregation top-k makes its own bits, and privacy is for mechanisms on plain numbers",
        scenario({"aggregation": "top-k"}, privacy={"mechanism": "gaussian", "epsilon": 1}),
    ),
    ("learning.codec.name", "makes its own bits", scenario({"aggregation": "mvu", "codec": "fixed-point"})),
    ("link.packets.policy", "channel native", scenario({"aggregation": "cpa"}, link=DROP)),
    (
        "link.packets.policy",
        "channel debias",
        scenario({"aggregation": {"name": "sign", "channel": "debias"}}, link=DROP),
    ),
    ("learning.aggregation.gamma_decay", "radius decaying", with_scheme(name="cpa", gamma_decay=0.5)),
    (
        "learning.aggregation.gamma_decay",
        "single precision",
        with_scheme(name="cpa", gamma_decay=0.01, radius="decaying"),
    ),
    ("learning.aggregation.rate_bits", "has 979 points", with_scheme(name="cpa", dimension=2, rate_bits=5)),
    (
        "learning.aggregation.rate_bits",
        "has 3716 points",
        with_scheme(name="cpa", dimension=2, rate_bits=6, form="printed"),
    ),
    ("learning.aggregation.radius", "two levels", with_scheme(name="cpa", radius="scaled", form="printed")),
    ("learning.aggregation.b", "bound is clip", with_scheme(name="probit", bound="clip", clip=0.1, b=0.2)),
    ("learning.aggregation.b", "is below", with_scheme(name="probit", b=0.1, epsilon=1, l1_clip=0.1)),
    ("learning.aggregation.form", "there is no epsilon", with_scheme(name="probit", form="exact")),
    (
        "learning.aggregation.b",
        "is below 0.2",
        with_scheme(name="probit", b=0.2, epsilon=1, l1_clip=0.1, form="exact"),
    ),
    ("learning.aggregation.decode", "vote is majority", with_scheme(name="sign", decode="unbiased")),
    (
        "learning.aggregation.decode",
        "epsilon is none",
        with_scheme(name="sign", vote="mean", epsilon="none", decode="unbiased"),
    ),
    ("learning.aggregation.epsilon", "without privacy", with_scheme(name="jopeq", epsilon=50)),
    ("learning.aggregation.epsilon", "beyond epsilon 20", with_scheme(name="mvu", epsilon=30)),
    ("learning.aggregation.trim", "trimmed-mean", with_scheme(name="median", trim=0.2)),
    ("learning.aggregation.step", "rsa", with_scheme(name="mean", step=1.0)),
    ("learning.attack.devices", "only 20", scenario({"attack": {"kind": "ones", "devices": [3, 20]}})),
    ("learning.attack.kind", "attack.kind jam acts on symbols", scenario({"attack": {"kind": "jam", "share": 0.1}})),
    ("learning.attack.factor", "leaves signs", scenario({"attack": {"kind": "sign-flip", "factor": 2, "share": 0.1}})),
    ("learning.attack.factor", "scale or sign-flip", scenario({"attack": {"kind": "ones", "factor": 2, "share": 0.1}})),
    (
        "learning.attack.drawn",
        "attack.devices names the devices",
        scenario({"attack": {"kind": "ones", "devices": [3], "drawn": "with-replacement"}}),
    ),
    ("learning.attack.std", "gaussian", scenario({"attack": {"kind": "ones", "std": 2, "share": 0.1}})),
    (
        "learning.partition.samples_per_device",
        "one sample",
        scenario({"partition": {"samples_per_device": 1}, "personal": {}}),
    ),
    (
        "learning.convergence_bound",
        "honest",
        scenario(
            {
                "convergence_bound": True,
                "local": {"l2": 0.1, "clip": 1.0},
                "attack": {"kind": "labels", "share": 0.1},
            }
        ),
    ),
]


@pytest.mark.parametrize(("key", "word", "made"), IMPOSSIBLE, ids=lambda one: one if isinstance(one, str) else "")
def test_a_conflict_names_its_key_and_a_remedy(key: str, word: str, made: Scenario) -> None:
    found = list(find_conflicts(made))
    assert [one.keys[0] for one in found] == [key]
    assert word in found[0].problem
    assert found[0].remedy


@pytest.mark.parametrize("kind", ["zero-gradient", "duplicate"])
def test_an_attack_on_honest_devices_needs_one(kind: str) -> None:
    (found,) = find_conflicts(scenario({"attack": {"kind": kind, "share": 1.0}}))
    assert "honest" in found.problem
    assert list(find_conflicts(scenario({"attack": {"kind": kind, "share": 0.5}}))) == []


POSSIBLE = [
    scenario({"aggregation": "probit"}),
    # C / b - ln(1 - C / b) = 1 has b = 0.231 C for C = 0.1, less than half of what the printed bound asks for.
    with_scheme(name="probit", b=0.24, epsilon=1, l1_clip=0.1, form="exact"),
    with_scheme(name="sign", epsilon=0.5, vote="mean", decode="unbiased"),
    with_scheme(name="cpa", dimension=2, rate_bits=4),
    with_scheme(name="jopeq", dimension=2, rate_bits=6),
    scenario({"aggregation": {"name": "cpa", "channel": "agnostic"}}, link=DROP),
    scenario({"aggregation": "cpa"}, link={"packets": {"policy": "drop"}, "error_model": "error_free"}),
    scenario({"aggregation": "median", "attack": {"kind": "gaussian", "share": 0.3}}),
    scenario({"aggregation": "cpa", "codec": "fixed-point", "downlink": {}}),
    scenario({"aggregation": {"name": "cpa", "radius": "decaying", "gamma_decay": 0.9}}),
    scenario({"aggregation": "laplace", "receiver_limit": 10.0}),
    scenario({"personal": {"lam": 0.5}, "local": {"proximal": 0.5}}),
    scenario({"participation": {"dropout": 0.9}}),
    scenario({"attack": {"kind": "ones", "share": 0.5, "drawn": "with-replacement"}}),
]


@pytest.mark.parametrize("made", POSSIBLE)
def test_an_allowed_combination_has_no_conflict(made: Scenario) -> None:
    assert list(find_conflicts(made)) == []
    assert list(find_conflicts(resolve_auto(made))) == []


# --- warned of ------------------------------------------------------------------------------------


def warned(made: Scenario) -> str:
    return " | ".join(find_warnings(made))


def test_a_probe_in_other_fades_gives_a_warning_where_it_counts_towards_privacy() -> None:
    fast = {"channel": {"fading": "rayleigh", "coherence": "packet"}}
    assert "learning.aggregation.channel: under channel coherence packet" in warned(
        scenario({"aggregation": "cpa"}, link=fast)
    )
    for harmless in ({"name": "cpa", "channel": "debias"}, {"name": "cpa", "epsilon": "none"}, "probit"):
        assert warned(scenario({"aggregation": harmless}, link=fast)) == ""


def test_single_bits_give_no_warning_about_exponents() -> None:
    assert "1e38" in warned(scenario({"codec": "binary32"}))
    assert "1e38" not in warned(scenario({"codec": "binary32", "aggregation": "cpa"}))
    assert "1e38" not in warned(scenario())
    assert "1e38" in warned(scenario({"aggregation": "laplace"}))


def test_attacks_on_bits_of_binary32_give_a_warning() -> None:
    free = {"error_model": "error_free"}
    ones = {"kind": "ones", "share": 0.1}
    assert "NaN" in warned(scenario({"attack": ones, "codec": "binary32"}, link=free))
    said = warned(scenario({"attack": ones, "aggregation": "laplace"}, link=free))
    assert "NaN" in said
    assert "codec" not in said
    assert warned(scenario({"attack": ones, "aggregation": "laplace", "receiver_limit": 9.0}, link=free)) == ""
    assert warned(scenario({"attack": ones, "aggregation": "jopeq"}, link=free)) == ""
    assert warned(scenario({"attack": ones, "codec": "binary32", "aggregation": "median"}, link=free)) == ""
    assert warned(scenario({"attack": ones, "codec": "binary32", "receiver_limit": 9.0}, link=free)) == ""


# --- run ------------------------------------------------------------------------------------------

SMALL = (
    "learning.data={name: digits, validation_samples: 50}",
    "learning.num_devices=6",
    "learning.rounds=2",
    "link.probe_bits=64",
)


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        (
            "one-bit-fading",
            ("sweep=[{learning.aggregation.name: [cpa], learning.aggregation.channel: [native, agnostic]}]",),
        ),
        ("cpa-table6", ("learning.attack.kind=invert",)),
    ],
)
def test_a_scenario_on_fetched_images_runs_on_digits_to_its_pictures(
    name: str, overrides: tuple[str, ...], tmp_path: Path
) -> None:
    loaded = load_scenario(name, overrides=(*SMALL, *overrides), trials=1)
    plan = expand(loaded)
    outcome = run_plan(loaded, plan, folder=tmp_path, engine=InProcess(), progress=Progress())
    assert (outcome.computed, outcome.failed) == (len(plan.points), 0)
    page = outcome.report.html.read_text()
    assert "aggregation SNR" in page
    assert "No finished trial measured" not in page


@pytest.mark.parametrize(("trim", "warned"), [(0.1, True), (0.2, False)])
def test_a_warning_says_that_more_devices_attack_than_are_trimmed(trim: float, warned: bool) -> None:
    attacked = {"kind": "sign-flip", "share": 0.2}
    made = scenario({"aggregation": {"name": "trimmed-mean", "trim": trim}, "attack": attacked})
    assert any("learning.aggregation.trim: 0.1 cuts off fewer" in one for one in find_warnings(made)) == warned
    assert "4 of 20 devices attack: flipped sign, -4 times the update" in " ".join(describe(made))
