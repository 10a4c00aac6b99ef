"""Attackers of Langevin Monte Carlo: who they are, what they do to the sum, and what they are not credited with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attack_setting import attack_of
from flmc_setting import (
    SEED,
    assert_same_bits,
    dataset,
    dealt,
    metric,
    paper_config,
    paper_link,
    printed_bound,
    standard_error,
    trajectory,
)
from oracles import numpy_flmc as oracle
from oracles.numpy_jammed_flmc import run_jammed_chain

from fl.algorithms.flmc.attackers import AttackersOfTrials, check_attack
from fl.algorithms.flmc.config import FlmcConfig
from fl.algorithms.flmc.rounds import build_flmc
from fl.algorithms.flmc.tasks import build_task
from fl.algorithms.run import run_trials
from fl.attacks.attack import Attack
from fl.attacks.attacks import Attackers
from fl.base.errors import LearningError
from fl.base.results import TrialResult
from phy.config import CsiError
from phy.fading.block_taps import UplinkContext
from privacy.mechanisms.flmc_analog import analog_delta
from privacy.mechanisms.flmc_digital import digital_delta

K, M, BOUND = 20, 5, 30.0
TRIALS = (0, 1, 5)
AT_25_DB = 0.04 * 10**1.25
"""|h| sqrt(P0): what a jammer arrives at in the paper's setting."""


def attack(kind: str = "jam", **more: Any) -> Attack:
    return attack_of(kind=kind, **({} if "devices" in more or "share" in more else {"share": 0.15}), **more)


def of_trials(config: Attack | None, *, num_devices: int = K) -> AttackersOfTrials:
    return AttackersOfTrials(config, num_devices=num_devices, gradient_bound=BOUND)


def on_air(*trials: int, round_index: int = 3) -> UplinkContext:
    return UplinkContext(seed=SEED, trials=trials or TRIALS, round_index=round_index)


def run(scheme: str, trials: Any = TRIALS, *, link: dict | None = None, **learning: Any) -> list[TrialResult]:
    epsilon = learning.pop("epsilon", 5.0)
    return run_trials(
        paper_config(scheme, **({"rounds": 12, "burn_in": 4} | learning)),
        link=paper_link(scheme, **(link or {})),
        privacy=None if epsilon is None else printed_bound(epsilon),
        seed=SEED,
        trials=trials,
    )


def gains(jammer: float, who: tuple[int, ...]) -> dict[str, Any]:
    """0.1 for everybody, so that everybody arrives at full power and at 0.1 sqrt(P0), and more for jammers."""
    return {"gain": tuple(jammer if device in who else 0.1 for device in range(K))}


