"""Personal models: samples held out at home, scores of many models at once, and what the proximal term is for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from local_setting import CLASSES, SCALE, SEED, TRIAL, images, network

import fl.local.evaluation as evaluation
from fl.base.errors import LearningError
from fl.data.arrays import ImageData
from fl.data.partition.split import Partition
from fl.local.config import LocalConfig
from fl.local.evaluation import PersonalModels, evaluate, evaluate_stacked, hold_out
from fl.local.trainer import LocalTrainer

SIZES = [5, 3, 18, 5, 2, 40]


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_every_device_holds_out_its_share_and_trains_on_the_rest() -> None:
    _, whole = images(SIZES)
    train, test = hold_out(whole, test_share=0.2, generator=rng())
    np.testing.assert_array_equal(test.sizes, [1, 1, 4, 1, 1, 8])
    for own, kept, held in zip(whole.devices, train.devices, test.devices, strict=True):
        np.testing.assert_array_equal(np.sort(np.concatenate([kept, held])), np.sort(own))
    assert train.labels is whole.labels
    np.testing.assert_array_equal(train.label_counts() + test.label_counts(), whole.label_counts())


def test_what_a_device_holds_out_is_random_repeatable_and_no_matter_of_those_behind_it() -> None:
    _, whole = images(SIZES)
    held = hold_out(whole, test_share=0.5, generator=rng())[1].devices
    again = hold_out(whole, test_share=0.5, generator=rng())[1].devices
    fewer = Partition(devices=whole.devices[:3], labels=whole.labels, num_classes=CLASSES)
    first = hold_out(fewer, test_share=0.5, generator=rng())[1].devices
    other = hold_out(whole, test_share=0.5, generator=rng(8))[1].devices
    for device in range(3):
        np.testing.assert_array_equal(held[device], again[device])
        np.testing.assert_array_equal(held[device], first[device])
    assert not np.array_equal(held[5], other[5])
    # Each of 40 samples is held out in half of 400 splits, within five standard errors.
    splits = range(400)
    counts = np.zeros(40)
    for seed in splits:
        counts += np.isin(whole.devices[5], hold_out(whole, test_share=0.5, generator=rng(seed))[1].devices[5])
    assert np.all(np.abs(counts - 200) < 5.0 * np.sqrt(400 / 4))


def test_a_device_that_cannot_hold_anything_out_is_named() -> None:
    _, whole = images([4, 1, 6])
    with pytest.raises(LearningError, match="device 1 has 1 sample"):
        hold_out(whole, test_share=0.2, generator=rng())


@pytest.mark.parametrize(
    "kind", ["linear", "mlp", "dropout", "cnn", pytest.param("residual", marks=pytest.mark.slow), "unknown"]
)
def test_scores_are_those_of_one_device_at_a_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, whole = images(SIZES)
    model = network(kind)
    weights = model.initial_weights() + 0.3 * rng().normal(size=(len(SIZES), model.num_parameters)).astype(np.float32)
    # Several calls of several devices, and devices in more than one slice.
    monkeypatch.setattr(evaluation, "_MOST_DEVICES", 2)
    monkeypatch.setattr(evaluation, "_MOST_ROWS_OF_A_DEVICE", 16)
    loss, accuracy = evaluate_stacked(model, weights, data=data, partition=whole)
    for device, own in enumerate(whole.devices):
        expected = evaluate(model, weights[device], data.x_train[own], data.y_train[own], scale=SCALE)
        np.testing.assert_allclose(loss[device], expected[0], rtol=2e-5)
        assert accuracy[device] == expected[1]
    assert len(set(accuracy)) > 1


def test_one_model_for_all_is_scored_on_every_device_s_own_samples() -> None:
    data, whole = images(SIZES)
    model = network("mlp")
    start = model.initial_weights()
    models = PersonalModels(model, data=data, test=whole)
    shared, own = models.scores(start), models.scores()
    np.testing.assert_array_equal(own[0], shared[0])
    moved = start[None] + 0.5 * rng().normal(size=(2, len(start))).astype(np.float32)
    models.keep(moved, devices=np.array([4, 1]))
    later = models.scores()
    changed = later[0] != shared[0]
    np.testing.assert_array_equal(changed, [False, True, False, False, True, False])
    mine = whole.devices[4]
    assert later[0][4] == pytest.approx(
        evaluate(model, moved[0], data.x_train[mine], data.y_train[mine], scale=SCALE)[0], rel=2e-5
    )


def separable(num_devices: int, size: int) -> tuple[ImageData, Partition]:
    """Devices that see the same images, and name them each in a way of its own: label = (kind + device) mod classes."""
    data, whole = images([size] * num_devices)
    chance = rng(2)
    kind = chance.integers(0, CLASSES, num_devices * size)
    x = chance.integers(0, 5, data.x_train.shape).astype(np.uint8)
    x[np.arange(len(x)), kind] += 11
    labels = np.empty(len(x), np.int64)
    for device, own in enumerate(whole.devices):
        labels[own] = (kind[own] + device) % CLASSES
    changed: dict[str, Any] = {**data.__dict__, "x_train": x, "y_train": labels}
    return ImageData(**changed), Partition(devices=whole.devices, labels=labels, num_classes=CLASSES)


def test_personal_models_do_better_at_home_than_the_global_one_where_devices_disagree() -> None:
    data, whole = separable(4, 40)
    train, test = hold_out(whole, test_share=0.25, generator=rng())
    model = network("linear")
    start = np.zeros(model.num_parameters, np.float32)
    moved, scores = {}, {}
    for lam in (0.01, 5.0):
        config = LocalConfig(learning_rate=0.1, steps=60, proximal=lam)
        learner = LocalTrainer(model, config=config, data=data, partition=train, seed=SEED, trial=TRIAL)
        models = PersonalModels(model, data=data, test=test)
        shared = start
        for index in range(3):
            trained = learner.train(shared, devices=np.arange(4), round_index=index).weights
            models.keep(trained, devices=np.arange(4))
            shared = trained.mean(axis=0)
        moved[lam] = np.linalg.norm(trained - shared)
        scores[lam] = models.scores()[1].mean(), models.scores(shared)[1].mean()
    # Four devices, four namings: what one global model can do is a quarter, within four errors of 40 samples.
    assert scores[0.01][1] < 0.25 + 4.0 * np.sqrt(0.25 * 0.75 / 40)
    assert scores[0.01][0] > 0.95
    assert moved[5.0] < 0.5 * moved[0.01]
