"""Games against the simulated link: intact mechanisms stand, and each one broken on purpose is caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.flmc.config import FlmcConfig
from fl.audit.flmc_game import FlmcGame
from fl.audit.upload_game import build_game
from fl.base.errors import LearningError
from fl.uplink import protection
from phy.config import LinkConfig
from phy.fading.block_taps import Numbers
from privacy.audit.attack import Audited, audit
from privacy.config import BitFlippingConfig, GaussianConfig, PrivacyConfig

GAMES = 12_000
CONFIDENCE = 1.0 - 1e-6
"""Some twenty audits of intact mechanisms: all of them together raise a false alarm less than once in 10^4 seeds."""

NOISY = {
    "modulation": "qpsk",
    "channel": {"model": "flat", "fading": "constant", "gain": 1.0},
    "power": {"policy": "fixed", "snr_max_db": 4},
}
FREE = {"error_model": "error_free"}
FLIPPING = BitFlippingConfig(mechanism="bit-flipping", epsilon=1.0, kappa=0.08, channel="agnostic")
"""Ten rounds: flips of 0.44."""
GAUSSIAN = GaussianConfig(mechanism="gaussian", epsilon=3.0, delta=0.01, calibration="dp-accounting")


def flmc(scheme: str, *, epsilon: float | None = 2.0, quantizer: dict[str, Any] | None = None, **more: Any) -> FlmcGame:
    superposed = scheme != "digital-orthogonal"
    link = LinkConfig.model_validate(
        {
            "access": "superposition" if superposed else "orthogonal",
            "modulation": "analog" if scheme == "analog" or (quantizer and superposed) else "bpsk",
            "channel": {"model": "flat", "gain": 0.04, "noise_power": 1.0},
            "power": {"policy": "inversion", "snr_max_db": 30},
        }
    )
    config = FlmcConfig(scheme=scheme, lmc_cap="none", num_devices=4, **(quantizer or {}))
    privacy = None if epsilon is None else PrivacyConfig(epsilon=epsilon, delta=0.01)
    return FlmcGame(config, link=link, privacy=privacy, seed=7, **more)


def play_flmc(
    scheme: str, *, epsilon: float | None = 2.0, quantizer: dict[str, Any] | None = None, **more: Any
) -> Audited:
    game = flmc(scheme, epsilon=epsilon, quantizer=quantizer)
    return audit(game, num_games=GAMES, delta=0.01, confidence=CONFIDENCE, **more)


def play(
    aggregation: dict[str, Any],
    *,
    link: dict[str, Any] = FREE,
    privacy: BitFlippingConfig | GaussianConfig | None = None,
    delta: float = 0.0,
    rounds: int = 1,
    seed: int = 7,
    **more: Any,
) -> Audited:
    learning = FedAvgConfig.model_validate(
        {
            "aggregation": aggregation,
            "upload": "model" if aggregation["name"] == "mean" else "update",
            "num_devices": 10,
            "rounds": 10,
            "data": {"name": "digits"},
            "partition": {"kind": "iid", "samples_per_device": 20},
            "local": {"optimizer": "gd", "learning_rate": 0.5, "clip": 1.0},
            "codec": {"name": "fixed-point", "bound": 0.5} if isinstance(privacy, BitFlippingConfig) else "binary32",
        }
    )
    game = build_game(
        learning,
        link=LinkConfig.model_validate(link),
        privacy=privacy,
        seed=seed,
        num_games=GAMES,
        rounds=rounds,
    )
    return audit(game, num_games=GAMES, delta=delta, confidence=CONFIDENCE, **more)


def tightest(found: Audited) -> float:
    """The smallest epsilon that is proved."""
    return min(claim.epsilon for claim in found.claims if claim.standing == "proved")


# --- intact ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "attack", "share"),
    [
        ("analog", "lr", 0.3),
        ("analog", "classifier", 0.3),
        ("digital", "lr", 0.15),
        ("digital", "classifier", 0.15),
        ("digital-orthogonal", "lr", 0.3),
    ],
)
def test_flmc_stands_below_what_is_proved_and_near_it(scheme: str, attack: Any, share: float) -> None:
    found = play_flmc(scheme, attack=attack)
    assert share * tightest(found) < found.result.epsilon_lower <= tightest(found)
    assert not any(found.refuted(claim) for claim in found.claims)


@pytest.mark.parametrize("scheme", ["analog", "digital"])
def test_a_round_at_the_exact_cap_is_attacked_to_near_the_epsilon_asked_for_and_not_beyond(scheme: str) -> None:
    found = play_flmc(scheme)
    asked, *_ = found.claims
    assert (asked.epsilon, asked.standing) == (2.0, "proved")
    # 12,000 games at six nines show 0.91 and 0.89.
    assert 0.4 * 2.0 < found.result.epsilon_lower <= 2.0
    # The accountant of the ledger finds the same of the amplitude in force.
    assert found.claims[-1].epsilon == pytest.approx(2.0, rel=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "share"), [("analog", 0.75), ("digital", 0.65)])
def test_more_games_come_nearer_to_the_exact_epsilon(scheme: str, share: float) -> None:
    found = audit(flmc(scheme), num_games=150_000, delta=0.01, confidence=0.999)
    # 1.61 and 1.46 of 2 with the likelihood ratio alone; 1.85 with the Gaussian form of the analog scheme.
    assert share * 2.0 < found.result.epsilon_lower <= 2.0
    if found.gaussian is not None:
        assert 0.9 * 2.0 < found.gaussian.epsilon_lower <= 2.0


@pytest.mark.parametrize(
    ("scheme", "quantizer"),
    [
        ("digital", {"quantizer_bits": 2}),
        ("digital", {"quantizer_bits": 4, "quantizer_symbols": "planes"}),
        ("digital", {"quantizer_bits": 2, "quantizer_range": 45.0}),
        ("digital-orthogonal", {"quantizer_bits": 2}),
    ],
)
def test_flmc_of_several_bits_stands_below_what_is_proved_and_near_it(scheme: str, quantizer: dict[str, Any]) -> None:
    found = play_flmc(scheme, quantizer=quantizer)
    # Gaussian mechanisms are audited as such; of bits that are detected first the attacker has less.
    lower = found.result if found.gaussian is None else found.gaussian
    assert (0.25 if found.gaussian is None else 0.55) * tightest(found) < lower.epsilon_lower <= tightest(found)
    assert not any(found.refuted(claim) for claim in found.claims)


@pytest.mark.parametrize(
    ("aggregation", "more", "share"),
    [
        ({"name": "cpa", "epsilon": 1.0}, {}, 0.7),
        ({"name": "cpa", "epsilon": 1.0}, {"link": NOISY}, 0.6),
        ({"name": "cpa", "epsilon": 0.5, "stages": 2, "rate_bits": 2, "dimension": 2, "dither": True}, {}, 0.2),
        ({"name": "cpa", "epsilon": 1.0, "form": "printed"}, {"rounds": 2}, 0.6),
        ({"name": "cpa", "epsilon": 1.0}, {"attack": "classifier"}, 0.7),
        ({"name": "sign", "epsilon": 1.0, "channel": "native"}, {"link": NOISY}, 0.6),
        ({"name": "mvu", "epsilon": 1.0, "input_bits": 2, "output_bits": 3}, {}, 0.6),
        ({"name": "laplace", "epsilon": 1.0}, {}, 0.5),
        ({"name": "jopeq", "epsilon": 1.0}, {}, 0.4),
        ({"name": "probit", "bound": "clip", "clip": 0.1, "l1_clip": 0.2, "epsilon": 4.0}, {}, 0.2),
        ({"name": "mean"}, {"privacy": GAUSSIAN, "delta": 0.01, "rounds": 10}, 0.4),
        ({"name": "mean"}, {"privacy": FLIPPING, "delta": 0.01}, 0.3),
    ],
)
def test_a_mechanism_stands_below_what_is_proved_and_near_it(
    aggregation: dict[str, Any], more: dict[str, Any], share: float
) -> None:
    found = play(aggregation, **more)
    assert share * tightest(found) < found.result.epsilon_lower <= tightest(found)


def test_the_gaussian_form_of_a_gaussian_is_tighter_and_stands() -> None:
    found = play_flmc("analog")
    assert found.gaussian is not None
    assert found.result.epsilon_lower < found.gaussian.epsilon_lower <= tightest(found)


def test_without_privacy_infinity_is_claimed_and_all_is_told_apart() -> None:
    found = play({"name": "mean"})
    assert tightest(found) == np.inf
    assert found.result.false_positives == found.result.false_negatives == 0


def test_gaussian_noise_on_a_link_with_wrong_exponents_tells_no_more() -> None:
    found = play({"name": "mean"}, link=NOISY, privacy=GAUSSIAN, delta=0.01, rounds=10)
    assert 0.0 < found.result.epsilon_lower <= tightest(found)


# --- broken on purpose ----------------------------------------------------------------------------


def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver is colder than the noise that is credited."""
    monkeypatch.setattr("phy.fading.block_taps.Numbers", lambda **numbers: Numbers(**numbers | {"noise_std": 1e-6}))