class TestNoiseOff:
    """At 140 dB noise moves theta by less than 1e-7 a round, and no cap binds: the sum is known to the last digit."""

    WHO = (2, 7, 11)

    def states(self, scheme: str, rounds: int, *, jammer: float = 0.7, **learning: Any) -> np.ndarray:
        return trajectory(
            paper_config(scheme, rounds=rounds, burn_in=0, lmc_cap="none", **learning),
            link=paper_link(scheme, snr_max_db=140.0, channel=gains(jammer, self.WHO)),
            trials=TRIALS,
        )

    def test_constant_ones_pull_analog_chains_as_the_oracle_says(self) -> None:
        states = self.states("analog", 30, attack=attack(devices=self.WHO, signal="ones"))
        for row, trial in enumerate(TRIALS):
            wanted = run_jammed_chain(
                np.random.default_rng(0),
                dealt(*dataset(SEED, trial)),
                jammers=self.WHO,
                strength=0.7,
                signal="ones",
                scheme="analog",
                eta=1.28e-4,
                rounds=30,
                # Everybody arrives at 0.1 sqrt(P0) for an entry of l, a jammer at 0.7 sqrt(P0) for a one.
                amplitude=0.1 / BOUND,
            )
            # float32 sums of size K l + 3 * 210, contracted by 0.85 a round.
            tolerance = 1.28e-4 * (K * BOUND + 3 * 210) * 2**-23 * 7 + 7e-7
            np.testing.assert_allclose(states[:, row], wanted, rtol=0, atol=tolerance)

    def test_a_digital_sum_is_that_of_honest_signs_and_of_jammers_at_their_strength(self) -> None:
        honest = self.states("digital", 2)
        jammed = self.states("digital", 2, attack=attack(devices=self.WHO, signal="ones"))
        # One step from zero: the estimate is -theta / eta, and honest devices throw the same dice.
        moved = (honest - jammed)[0] / 8.28e-3
        without = moved - 3 * 7.0
        # What is left are minus the signs that the three would have sent: odd whole numbers from -3 to 3.
        np.testing.assert_allclose(without, np.round(without), atol=1e-3)
        assert set(np.abs(np.round(without)).ravel()) == {1.0, 3.0}

    @pytest.mark.parametrize("factor", [1.0, -4.0])
    def test_boosted_signs_move_a_digital_sum_by_what_their_power_exceeds(self, factor: float) -> None:
        """All arrive at A = 0.1 sqrt(P0), those who boost at 7 A: the sum is off by (7 - 1) x, or by (-7 - 1) x."""
        honest = self.states("digital", 2)
        boosted = self.states("digital", 2, attack=attack("boost", devices=self.WHO, factor=factor))
        moved = (honest - boosted)[0] / 8.28e-3 / (7.0 * np.sign(factor) - 1.0)
        np.testing.assert_allclose(moved, np.round(moved), atol=1e-3)
        assert set(np.abs(np.round(moved)).ravel()) == {1.0, 3.0}

    @pytest.mark.parametrize("scheme", ["analog", "digital"])
    def test_random_signs_and_noise_have_the_power_of_constant_ones(self, scheme: str) -> None:
        one = (4,)
        eta = {"analog": 1.28e-4, "digital": 8.28e-3}[scheme]
        unit = {"analog": BOUND, "digital": 1.0}[scheme]
        moved = {}
        for signal in ("ones", "random", "noise"):
            config = paper_config(
                scheme, rounds=2, burn_in=0, lmc_cap="none", attack=attack(devices=one, signal=signal)
            )
            # A hundred times the others: what these send is lost in the third digit.
            link = paper_link(scheme, snr_max_db=140.0, channel=gains(100.0, one))
            moved[signal] = trajectory(config, link=link, trials=tuple(range(40)))[0] / (-eta * unit * 1000.0)
        np.testing.assert_allclose(moved["ones"], 1.0, atol=0.02)
        np.testing.assert_allclose(np.abs(moved["random"]), 1.0, atol=0.02)
        assert abs(np.sign(moved["random"]).mean()) < 4 / np.sqrt(40 * M)
        np.testing.assert_allclose((moved["noise"] ** 2).mean(axis=1), 1.0, atol=0.04)
        assert np.abs(moved["noise"]).std() > 0.3

    @pytest.mark.parametrize("number", [1, 4])
    def test_the_pull_grows_with_the_number_of_jammers_as_newton_says(self, number: int) -> None:
        who = tuple(range(number))
        states = trajectory(
            paper_config(
                "analog",
                rounds=200,
                burn_in=0,
                lmc_cap="none",
                gradient_bound=3000.0,
                attack=attack(devices=who, signal="ones"),
            ),
            link=paper_link("analog", snr_max_db=160.0, channel=gains(0.1, who)),
            trials=TRIALS,
        )
        for row, trial in enumerate(TRIALS):
            devices = dealt(*dataset(SEED, trial))[number:]
            curvature = sum(u.T @ u for u, _ in devices) + (K - number) / K * np.eye(M)
            pull = sum(u.T @ v for u, v in devices) - number * 3000.0
            # 3000 of sqrt(P0) N0 = 1 at 160 dB and gain 0.1 is a noise of 3e-4 of a unit; float32 sums of 6e4.
            np.testing.assert_allclose(states[-1, row], np.linalg.solve(curvature, pull), rtol=0, atol=3e-4)


