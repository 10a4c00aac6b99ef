"""Mechanisms of plug-ins: what their class states is accounted for, and what it does not state is never proved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.upload import upload_plan
from fl.algorithms.run import run_trials
from fl.uplink.budgets import release_of, upload_parameters
from fl.uplink.mechanisms import mechanisms
from fl.uplink.protection import within_norm
from phy.config import LinkConfig
from privacy.accounting import account, spendings
from privacy.config import MECHANISMS, GaussianBudget, GaussianConfig, StatedNoise
from privacy.errors import PrivacyError
from privacy.events.events import Event, Ledger
from privacy.events.noise_events import GaussianNoise
from privacy.events.stated import STATING
from scenarios.contracts import mechanism as contract

LINK = LinkConfig.model_validate({"modulation": "qpsk", "error_model": "error_free"})
BUDGET = {"epsilon": 8.0, "delta": 1e-5}


@dataclass(frozen=True)
class Unsummed(Event):
    """The privacy profile of Gaussian noise, of which nobody knows how repetitions add up."""

    noise: GaussianNoise

    def pure_epsilon(self) -> float:
        return math.inf

    def delta(self, epsilon: Any) -> Any:
        return self.noise.delta(epsilon)

    def renyi(self, order: Any) -> Any:
        return self.noise.renyi(order)

    def repeated(self, count: int) -> Event | None:
        del count
        return None


class OwnGauss(StatedNoise):
    """Gaussian noise of multiplier `z`."""

    mechanism: Literal["own-gauss"] = "own-gauss"
    z: float = 1.0
    summed: bool = True

    def perturb(self, updates: Any, *, strength: float, generator: np.random.Generator) -> Any:
        """Add the noise."""
        return updates + generator.normal(0.0, 2.0 * self.clip * self.z / strength, updates.shape).astype(np.float32)

    def event(self, *, strength: float, num_values: int) -> Event:
        """Return Gaussian noise."""
        del num_values
        noise = GaussianNoise(noise_multiplier=self.z / strength)
        return noise if self.summed else Unsummed(noise)


class Silent(StatedNoise):
    """Noise of which nothing is stated."""

    mechanism: Literal["silent"] = "silent"

    def perturb(self, updates: Any, *, strength: float, generator: np.random.Generator) -> Any:
        """Add the noise."""
        del strength
        return updates + generator.normal(0.0, 100.0, updates.shape).astype(np.float32)


class Faulty(OwnGauss):
    """A mechanism with a fault."""

    mechanism: Literal["faulty"] = "faulty"
    fault: str

    def perturb(self, updates: Any, *, strength: float, generator: np.random.Generator) -> Any:
        """Add the noise with the fault."""
        if self.fault == "unseeded":
            generator = np.random.default_rng()
        if self.fault == "in place":
            updates += 1.0
        less = 0.5 if self.fault == "less noise" else 1.0
        noise = super().perturb(updates, strength=strength / less, generator=generator)
        return noise[:1] if self.fault == "shape" else noise

    def event(self, *, strength: float, num_values: int) -> Event:
        """State the event with the fault."""
        strength = 1.0 / strength if self.fault == "upside down" else strength
        return super().event(strength=strength, num_values=num_values)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Register the mechanisms of this file as a plug-in would, and forget them."""
    for one in (OwnGauss, Silent):
        mechanisms.register(one)
    yield
    mechanisms.forget(__name__)


def config(rounds: int = 3) -> FedAvgConfig:
    return FedAvgConfig.model_validate({"num_devices": 4, "rounds": rounds, "codec": "binary32", "local": {"steps": 1}})


def ledger_of(privacy: StatedNoise) -> Ledger:
    result = run_trials(config(), link=LINK, privacy=privacy, seed=3, trials=[0])[0]
    assert result.failure is None, result.failure
    assert result.account is not None
    return result.account.ledger


def epsilon_of(ledger: Ledger) -> float:
    return account(spendings(ledger, credited=False), delta=1e-5, accountant="pld")


@pytest.mark.parametrize("summed", [True, False])
def test_the_epsilon_of_a_run_is_that_of_the_stated_noise(summed: bool) -> None:
    """Three releases of multiplier 2 are one of 2 / sqrt(3); what is composed on a grid lies at most 1 % above."""
    ledger = ledger_of(OwnGauss(z=2.0, summed=summed, clip=0.5))
    exact = account(
        spendings(
            Ledger(kind="gaussian", parameter=np.full((3, 1), 2.0), coordinates=1, unit="device"), credited=False
        ),
        delta=1e-5,
        accountant="exact",
    )
    assert exact * (1.0 - 1e-9) <= epsilon_of(ledger) <= 1.01 * exact
    stored = Ledger.from_dict(ledger.to_dict(), parameter=ledger.parameter)
    assert epsilon_of(stored) == epsilon_of(ledger)
    assert any("plug-in states" in one for one in ledger.assumptions)


