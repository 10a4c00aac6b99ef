"""Attackers: who they are, and that they act exactly where they are said to, on nothing and nobody else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attack_setting import attack_of
from baseline_setting import round_of

from fl.attacks.attack import Attack
from fl.attacks.attacks import Attackers, choose_attackers
from fl.attacks.kinds import known
from fl.base.errors import LearningError

UPDATE_KINDS = ("gaussian", "sign-flip", "scale", "zero-gradient", "duplicate")
BIT_KINDS = ("ones", "invert", "random")
K = 12
DEVICES = np.arange(40, 40 + K)
LYING = np.isin(np.arange(K), [0, 3, 11])


def config(kind: str, **more: Any) -> Attack:
    return attack_of(kind=kind, **({"share": 0.25} if "devices" not in more and "share" not in more else {}), **more)


def chosen(attack: Attack, *, num_devices: int = 100, seed: int = 1, trial: int = 0) -> np.ndarray:
    return choose_attackers(attack, num_devices=num_devices, seed=seed, trial=trial)


def test_a_share_is_drawn_without_replacement_and_by_seed_and_trial() -> None:
    for share, count in ((0.0, 0), (0.2, 20), (0.29, 29), (0.3, 30), (1.0, 100)):
        assert chosen(config("ones", share=share)).sum() == count
    first = chosen(config("ones", share=0.3))
    np.testing.assert_array_equal(chosen(config("invert", share=0.3)), first)
    assert (chosen(config("ones", share=0.3), trial=1) != first).any()
    assert (chosen(config("ones", share=0.3), seed=2) != first).any()
    # Every device is as likely as any other.
    often = sum(chosen(config("ones", share=0.3), num_devices=10, trial=trial) for trial in range(2000))
    assert (np.abs(often - 600) < 4.5 * np.sqrt(2000 * 0.3 * 0.7)).all()


def test_drawn_with_replacement_fewer_attack() -> None:
    attack = config("ones", share=0.3, drawn="with-replacement")
    counts = [chosen(attack, num_devices=1000, trial=trial).sum() for trial in range(50)]
    # 300 draws from 1000: 1000 (1 - 0.999^300) different ones; the variance of that is below its mean.
    wanted = 1000 * (1 - 0.999**300)
    assert max(counts) < 300
    assert abs(np.mean(counts) - wanted) < 4 * np.sqrt(wanted / 50)


def test_devices_are_taken_by_number() -> None:
    np.testing.assert_array_equal(np.flatnonzero(chosen(config("ones", devices=(7, 3, 3)))), [3, 7])


def test_attackers_that_cannot_be_are_refused_in_one_sentence() -> None:
    with pytest.raises(LearningError, match="number 12, but there are only 12, from 0 to 11"):
        chosen(config("ones", devices=(2, 12)), num_devices=12)
    with pytest.raises(LearningError, match="names 4 devices up to number 2, but there are only 3"):
        chosen(config("ones", devices=(0, 1, 2, 2)), num_devices=3)
    for kind in ("zero-gradient", "duplicate"):
        with pytest.raises(LearningError, match="all 5 devices attack"):
            chosen(config(kind, share=1.0), num_devices=5)
    assert chosen(config("ones", share=1.0), num_devices=5).all()
    with pytest.raises(LearningError, match="leaves signs as they are"):
        chosen(config("sign-flip", factor=4.0))


def attackers(attack: Attack, *, devices: np.ndarray = DEVICES, lying: np.ndarray = LYING) -> Attackers:
    """Those of `devices` attack where `lying` says so."""
    return Attackers(config=attack, who=np.isin(np.arange(400), devices[lying[: len(devices)]]))


def attacked(
    kind: str, values: np.ndarray, *, devices: np.ndarray = DEVICES, index: int = 0, **more: Any
) -> np.ndarray:
    return attackers(config(kind, **more), devices=devices).updates(values, devices=devices, context=round_of(index))


VALUES = np.random.default_rng(4).normal(size=(K, 1001)).astype(np.float32)


@pytest.mark.parametrize("kind", UPDATE_KINDS)
def test_an_attack_on_updates_touches_attackers_alone(kind: str) -> None:
    before = VALUES.copy()
    found = attacked(kind, VALUES)
    np.testing.assert_array_equal(VALUES, before)
    np.testing.assert_array_equal(found[~LYING], VALUES[~LYING])
    assert (found[LYING] != VALUES[LYING]).any(axis=1).all()
    nobody = attackers(config(kind), lying=np.zeros(K, bool)).updates(VALUES, devices=DEVICES, context=round_of())
    assert nobody is VALUES
    payload = np.random.default_rng(1).integers(0, 256, (1, K, 3), dtype=np.uint8)
    untouched = attackers(config(kind)).bits(payload, devices=DEVICES, context=round_of())
    assert untouched is payload


def test_attacks_on_updates_are_what_they_are_called() -> None:
    np.testing.assert_array_equal(attacked("sign-flip", VALUES)[LYING], -4 * VALUES[LYING])
    np.testing.assert_array_equal(attacked("scale", VALUES, factor=10.0)[LYING], 10 * VALUES[LYING])
    np.testing.assert_array_equal(attacked("duplicate", VALUES)[LYING], np.tile(VALUES[1], (3, 1)))
    zero = attacked("zero-gradient", VALUES)
    np.testing.assert_allclose(zero[0], -VALUES[~LYING].astype(float).sum(axis=0) / 3, rtol=1e-6)
    np.testing.assert_allclose(zero.astype(float).sum(axis=0), 0.0, atol=1e-5)
    noise = attacked("gaussian", VALUES, std=1e4)[LYING].astype(float) / 1e4
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size)
    assert abs(noise.var() - 1) < 4 * np.sqrt(2 / noise.size)
    assert np.abs(np.corrcoef(noise)[np.triu_indices(3, 1)]).max() < 4 / np.sqrt(1001)


def test_noise_and_coins_belong_to_the_device_and_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = np.zeros((1, K, 126), np.uint8)

    def coins(devices: np.ndarray, index: int = 0) -> np.ndarray:
        found = attackers(config("random"), devices=devices).bits(payload, devices=devices, context=round_of(index))
        return found[0, LYING]

    noise, flips = attacked("gaussian", VALUES)[LYING], coins(DEVICES)
    assert (attacked("gaussian", VALUES, index=1)[LYING] != noise).any()
    assert (coins(DEVICES, index=1) != flips).any()
    moved = DEVICES.copy()
    moved[[0, 3]] = moved[[3, 0]]
    np.testing.assert_array_equal(attacked("gaussian", VALUES, devices=moved)[LYING], noise[[1, 0, 2]])
    np.testing.assert_array_equal(coins(moved), flips[[1, 0, 2]])
    monkeypatch.setattr(known, "_NUMBERS_AT_ONCE", 1)
    np.testing.assert_array_equal(attacked("gaussian", VALUES)[LYING], noise)
    everybody = attackers(config("random"), devices=np.arange(300), lying=np.ones(300, bool))
    wide = everybody.bits(np.zeros((1, 300, 250), np.uint8), devices=np.arange(300), context=round_of())
    ones = np.unpackbits(wide).mean()
    assert abs(ones - 0.5) < 4 * 0.5 / np.sqrt(600_000)


def test_without_honest_devices_in_a_round_nothing_is_copied_or_answered() -> None:
    for kind, sent in (("zero-gradient", np.zeros_like(VALUES)), ("duplicate", VALUES)):
        everybody = attackers(config(kind), lying=np.ones(K, bool))
        np.testing.assert_array_equal(everybody.updates(VALUES, devices=DEVICES, context=round_of()), sent)


@pytest.mark.parametrize("kind", BIT_KINDS)
def test_an_attack_on_bits_touches_the_bits_of_attackers_alone(kind: str) -> None:
    payload = np.random.default_rng(2).integers(0, 256, (1, K, 126), dtype=np.uint8)
    before = payload.copy()
    found = attackers(config(kind)).bits(payload, devices=DEVICES, context=round_of())
    np.testing.assert_array_equal(payload, before)
    np.testing.assert_array_equal(found[0, ~LYING], payload[0, ~LYING])
    sent, was = np.unpackbits(found, axis=-1)[0, LYING], np.unpackbits(payload, axis=-1)[0, LYING]
    if kind == "ones":
        assert sent.all()
    elif kind == "invert":
        np.testing.assert_array_equal(sent, 1 - was)
    else:
        assert abs((sent == was).sum() - 1.5 * 1008) < 4 * np.sqrt(0.75 * 1008)
    same = attackers(config(kind)).updates(VALUES, devices=DEVICES, context=round_of())
    assert same is VALUES


def test_labels_are_mirrored_on_the_attackers_own_samples_alone() -> None:
    labels = np.array([0, 1, 2, 9, 5, 4], np.int64)
    samples = (np.array([0, 3]), np.array([1]), np.array([4, 2]), np.array([5]))
    liars = Attackers(config=attack_of(kind="labels", share=0.2), who=np.array([True, False, True, False]))
    found = liars.labels(labels, samples=samples, num_classes=10)
    np.testing.assert_array_equal(found, [9, 1, 7, 0, 4, 4])
    np.testing.assert_array_equal(labels, [0, 1, 2, 9, 5, 4])