@pytest.mark.parametrize(("scheme", "signal"), [("analog", "random"), ("digital", "noise")])
def test_the_mse_under_jamming_is_that_of_the_numpy_oracle(scheme: str, signal: str) -> None:
    trials, who = tuple(range(40)), (3, 8)
    amplitude = {"analog": 0.008, "digital": float(np.sqrt(8.28e-3 / 2.0))}[scheme]
    rounds, burn_in, eta = 90, 30, {"analog": 1.28e-4, "digital": 8.28e-3}[scheme]
    results = run(scheme, trials, rounds=rounds, burn_in=burn_in, attack=attack(devices=who, signal=signal))
    np.testing.assert_allclose(metric(results, "amplitude"), amplitude, rtol=1e-3)
    error = []
    for trial in trials:
        inputs, labels = dataset(SEED, trial)
        states = run_jammed_chain(
            np.random.default_rng(20_000 + trial),
            dealt(inputs, labels),
            jammers=who,
            strength=AT_25_DB,
            signal=signal,
            scheme=scheme,
            eta=eta,
            rounds=rounds,
            amplitude=amplitude,
            noise_power=1.0,
        )[burn_in:]
        error.append(oracle.mean_squared_error(states, oracle.posterior(inputs, labels)[0]))
    difference = metric(results, "mse") - np.array(error)
    assert abs(difference.mean()) < 4 * standard_error(difference)
    # Two jammers make it 2.3 and 2.7 times what it is without: a comparison that must tell that.
    assert 4 * standard_error(difference) < 0.3 * np.mean(error)