def test_a_budget_sets_the_strength_as_it_sets_a_noise_multiplier() -> None:
    """Multiplier 1 at strength s is multiplier 1 / s; both searches end within 0.4 % of the budget."""
    plan = upload_plan(config(10))
    own = mechanisms.read({"mechanism": "own-gauss", "budget": BUDGET})
    device = mechanisms.read({"mechanism": "device-noise", "budget": BUDGET, "clip": 1.0})
    strengths = upload_parameters(plan, link=LINK, privacy=own)
    assert strengths is not None
    assert strengths.shape == (10,)
    assert strengths == pytest.approx(1.0 / upload_parameters(plan, link=LINK, privacy=device), rel=0.008)


def test_the_updates_of_every_device_get_noise_of_the_strength() -> None:
    """What is sent differs from the clipped update by sigma = 2 clip z: a chi-square of 2600 numbers, 5 errors wide."""
    from fl.uplink.protection import OwnNoise
    from phy.fading.block_taps import UplinkContext

    noise = OwnNoise(OwnGauss(z=2.0, clip=0.5), strengths=np.array([1.0, 4.0]))
    updates = np.random.default_rng(1).normal(size=(4, 650)).astype(np.float32)
    clipped = within_norm(updates, norm="l2", clip=0.5)
    assert np.linalg.norm(clipped, axis=1) == pytest.approx(0.5, rel=1e-5)
    for index, sigma in enumerate((2.0, 0.5)):
        context = UplinkContext(seed=1, trials=(0,), round_index=index)
        sent = noise.perturb(updates, devices=np.arange(4), context=context)
        assert np.std(sent - clipped) == pytest.approx(sigma, rel=5.0 / math.sqrt(2 * 2600))


def test_a_mechanism_that_states_no_event_has_no_epsilon_and_takes_no_budget() -> None:
    assert epsilon_of(ledger_of(Silent())) == math.inf
    for calibrate in (True, False):
        watched = mechanisms.read({"mechanism": "silent", "budget": {**BUDGET, "calibrate": calibrate}})
        assert [problem for _, problem, *_ in watched.conflicts(upload_plan(config()).training, lost=None)]
        with pytest.raises(PrivacyError, match="states no event, and no budget holds that"):
            release_of(upload_plan(config()), link=LINK, privacy=watched)


def test_nothing_is_proved_without_the_plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = OwnGauss().release(650, upload_plan(config()).training).ledger(np.ones((2, 1)))
    monkeypatch.delitem(STATING, "own-gauss")
    with pytest.raises(PrivacyError, match="own-gauss have a loss that its plug-in states, and the plug-in is not"):
        epsilon_of(ledger)


def test_own_mechanisms_stand_beside_those_of_the_library() -> None:
    assert mechanisms.words() == (
        *("bit-flipping", "device-noise", "gaussian", "own-gauss", "receiver-noise", "scheme", "silent"),
    )
    assert set(MECHANISMS.values()) <= set(mechanisms.classes())
    gaussian = {"mechanism": "gaussian", "epsilon": 5}
    assert isinstance(mechanisms.read(gaussian), GaussianConfig)
    assert isinstance(mechanisms.read({"mechanism": "gaussian", "budget": BUDGET}), GaussianBudget)
    assert isinstance(mechanisms.read({**gaussian, "budget": {**BUDGET, "calibrate": False}}), GaussianConfig)


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_a_sound_mechanism_keeps_the_contract(check: Any) -> None:
    check(OwnGauss(z=0.7))


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("shape", contract.noisy_updates_have_the_shape_of_updates),
        ("in place", contract.noisy_updates_have_the_shape_of_updates),
        ("unseeded", contract.noise_comes_from_the_generator_alone),
        ("upside down", contract.more_strength_is_more_loss),
        ("less noise", contract.games_do_not_refute_the_event),
    ],
)
def test_a_faulty_mechanism_breaks_the_contract(fault: str, check: Any) -> None:
    with pytest.raises(AssertionError):
        check(Faulty(fault=fault))
