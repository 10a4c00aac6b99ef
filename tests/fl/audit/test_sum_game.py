"""Games against sums in the receiver's noise: claims stand, and each mechanism broken on purpose is caught."""

from __future__ import annotations

from typing import Any

import pytest
from superposed import PROBIT, SIGN

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.audit.upload_game import build_game
from fl.schemes.coders.air import Amplitudes
from fl.uplink.receiver_noise import NoiseOfSum
from phy.config import LinkConfig
from phy.fading.block_taps import Numbers
from privacy.audit.attack import Audited, audit
from privacy.config import ReceiverNoise

GAMES = 2000
CONFIDENCE = 1.0 - 1e-6
TYPES = {"name": "type-based", "bits": 1, "bound": 0.05}


def play(
    aggregation: Any = "mean",
    *,
    link: Any = None,
    privacy: Any = None,
    rounds: int = 1,
    attack: Any = None,
    games: int = GAMES,
    num_devices: int = 4,
) -> Audited:
    config = FedAvgConfig.model_validate(
        {"aggregation": aggregation, "num_devices": num_devices, "rounds": 5, "data": "digits", "attack": attack}
    )
    on_air = LinkConfig.model_validate({"access": "superposition", "power": {"snr_max_db": 40.0}, **(link or {})})
    given = {"clip": 1.0 if aggregation == "mean" else None, **(privacy or {"epsilon": 2.0, "delta": 0.01})}
    game = build_game(
        config,
        link=on_air.resolve(access="superposition", modulation=config.aggregation.air_modulations[0]),
        privacy=ReceiverNoise.model_validate({"mechanism": "receiver-noise", **given}),
        seed=7,
        num_games=games,
        rounds=rounds,
    )
    return audit(game, num_games=games, delta=0.01, confidence=CONFIDENCE)


def tightest(found: Audited) -> float:
    return min(claim.epsilon for claim in found.claims)


FADING = {"channel": {"fading": "rayleigh"}, "power": {"policy": "truncated-inversion", "snr_max_db": 40.0}}


@pytest.mark.parametrize(("epsilon", "share"), [(0.5, 0.0), (2.0, 0.3), (6.0, 0.5)])
def test_amplitudes_stand_below_each_epsilon_and_near_it(epsilon: float, share: float) -> None:
    """Of 6,000 games mu is known to some 0.2 at this confidence: little of an epsilon of 0.5 can be proved."""
    found = play(privacy={"epsilon": epsilon, "delta": 0.01}, games=6000)
    assert found.attack == "lr"
    assert found.gaussian is not None
    assert share * tightest(found) <= found.gaussian.epsilon_lower <= tightest(found)
    assert found.result.epsilon_lower <= tightest(found)


@pytest.mark.parametrize(
    ("aggregation", "more", "share"),
    [
        (SIGN, {}, 0.05),
        (PROBIT, {}, 0.0),
        (TYPES, {}, 0.0),
        ("mean", {"link": FADING}, 0.0),
        ("mean", {"link": {**FADING, "ofdm": {"num_subcarriers": 64}}}, 0.0),
        ("mean", {"link": {**FADING, "power": {"policy": "fixed", "snr_max_db": 40.0}}}, 0.0),
        ("mean", {"link": {**FADING, "csi": {"error_variance": 0.05}}}, 0.0),
        ("mean", {"privacy": {"budget": {"epsilon": 4.0, "delta": 0.01}}, "rounds": 5, "games": 1000}, 0.1),
        ("mean", {"privacy": {"epsilon": 4.0, "delta": 0.01, "listener_advantage_db": 10.0}}, 0.0),
        ("mean", {"attack": {"kind": "jam", "devices": [0]}}, 0.0),
        ("mean", {"attack": {"kind": "boost", "devices": [0]}}, 0.0),
    ],
    ids=str,
)
def test_nothing_that_is_claimed_is_refuted(aggregation: Any, more: dict[str, Any], share: float) -> None:
    found = play(aggregation, **more)
    assert share * tightest(found) <= found.result.epsilon_lower <= tightest(found)


def caught(found: Audited) -> bool:
    return any(found.refuted(claim) for claim in found.claims)


@pytest.mark.parametrize("aggregation", ["mean", SIGN], ids=str)
def test_a_receiver_without_its_noise_is_caught(aggregation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phy.fading.block_taps.Numbers", lambda **numbers: Numbers(**numbers | {"noise_std": 1e-6}))
    found = play(aggregation, privacy={"epsilon": 1.0, "delta": 0.01})
    assert found.result.epsilon_lower > tightest(found)
    assert caught(found)


def test_a_cap_doubled_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    initialise = NoiseOfSum.__init__

    def doubled(self: NoiseOfSum, *args: Any, **more: Any) -> None:
        initialise(self, *args, **more)
        self.caps *= 2.0

    monkeypatch.setattr(NoiseOfSum, "__init__", doubled)
    found = play(privacy={"epsilon": 4.0, "delta": 0.01}, games=6000)
    assert found.gaussian is not None
    assert found.gaussian.epsilon_lower > 4.0


def test_updates_that_are_not_clipped_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    send = Amplitudes.send

    def unclipped(self: Amplitudes, *args: Any, **more: Any) -> Any:
        found = send(self, *args, **more)
        found.payload[...] *= 16.0
        return found

    monkeypatch.setattr(Amplitudes, "send", unclipped)
    assert caught(play(privacy={"epsilon": 0.5, "delta": 0.01}))