@pytest.mark.parametrize("scheme", ["analog", "digital", "digital-orthogonal"])
def test_receiver_noise_that_is_credited_but_absent_is_caught(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)
    found = play_flmc(scheme, epsilon=1.0)
    proved = min(claim.epsilon for claim in found.claims if claim.channel_credited)
    assert found.result.epsilon_lower > proved
    assert any(found.refuted(claim) for claim in found.claims)
    # What holds whatever the noise still does.
    if scheme != "analog":
        bound = next(claim for claim in found.claims if claim.accountant == "basic")
        assert found.result.epsilon_lower < bound.epsilon


def test_gradients_that_are_not_clipped_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fl.audit.flmc_game.clipped", lambda gradients, _: (gradients, np.zeros(1, bool)))
    found = play_flmc("analog")
    assert found.result.epsilon_lower > tightest(found)


def test_sigma_zero_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protection.NoiseOnNumbers, "perturb", protection.Protection.perturb)
    found = play({"name": "mean"}, privacy=GAUSSIAN, delta=0.01)
    assert found.result.epsilon_lower > tightest(found)


@pytest.mark.parametrize(
    ("aggregation", "more"),
    [
        ({"name": "cpa", "epsilon": 1.0}, {}),
        ({"name": "sign", "epsilon": 1.0}, {}),
        ({"name": "mean"}, {"privacy": FLIPPING, "delta": 0.01}),
    ],
)
def test_a_flip_probability_halved_is_caught(
    aggregation: dict[str, Any], more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    flip = protection.flip_bits

    def halved(payload: NDArray[np.uint8], *, probability: NDArray[np.float64], **rest: Any) -> NDArray[np.uint8]:
        return flip(payload, probability=probability / 2.0, **rest)

    monkeypatch.setattr(protection, "flip_bits", halved)
    found = play(aggregation, **more)
    assert found.result.epsilon_lower > tightest(found)


def test_noise_on_numbers_that_are_not_clipped_is_caught() -> None:
    found = play({"name": "laplace", "epsilon": 1.0, "as_coded": True})
    assert found.result.epsilon_lower > 1.5
    assert [claim.standing for claim in found.claims] == ["as published"]


def test_the_theorem_on_bit_flipping_is_refuted_where_every_bit_is_reachable() -> None:
    privacy = BitFlippingConfig(mechanism="bit-flipping", epsilon=10.0, kappa=0.02, channel="agnostic")
    found = play({"name": "mean"}, privacy=privacy, delta=0.01)
    refuted = [claim for claim in found.claims if found.refuted(claim)]
    # As (epsilon, delta)-DP and as Renyi DP, of which one round of ten has a tenth; what is proved stands.
    assert [(claim.standing, claim.order) for claim in refuted] == [("as published", None), ("as published", 2.0)]
    assert found.result.renyi_lower(2.0) > 10.0 / 10


# --- how ------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_audit_and_another_seed_another() -> None:
    first, second, other = (play({"name": "cpa", "epsilon": 1.0}, seed=seed).result for seed in (7, 7, 8))
    assert first == second
    assert first != other


def test_a_game_is_the_same_alone_and_in_a_batch() -> None:
    together = flmc("digital", trials_at_once=16).play(0)
    alone = flmc("digital", trials_at_once=1)
    for number in range(4):
        one = alone.play(number)
        assert one.alternative[0] == together.alternative[number]
        assert one.score[0] == pytest.approx(together.score[number], rel=1e-5, abs=1e-6)


def test_codewords_that_err_together_hold_one_game_each() -> None:
    coded = {**NOISY, "coding": {"code": "convolutional", "rate": 0.5}}
    learning = FedAvgConfig.model_validate(
        {"aggregation": {"name": "sign", "epsilon": 1.0}, "upload": "update", "num_devices": 10}
    )
    sizes = []
    for link in (NOISY, coded):
        game = build_game(
            learning, link=LinkConfig.model_validate(link), privacy=None, seed=1, num_games=4000, rounds=1
        )
        sizes.append(len(game.places.places))
    assert sizes[0] > 1 == sizes[1]


def test_what_sends_nothing_is_refused() -> None:
    with pytest.raises(LearningError, match="sends nothing over a radio"):
        build_game(FlmcConfig(scheme="exact"), link=LinkConfig(), privacy=None, seed=1, num_games=1000)