@pytest.mark.parametrize("scheme", ["analog", "digital"])
def test_privacy_counts_receiver_noise_alone_whatever_jams(scheme: str) -> None:
    clean = run(scheme, lmc_cap="none")
    for signal in ("random", "ones", "noise"):
        jammed = run(scheme, lmc_cap="none", attack=attack(share=0.5, signal=signal))
        for one, other in zip(clean, jammed, strict=True):
            assert one.privacy.keys() == other.privacy.keys()
            for name in one.privacy:
                np.testing.assert_array_equal(one.privacy[name], other.privacy[name], err_msg=name)
            # With more noise to count on, the cap on the amplitude would be higher at the same delta.
            np.testing.assert_array_equal(one.rounds["amplitude"], other.rounds["amplitude"])
    amplitude = clean[0].metrics["amplitude"]
    common = {"amplitude": amplitude, "dimension": M, "gradient_bound": BOUND, "noise_power": 1.0}
    if scheme == "analog":
        spent = float(analog_delta(5.0, **common))
    else:
        # Fewer honest devices to stand beside leak no more: the bound with all K holds for those who are left.
        spent = digital_delta(5.0, quantizer_slope=0.05, num_devices=K, **common)
        assert digital_delta(5.0, quantizer_slope=0.05, num_devices=K // 2, **common) <= spent
    np.testing.assert_allclose(jammed[0].privacy["delta_spent"], spent, rtol=1e-6)


def test_jammers_spend_full_power_and_are_counted() -> None:
    clean, jammed = (run("analog", attack=one)[0] for one in (None, attack(share=0.2)))
    assert "num_attackers" not in clean.rounds
    np.testing.assert_array_equal(jammed.rounds["num_attackers"], 4.0)
    for name in ("amplitude", "peak_amplitude", "num_active", "airtime_s"):
        np.testing.assert_array_equal(jammed.rounds[name], clean.rounds[name])
    # P0 = 10^2.5 over m symbols at one megabaud, four times; the honest are far below.
    four = 4 * 10**2.5 * M * 1e-6
    energy = jammed.rounds["energy_j"]
    assert (energy > four).all()
    assert (energy < four + clean.rounds["energy_j"].max()).all()


@pytest.mark.parametrize("kind", ["sign-flip", "scale", "zero-gradient", "duplicate"])
def test_trials_side_by_side_attack_gradients_as_each_does_alone(kind: str) -> None:
    config = attack(kind, **({"factor": 3.0} if kind == "scale" else {}))
    gradients = np.random.default_rng(4).uniform(-BOUND, BOUND, (len(TRIALS), K, M))
    attackers = of_trials(config)
    who = attackers.who(on_air())
    found = attackers.gradients(gradients, context=on_air())
    np.testing.assert_array_equal(who.sum(axis=1), 3)
    for row, trial in enumerate(TRIALS):
        alone = Attackers(config=config, who=who[row]).updates(
            gradients[row].astype(np.float32), devices=np.arange(K), context=on_air(trial)
        )
        np.testing.assert_allclose(found[row], np.clip(alone, -BOUND, BOUND), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(found[row, ~who[row]], gradients[row, ~who[row]])
    assert (found[who] != gradients[who]).any(axis=1).all()


def test_gaussian_attackers_send_noise_of_their_own_within_the_clip() -> None:
    gradients = np.full((200, K, M), 7.0)
    attackers, where = of_trials(attack("gaussian", std=2.0)), on_air(*range(200))
    lies = attackers.gradients(gradients, context=where)[attackers.who(where)]
    # The mean of n values of N(0, 4), and their variance, whose own is 2 sigma^4 / n.
    assert abs(lies.mean()) < 4 * 2.0 / np.sqrt(lies.size)
    assert abs(lies.var() - 4.0) < 4 * np.sqrt(2 * 16.0 / lies.size)
    assert abs(np.corrcoef(lies[:-1].ravel(), lies[1:].ravel())[0, 1]) < 4 / np.sqrt(lies.size)
    wild = of_trials(attack("gaussian")).gradients(gradients, context=where)[attackers.who(where)]
    assert np.abs(wild).max() == BOUND


@pytest.mark.parametrize("num_bits", [5, 16])
@pytest.mark.parametrize("kind", ["ones", "invert", "random"])
def test_trials_side_by_side_attack_bits_as_each_does_alone(kind: str, num_bits: int) -> None:
    payload = np.random.default_rng(4).integers(0, 256, (len(TRIALS), K, -(-num_bits // 8)), dtype=np.uint8)
    attackers = of_trials(attack(kind, share=0.5))
    who = attackers.who(on_air())
    found = attackers.bits(payload, num_bits=num_bits, context=on_air())
    np.testing.assert_array_equal(found[~who], payload[~who])
    bits, before = np.unpackbits(found, axis=-1), np.unpackbits(payload, axis=-1)
    np.testing.assert_array_equal(bits[..., num_bits:], before[..., num_bits:])
    if kind == "random":
        agree = (bits == before)[who][:, :num_bits]
        assert abs(agree.mean() - 0.5) < 4 * 0.5 / np.sqrt(agree.size)
        return
    for row, trial in enumerate(TRIALS):
        alone = Attackers(config=attack(kind, share=0.5), who=who[row]).bits(
            payload[row : row + 1], devices=np.arange(K), context=on_air(trial)
        )
        np.testing.assert_array_equal(bits[row, :, :num_bits], np.unpackbits(alone[0], axis=-1)[:, :num_bits])


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [
        ("analog", "gaussian"),
        ("analog", "zero-gradient"),
        ("digital", "scale"),
        ("digital", "invert"),
        ("digital-orthogonal", "sign-flip"),
        ("noiseless", "sign-flip"),
    ],
)
def test_every_kind_changes_the_run_from_the_first_round_on(scheme: str, kind: str) -> None:
    clean, attacked = (run(scheme, attack=one) for one in (None, attack(kind, share=0.3)))
    for one, other in zip(clean, attacked, strict=True):
        assert other.failure is None
        assert (one.rounds["squared_error"] != other.rounds["squared_error"]).all()


def test_inverted_bits_of_everybody_run_uphill() -> None:
    honest, inverted = (
        trajectory(
            paper_config("digital", rounds=2, burn_in=0, lmc_cap="none", attack=one),
            link=paper_link("digital", snr_max_db=140.0),
            trials=TRIALS,
        )[0]
        for one in (None, attack("invert", share=1.0))
    )
    # The same dice, every sign the other one; what is left is receiver noise of 8.28e-3 / 4e5, twice.
    np.testing.assert_allclose(inverted, -honest, rtol=0, atol=1e-6)
    assert np.abs(honest).max() > 8.28e-3 * 5


@pytest.mark.parametrize("scheme", ["analog", "digital", "digital-orthogonal", "noiseless"])
def test_nobody_attacking_is_no_attack_to_the_last_bit(scheme: str) -> None:
    kind = "jam" if scheme in ("analog", "digital") else "sign-flip"
    for none in (attack(kind, share=0.0), attack(kind, devices=())):
        for one, other in zip(run(scheme), run(scheme, attack=none), strict=True):
            rounds = {name: values for name, values in other.rounds.items() if name != "num_attackers"}
            assert rounds.keys() == one.rounds.keys()
            np.testing.assert_array_equal(other.rounds["num_attackers"], 0.0)
            assert one.metrics == other.metrics
            for name, values in rounds.items():
                np.testing.assert_array_equal(values, one.rounds[name], err_msg=name)


HARSH = {
    "channel": {"gain": 1.0, "fading": "rayleigh"},
    "power": {"policy": "truncated-inversion", "cutoff_db": -6.0},
    "csi": CsiError(error_variance=0.05),
}


@pytest.mark.parametrize(
    ("scheme", "config"),
    [
        ("analog", attack(signal="noise", share=0.3, drawn="with-replacement")),
        ("digital", attack(signal="random", share=0.3)),
        ("analog", attack("gaussian", std=10.0)),
        ("digital", attack("random")),
    ],
    ids=lambda one: one if isinstance(one, str) else one.kind,
)
def test_an_attacked_trial_has_the_numbers_that_it_has_alone(scheme: str, config: Attack) -> None:
    trials = (0, 1, 2, 5, 6, 11, 40)
    whole = run(scheme, trials, link=HARSH, attack=config)
    again = run(scheme, trials, link=HARSH, attack=config)
    parts = [
        result
        for part in (trials[:1], trials[1:5], trials[5:])
        for result in run(scheme, part, link=HARSH, attack=config)
    ]
    for one, two, three in zip(whole, again, parts, strict=True):
        assert_same_bits(one, two)
        assert_same_bits(one, three)
    assert len(set(metric(whole, "mse"))) == len(trials)


def test_attackers_are_the_same_in_all_rounds_and_others_in_other_trials() -> None:
    attackers = of_trials(attack(share=0.3))
    first = attackers.who(on_air(round_index=0))
    np.testing.assert_array_equal(attackers.who(on_air(round_index=9)), first)
    np.testing.assert_array_equal(of_trials(attack("ones", share=0.3)).who(on_air(5)), first[2:])
    assert (first[0] != first[1]).any()
    named = of_trials(attack(devices=(3, 19))).who(on_air())
    np.testing.assert_array_equal(np.argwhere(named[1]).ravel(), [3, 19])
    jam = of_trials(attack(share=0.3))
    amplitudes = np.zeros((len(TRIALS), K, 64))
    one, other = (jam.symbols(amplitudes, context=on_air(round_index=index)) for index in (0, 1))
    assert (one[first] != other[first]).mean() > 0.4


@pytest.mark.parametrize(
    ("scheme", "asked", "error_model", "sentence"),
    [
        ("exact", attack("sign-flip"), "measured", "acts on gradients, and scheme exact has none; leave attack out"),
        ("analog", attack("labels"), "measured", "labels acts on the labels of images, and scheme analog has none; w"),
        ("noiseless", attack(), "measured", "up in the air, and scheme noiseless has none; write kind: duplicate"),
        ("digital-orthogonal", attack(), "measured", "scheme digital-orthogonal has none; write kind: dup"),
        ("analog", attack("ones"), "measured", "ones acts on bits, and scheme analog has none; write kind: "),
        ("noiseless", attack("invert"), "measured", "invert acts on bits, and scheme noiseless has none"),
        ("digital", attack(), "error_free", "full power of a radio, and error_model error_free has none"),
        ("digital", attack(devices=(3, 20)), "measured", "number 20, but there are only 20, from 0 to 19"),
        ("digital", attack("zero-gradient", share=1.0), "measured", "all 20 devices attack, but zero-gradient needs"),
        ("analog", attack("sign-flip", factor=2.0), "measured", "leaves signs as they are; write factor: -2"),
    ],
)
def test_an_attack_that_cannot_be_is_refused_in_one_sentence(
    scheme: str, asked: Attack, error_model: str, sentence: str
) -> None:
    config = FlmcConfig(scheme=scheme, attack=asked)
    with pytest.raises(LearningError) as error:
        check_attack(config, error_model=error_model)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    task = build_task(config.task, num_devices=K, seed=SEED, trials=(0,))
    with pytest.raises(LearningError):
        build_flmc(config, link=paper_link(scheme, error_model=error_model), privacy=None, task=task)
