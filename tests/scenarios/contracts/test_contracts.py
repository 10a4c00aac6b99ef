"""Codecs, attacks, models and data sets keep their contracts, and a broken one is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from attack_setting import attack_of

from fl.attacks.attack import Attack, HonestRound, Place, attacks
from fl.data.data_set import ImageFacts, data_sets
from fl.models.model import Model, models
from fl.schemes.codecs.codec import Codec, Encoded, codecs
from fl.schemes.codecs.partwise import Uniform
from scenarios.contracts import attack as attack_contract
from scenarios.contracts import codec as codec_contract
from scenarios.contracts import data as data_contract


@pytest.mark.parametrize("check", codec_contract.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", codecs.words())
def test_every_codec_keeps_the_contract(name: str, check: Callable[[Codec], None]) -> None:
    check(codecs.read(name))


@pytest.mark.parametrize("check", attack_contract.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", attacks.words())
def test_every_attack_keeps_the_contract(kind: str, check: Callable[[Attack], None]) -> None:
    check(attack_of(kind=kind, share=0.25))


class Broken(Uniform):
    """A codec with a fault."""

    fault: str

    def encode(self, values: Any, *, keys: Any) -> Encoded:
        """Encode with the fault."""
        found = super().encode(np.nan_to_num(values) if self.fault == "nan" else values, keys=keys)
        payload, clipped = found.payload.copy(), found.clipped
        if self.fault == "long":
            payload = np.concatenate([payload, payload[..., :1]], axis=-1)
        elif self.fault == "random":
            payload[..., 0] = np.random.default_rng().integers(0, 256, payload.shape[:-1], dtype=np.uint8)
        elif self.fault == "mixed":
            payload[...] = payload[:1]
        elif self.fault == "biased":
            payload[...] = 0
        elif self.fault == "uncounted":
            clipped = clipped * 0
        return Encoded(payload=payload, clipped=clipped)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("long", codec_contract.the_payload_has_the_bits_that_are_declared),
        ("random", codec_contract.the_same_keys_give_the_same_bits),
        ("mixed", codec_contract.a_trial_has_the_same_bits_alone),
        ("biased", codec_contract.decoded_numbers_are_near),
        ("uncounted", codec_contract.numbers_beyond_the_range_are_clipped_and_counted),
        ("nan", codec_contract.numbers_that_are_not_finite_are_refused),
    ],
)
def test_a_faulty_codec_breaks_the_contract(fault: str, check: Callable[[Codec], None]) -> None:
    with pytest.raises(AssertionError):
        check(Broken(fault=fault))


@pytest.mark.parametrize("check", data_contract.MODEL, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ["linear", "mlp", "cnn2"])
def test_models_keep_the_contract(name: str, check: Callable[[Model], None]) -> None:
    check(models.read(name))


def test_a_data_set_keeps_the_contract() -> None:
    data_contract.images_are_what_the_facts_say(data_sets.read("digits"))


def test_a_data_set_with_other_facts_breaks_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    few = ImageFacts(image_shape=(8, 8, 1), num_classes=9, num_train=1437, num_test=360)
    monkeypatch.setattr(data_contract, "image_facts", lambda _: few)
    with pytest.raises(AssertionError, match="labels reach 9 with 9 classes"):
        data_contract.images_are_what_the_facts_say(data_sets.read("digits"))


class Faulty(Attack):
    """An attack with a fault."""

    kind: str = "faulty"
    acts_on: ClassVar[Place] = "updates"
    fault: str

    def of_updates(self, honest: HonestRound) -> Any:
        """Return updates with the fault."""
        if self.fault == "honest":
            return honest.updates[honest.attackers]
        if self.fault == "infinite":
            return np.full((len(honest.attackers), honest.updates.shape[1]), np.inf)
        return np.random.default_rng().normal(size=(len(honest.attackers), honest.updates.shape[1]))


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("honest", attack_contract.attackers_send_something_else),
        ("infinite", attack_contract.attackers_send_finite_numbers_of_the_same_type),
        ("random", attack_contract.the_same_round_gives_the_same_attack),
    ],
)
def test_a_faulty_attack_breaks_the_contract(fault: str, check: Callable[[Attack], None]) -> None:
    with pytest.raises(AssertionError):
        check(Faulty(fault=fault, share=0.25))
