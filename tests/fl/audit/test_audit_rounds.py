"""Which rounds a game is played in, what a budget gives them, and honest devices beside attackers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attack_setting import attack_of

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.flmc.config import FlmcConfig
from fl.algorithms.reconstruction.config import ReconstructionConfig
from fl.audit.flmc_game import FlmcGame
from fl.audit.game import weakest_rounds
from fl.audit.upload_game import build_game
from fl.base.errors import LearningError
from fl.uplink import protection
from phy.config import LinkConfig
from privacy.audit.attack import Audited, Game, audit
from privacy.config import (
    AmplitudeBudget,
    BitFlippingBudget,
    GaussianBudget,
    GaussianConfig,
    PrivacyConfig,
    SchemeBudget,
)
from privacy.events.claims import Claim
from privacy.mechanisms.probit import privacy_loss

GAMES = 6_000
CONFIDENCE = 1.0 - 1e-6
FREE = LinkConfig(error_model="error_free")
BUDGET = {"epsilon": 3.0, "delta": 0.01}


def fedavg(**changes: Any) -> FedAvgConfig:
    return FedAvgConfig.model_validate(
        {
            "num_devices": 10,
            "rounds": 10,
            "data": {"name": "digits"},
            "partition": {"kind": "iid", "samples_per_device": 20},
            "local": {"optimizer": "gd", "learning_rate": 0.5, "clip": 1.0},
            **changes,
        }
    )


def game(config: FedAvgConfig | ReconstructionConfig, privacy: Any = None, *, rounds: int = 1) -> Game:
    return build_game(config, link=FREE, privacy=privacy, seed=7, num_games=GAMES, rounds=rounds)


def played(one: Game, *, delta: float = 0.01) -> Audited:
    return audit(one, num_games=GAMES, delta=delta, confidence=CONFIDENCE)


def flmc(
    scheme: str,
    *,
    rounds: int = 1,
    privacy: PrivacyConfig | AmplitudeBudget | None = None,
    trials_at_once: int = 2000,
    **changes: Any,
) -> FlmcGame:
    config = FlmcConfig.model_validate(
        {"scheme": scheme, "lmc_cap": "none", "num_devices": 4, "rounds": 6, "burn_in": 2, **changes}
    )
    link = LinkConfig.model_validate(
        {
            "access": "superposition" if config.superposes else "orthogonal",
            "modulation": "analog" if scheme == "analog" else "bpsk",
            "channel": {"model": "flat", "gain": 0.04, "noise_power": 1.0},
            "power": {"policy": "inversion", "snr_max_db": 40},
        }
    )
    return FlmcGame(
        config, link=link, privacy=privacy, seed=7, rounds=rounds, num_games=GAMES, trials_at_once=trials_at_once
    )


def proved(found: Audited, *, scope: str | None = None) -> list[Claim]:
    return [one for one in found.claims if one.standing == "proved" and scope in (None, one.scope)]


def test_the_rounds_that_release_most_are_played_and_the_first_ones_among_equals() -> None:
    assert weakest_rounds(np.array([1.0, 3.0, 2.0, 3.0]), count=2)[0] == (1, 3)
    assert weakest_rounds(np.ones(5), count=2) == ((0, 1), "rounds 1 to 2 of 5, all of them alike")
    assert weakest_rounds(np.array([1.0, 2.0]), count=1) == ((1,), "round 2 of 2, where most is released")
    with pytest.raises(LearningError, match="a game of 3 rounds does not fit a run of 2"):
        weakest_rounds(np.ones(2), count=3)


# --- budgets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["uniform", "increasing"])
def test_all_rounds_of_a_gaussian_budget_come_to_the_budget_and_stand_near_it(schedule: str) -> None:
    privacy = GaussianBudget.model_validate({"mechanism": "gaussian", "budget": {**BUDGET, "schedule": schedule}})
    found = played(game(fedavg(), privacy, rounds=10))
    # Calibrated to the budget: the closed form of ten rounds is the budget, to the accuracy of the search.
    assert found.claims[-1].epsilon == pytest.approx(3.0, rel=0.01)
    assert 0.25 * 3.0 < found.result.epsilon_lower <= 3.0
    assert not any(found.refuted(claim) for claim in found.claims)


def test_a_rising_schedule_is_audited_in_its_last_round_which_releases_more_than_a_uniform_one() -> None:
    rising = {"mechanism": "gaussian", "budget": {**BUDGET, "schedule": "increasing"}}
    last = game(fedavg(), GaussianBudget.model_validate(rising))
    uniform = game(fedavg(), GaussianBudget.model_validate({"mechanism": "gaussian", "budget": BUDGET}))
    assert last.facts.when == "round 10 of 10, where most is released"
    assert last.claims(0.01)[-1].epsilon > 1.2 * uniform.claims(0.01)[-1].epsilon
    assert played(last).result.epsilon_lower < last.claims(0.01)[-1].epsilon


def test_noise_of_a_budget_that_is_not_added_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protection.NoiseOnNumbers, "perturb", protection.Protection.perturb)
    found = played(game(fedavg(), GaussianBudget.model_validate({"mechanism": "gaussian", "budget": BUDGET})))
    assert all(found.refuted(claim) for claim in found.claims)


def test_flips_that_a_budget_finds_are_played_and_proved() -> None:
    codec = {"name": "fixed-point", "bound": 0.5}
    privacy = BitFlippingBudget.model_validate({"mechanism": "bit-flipping", "budget": {**BUDGET, "epsilon": 15000.0}})
    found = played(game(fedavg(codec=codec), privacy))
    whole, weight = proved(found, scope="run")[0], proved(found, scope="coordinate")[0]
    assert whole.epsilon == 15000.0
    assert 0.3 * weight.epsilon < found.result.epsilon_lower <= weight.epsilon


def test_a_scheme_is_played_with_the_epsilon_that_its_budget_leaves() -> None:
    scheme = {"name": "mvu", "epsilon": 5.0}
    # 650 numbers of 10 rounds share 6500 by basic composition: 1 each, less the margin of the search.
    budget = {"epsilon": 6500.0, "delta": 0.0, "accountant": "basic"}
    privacy = SchemeBudget.model_validate({"mechanism": "scheme", "budget": budget})
    found = played(game(fedavg(aggregation=scheme, upload="update"), privacy), delta=0.0)
    assert found.claims[0].epsilon == pytest.approx(1.0, rel=0.01)
    assert 0.6 < found.result.epsilon_lower <= 1.0


@pytest.mark.parametrize("scheme", ["analog", "digital"])
def test_every_round_of_flmc_gets_the_amplitude_of_its_budget(scheme: str) -> None:
    privacy = AmplitudeBudget.model_validate({"budget": {**BUDGET, "schedule": "decreasing"}})
    whole, first = flmc(scheme, rounds=6, privacy=privacy), flmc(scheme, privacy=privacy)
    found = played(whole)
    # Nothing but the budget holds the amplitude down, so that all rounds come to it; pld is good to 1 %.
    assert found.claims[-1].epsilon == pytest.approx(3.0, rel=0.02)
    assert 0.3 * 3.0 < found.result.epsilon_lower <= 3.0
    assert first.facts.when == "round 1 of 6, where most is released"


def test_a_budget_that_only_watches_lets_no_round_send_more_than_it_holds() -> None:
    watched = {"mechanism": "gaussian", "epsilon": 9.0, "delta": 0.01, "calibration": "dp-accounting"}
    privacy = GaussianConfig.model_validate({**watched, "budget": {**BUDGET, "calibrate": False}})
    with pytest.raises(LearningError, match=r"lets a device send in [1-9] rounds, and a game of 10"):
        game(fedavg(), privacy, rounds=10)
    found = played(game(fedavg(), privacy))
    assert found.result.epsilon_lower <= min(claim.epsilon for claim in proved(found)) <= 3.0


def test_flmc_falls_silent_where_a_budget_that_watches_is_spent() -> None:
    budget = {"epsilon": 3.0, "delta": 0.01, "calibrate": False}
    privacy = PrivacyConfig.model_validate({"epsilon": 2.0, "delta": 0.01, "budget": budget})
    found = played(flmc("analog", rounds=6, privacy=privacy))
    assert found.result.epsilon_lower <= found.claims[-1].epsilon <= 3.0


# --- rounds that differ ---------------------------------------------------------------------------


def test_an_adaptive_bound_is_audited_where_it_promises_least() -> None:
    scheme = {"name": "probit", "bound": "adaptive", "b": 5.0, "l1_clip": 0.2, "epsilon": 2.0, "channel": "agnostic"}
    found = played(game(fedavg(aggregation=scheme, upload="update")), delta=0.0)
    assert "b at 0.8, the smallest" in found.game.when
    exact = proved(found)[0]
    assert exact.epsilon == pytest.approx(privacy_loss(0.8, l1_clip=0.2, num_values=650))
    # The first round, at b = 5, promises more than the games leave of it.
    assert privacy_loss(5.0, l1_clip=0.2, num_values=650) < found.result.epsilon_lower <= exact.epsilon


def test_an_attack_on_single_uploads_is_audited_as_the_round_that_it_attacks() -> None:
    noise = GaussianConfig(mechanism="gaussian", epsilon=3.0, delta=0.01, calibration="dp-accounting")
    one = game(ReconstructionConfig(num_devices=20, rounds=4), noise)
    assert one.facts.when == "round 1"
    # One round of one image: what the noise was calibrated to.
    assert one.claims(0.01)[-1].epsilon == pytest.approx(3.0, rel=1e-3)
    assert played(one).result.epsilon_lower <= 3.0


# --- attackers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sign-flip", "gaussian", "zero-gradient", "duplicate", "jam"])
def test_attackers_among_the_others_change_nothing_of_an_analog_game(kind: str) -> None:
    alone = flmc("analog").play(0)
    beside = flmc("analog", attack={"kind": kind, "devices": [0, 2]}).play(0)
    assert (alone.alternative == beside.alternative).all()
    assert beside.score == pytest.approx(alone.score, rel=1e-4, abs=1e-4)


def test_every_device_of_a_game_is_honest() -> None:
    attacked = flmc("digital-orthogonal", trials_at_once=200, attack={"kind": "ones", "share": 0.5})
    batch = attacked.play(0)
    assert len(batch.alternative) == 2 * 200
    # Attackers send ones alone; honest devices have bits of either kind in every game.
    found = played(attacked)
    assert found.result.epsilon_lower <= min(claim.epsilon for claim in proved(found))
    assert (batch.observed.mean(axis=1)[~batch.alternative] < 0.0).mean() > 0.5


def test_nobody_honest_is_nobody_to_audit() -> None:
    attacked = FlmcConfig.model_validate(
        {"scheme": "analog", "num_devices": 4, "attack": {"kind": "sign-flip", "share": 1.0}}
    )
    with pytest.raises(LearningError, match="all 4 devices attack"):
        build_game(attacked, link=FREE, privacy=None, seed=7, num_games=GAMES)
    with pytest.raises(LearningError, match="all 10 devices attack"):
        game(
            fedavg(
                attack=attack_of(kind="ones", share=1.0), aggregation={"name": "sign", "epsilon": 0.5}, upload="update"
            )
        )
