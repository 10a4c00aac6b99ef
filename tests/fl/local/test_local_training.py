"""Local training over rounds: optimisers and their memory, mini-batches, dropout, and independence of the company."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from local_setting import CLASSES, SCALE, assign, images, network, pixels, trainer
from oracles.per_sample import clipped_mean, sample_gradients
from pace import fastest_s

from fl.local.evaluation import evaluate
from fl.local.samples import Batches, padded_size, slices
from fl.local.trainer import LocalOutcome, LocalTrainer
from fl.models.federated import FederatedModel

SIZES = [5, 3, 8, 5]
EVERYONE = np.arange(len(SIZES))
ROUNDING = 5e-6
"""A few steps of float32 on weights of size 1."""


def rounds(learner: LocalTrainer, start: np.ndarray, count: int, **given: Any) -> np.ndarray:
    """Weights `[K, M]` after `count` rounds in which every device goes on from its own."""
    weights = start
    for index in range(count):
        weights = learner.train(weights, devices=EVERYONE, round_index=index, **given).weights
    return weights


def own_gradient(model: FederatedModel, data: Any, partition: Any, device: int, weights: np.ndarray) -> np.ndarray:
    """Mean gradient of one device's samples at `weights`, by the oracle."""
    assign(model, weights.astype(np.float32))
    gradients = sample_gradients(model.network, *pixels(data, partition, device))
    return clipped_mean(gradients, weights, clip=None, l2=0.0)


def test_momentum_lasts_from_round_to_round() -> None:
    data, partition = images(SIZES)
    model = network("linear")
    start = model.initial_weights()
    given = {"optimizer": "sgd", "batch_size": 8, "momentum": 0.5, "learning_rate": 0.2}
    found = rounds(trainer(model, data, partition, **given), start, 3)
    forgetful = rounds(trainer(model, data, partition, **given, keep_state=False), start, 3)
    own, plain, velocity = start.astype(float), start.astype(float), np.zeros(len(start))
    for _ in range(3):
        velocity = 0.5 * velocity + own_gradient(model, data, partition, 2, own)
        own = own - 0.2 * velocity
        plain = plain - 0.2 * own_gradient(model, data, partition, 2, plain)
    np.testing.assert_allclose(found[2], own, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(forgetful[2], plain, rtol=0, atol=ROUNDING)
    assert np.abs(own - plain).max() > 1e3 * ROUNDING


def test_the_learning_rate_decays_over_the_steps_of_all_rounds() -> None:
    data, partition = images(SIZES)
    model = network("linear")
    start = model.initial_weights()
    given = {"learning_rate": 0.3, "decay_steps": 4.0, "steps": 2}
    found = rounds(trainer(model, data, partition, **given), start, 3)[2]
    own = start.astype(float)
    for step in range(6):
        own = own - 0.3 * 4.0 / (step + 4.0) * own_gradient(model, data, partition, 2, own)
    np.testing.assert_allclose(found, own, rtol=0, atol=ROUNDING)


def test_adam_is_that_of_keras_over_rounds_and_steps() -> None:
    import keras

    data, partition = images(SIZES)
    model = network("linear")
    start = model.initial_weights()
    learner = trainer(model, data, partition, optimizer="adam", batch_size=8, learning_rate=0.05, steps=2, beta1=0.8)
    found = rounds(learner, start, 2)[1]
    variable = keras.Variable(start)
    reference = keras.optimizers.Adam(learning_rate=0.05, beta_1=0.8)
    for _ in range(4):
        gradient = own_gradient(model, data, partition, 1, np.asarray(variable))
        reference.apply([gradient.astype(np.float32)], [variable])
    # Adam divides by the root of a small moment, which magnifies a gradient's rounding by up to its inverse.
    np.testing.assert_allclose(found, np.asarray(variable), rtol=0, atol=1e-4)
    assert np.abs(found - start).max() > 0.05


def test_a_device_that_paused_goes_on_with_its_own_state() -> None:
    data, partition = images(SIZES)
    model = network("linear")
    start = model.initial_weights()
    given = {"optimizer": "adam", "batch_size": 8, "learning_rate": 0.05}
    learner, alone = (trainer(model, data, partition, **given) for _ in range(2))
    learner.train(start, devices=np.array([0, 1]), round_index=0)
    learner.train(start, devices=np.array([3]), round_index=1)
    later = learner.train(start, devices=np.array([1, 2]), round_index=2).weights
    for index, device in ((0, 1), (2, 1)):
        expected = alone.train(start, devices=np.array([device]), round_index=index).weights[0]
    np.testing.assert_array_equal(later[0], expected)
    np.testing.assert_array_equal(learner.state()["taken"], [1, 2, 1, 1])


def test_the_proximal_term_pulls_to_the_model_sent_and_is_not_clipped() -> None:
    data, partition = images(SIZES)
    model = network("linear")
    start = model.initial_weights()
    clip, rho, eta = 0.01, 0.7, 0.5
    found = trainer(model, data, partition, learning_rate=eta, clip=clip, proximal=rho, steps=2).train(
        start, devices=EVERYONE, round_index=0
    )
    for device in EVERYONE:
        own = start.astype(float)
        for _ in range(2):
            assign(model, own.astype(np.float32))
            gradients = sample_gradients(model.network, *pixels(data, partition, device))
            own = own - eta * (clipped_mean(gradients, own, clip=clip, l2=0.0) + rho * (own - start))
        np.testing.assert_allclose(found.weights[device], own, rtol=0, atol=ROUNDING)


def test_stragglers_stop_after_their_own_number_of_steps() -> None:
    data, partition = images(SIZES)
    model = network("mlp")
    start = model.initial_weights()
    late = np.array([1, 4, 2, 3])
    given = {"optimizer": "sgd", "batch_size": 2, "momentum": 0.9, "learning_rate": 0.1}
    learner = trainer(model, data, partition, **given, steps=4)
    found = learner.train(start, devices=EVERYONE, round_index=5, steps=late)
    for device, steps in enumerate(late):
        alone = trainer(model, data, partition, **given, steps=int(steps))
        expected = alone.train(start, devices=EVERYONE, round_index=5).weights[device]
        np.testing.assert_array_equal(found.weights[device], expected)
        np.testing.assert_array_equal(
            learner.state()["moments"]["momentum"][device], alone.state()["moments"]["momentum"][device]
        )


CLIPPED = {"optimizer": "sgd", "batch_size": 3, "learning_rate": 0.1, "clip": 0.5, "steps": 2}
ONE_STEP = {"optimizer": "sgd", "batch_size": 3, "learning_rate": 0.1, "momentum": 0.9, "l2": 0.3, "proximal": 0.2}


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        *((kind, CLIPPED) for kind in ("mlp", "dropout", "residual", "foreign-dropout")),
        *((kind, ONE_STEP) for kind in ("cnn", "dropped-cnn")),
    ],
)
def test_who_trains_beside_a_device_changes_no_bit_of_it(kind: str, given: dict[str, Any]) -> None:
    data, partition = images(SIZES)
    model = network(kind)
    start = model.initial_weights()
    together = trainer(model, data, partition, **given).train(start, devices=EVERYONE, round_index=1)
    again = trainer(model, data, partition, **given).train(start, devices=EVERYONE, round_index=1)
    some = trainer(model, data, partition, **given).train(start, devices=np.array([3, 1]), round_index=1)
    for name in ("weights", "loss", "clipped_share"):
        np.testing.assert_array_equal(getattr(together, name), getattr(again, name))
        np.testing.assert_array_equal(getattr(some, name), getattr(together, name)[[3, 1]])


@pytest.mark.parametrize("given", [ONE_STEP, {"learning_rate": 0.1}, {**ONE_STEP, "precision": "bfloat16"}])
@pytest.mark.parametrize("kind", ["cnn", "dropped-cnn"])
def test_one_step_from_the_same_weights_is_that_of_devices_with_weights_of_their_own(
    kind: str, given: dict[str, Any]
) -> None:
    """Such devices pass the network together; given a row of weights each, they pass it one by one."""
    sizes = [20, 33, 33, 20]  # 33 are filled up to 36
    data, partition = images(sizes)
    model = network(kind)
    start = model.initial_weights()
    learner, apart = (trainer(model, data, partition, **given) for _ in range(2))
    learner._stack = apart._stack = None  # in TensorFlow
    found = learner.train(start, devices=np.arange(4), round_index=1)
    expected = apart.train(np.tile(start, (4, 1)), devices=np.arange(4), round_index=1)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-5)
    assert np.abs(np.diff(expected.weights, axis=0)).max() > 1e3 * ROUNDING


def test_one_step_of_many_devices_takes_less_than_two_thirds_of_their_steps_one_by_one() -> None:
    """A quarter to a third for 64 devices with 16 images of 28 x 28."""
    data, partition = images([16] * 64, shape=(28, 28, 1))
    model = network("dropped-cnn", shape=(28, 28, 1))
    start, devices = model.initial_weights(), np.arange(64)
    learner = trainer(model, data, partition, learning_rate=0.1)
    learner._stack = None  # in TensorFlow
    rows = np.tile(start, (64, 1))
    together, apart = (
        fastest_s(lambda weights=weights: learner.train(weights, devices=devices, round_index=0), repeats=4)
        for weights in (start, rows)
    )
    assert together < 2 / 3 * apart


def test_any_number_of_threads_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    data, partition = images([9, 9, 20, 20, 33, 9])
    model = network("cnn")

    def outcome(threads: int) -> LocalOutcome:
        monkeypatch.setattr("fl.local.trainer.available_threads", lambda: threads)
        learner = trainer(model, data, partition, optimizer="adam", batch_size=8, learning_rate=0.1, steps=2)
        learner.train(model.initial_weights(), devices=np.arange(6), round_index=0)
        return learner.train(model.initial_weights(), devices=np.arange(6), round_index=1)

    alone, together = outcome(1), outcome(4)
    np.testing.assert_array_equal(together.weights, alone.weights)
    np.testing.assert_array_equal(together.loss, alone.loss)


@pytest.mark.parametrize("kind", ["mlp", "dropout", "cnn"])
def test_little_memory_gives_the_same_in_smaller_slices(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, partition = images([9, 20, 33])
    model = network(kind)
    start = model.initial_weights()

    def outcome() -> LocalOutcome:
        learner = trainer(model, data, partition, learning_rate=0.1, clip=0.5, l2=0.01)
        learner.train(start, devices=np.arange(3), round_index=0)
        return learner.train(start, devices=np.arange(3), round_index=4)

    roomy = outcome()
    monkeypatch.setattr("fl.local.trainer._MEMORY_BYTES", 30_000)
    tight = outcome()
    np.testing.assert_allclose(tight.weights, roomy.weights, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(tight.loss, roomy.loss, rtol=1e-6)
    np.testing.assert_array_equal(tight.clipped_share, roomy.clipped_share)


def dropped_inputs(learner: LocalTrainer, start: np.ndarray, round_index: int = 0) -> np.ndarray:
    """Inputs whose kernel row did not move, per device `[K, inputs]`: with one sample, those that dropout took out."""
    moved = learner.train(start, devices=EVERYONE, round_index=round_index).weights - start
    return np.asarray(np.all(moved[:, :-CLASSES].reshape(len(moved), -1, CLASSES) == 0.0, axis=2))


@pytest.mark.parametrize("clip", [None, 0.5])
def test_dropout_differs_between_devices_samples_steps_and_rounds_and_can_be_drawn_again(clip: float | None) -> None:
    side = (20, 20, 2)
    data, partition = images([1, 1, 1, 1], shape=side)
    # One and the same image without black pixels on every device, and steps too small to learn it.
    data.x_train[:] = 7
    model = network("dropout", shape=side)
    start = model.initial_weights()
    given = {"clip": clip, "learning_rate": 1e-3}
    first, again = (dropped_inputs(trainer(model, data, partition, **given), start) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other = dropped_inputs(trainer(model, data, partition, **given), start, round_index=1)
    # 800 Bernoulli draws of rate 0.4: the share within 4 standard errors, two masks alike in 0.52 of the places.
    error = 4 * np.sqrt(0.25 / 800)
    np.testing.assert_allclose(first.mean(axis=1), 0.4, rtol=0, atol=error)
    for one, two in [(first[0], first[1]), (first[2], first[3]), (first[0], other[0])]:
        assert np.mean(one == two) == pytest.approx(0.52, abs=error)
    two_steps = dropped_inputs(trainer(model, data, partition, **given, steps=2), start)
    np.testing.assert_allclose(two_steps.mean(axis=1), 0.16, rtol=0, atol=error)


def test_the_masks_of_two_samples_differ() -> None:
    side = (20, 20, 2)
    data, partition = images([2, 2, 2, 2], shape=side)
    data.x_train[:] = 7
    model = network("dropout", shape=side)
    dropped = dropped_inputs(trainer(model, data, partition), model.initial_weights())
    np.testing.assert_allclose(dropped.mean(axis=1), 0.16, rtol=0, atol=4 * np.sqrt(0.16 * 0.84 / 800))


def test_dropout_keeps_the_mean_of_the_gradient() -> None:
    data, partition = images([400])
    data.x_train[:] = data.x_train[0]
    data.y_train[:] = data.y_train[0]
    model = network("dropout")
    kernel = np.zeros(model.num_parameters, np.float32)
    moved = trainer(model, data, partition, learning_rate=1.0).train(kernel, devices=np.array([0]), round_index=0)
    x = (data.x_train[0] * np.float32(SCALE)).reshape(-1)
    residual = np.full(CLASSES, 1.0 / CLASSES) - np.eye(CLASSES)[data.y_train[0]]
    # At zero weights the gradient is x_j m_j / 0.6 times the residual, m_j Bernoulli(0.6), averaged over 400 masks.
    spread = np.sqrt(0.4 / 0.6 / 400) * np.abs(np.outer(x, residual)).max()
    expected = -np.outer(x, residual).reshape(-1)
    np.testing.assert_allclose(moved.weights[0, :-CLASSES], expected, rtol=0, atol=5 * spread)


def test_random_layers_of_the_user_draw_anew_for_every_device_and_round_and_can_be_drawn_again() -> None:
    data, partition = images([1, 1, 1, 1], shape=(6, 6, 64))
    data.x_train[:] = 7
    model = network("foreign-dropout", shape=(6, 6, 64))
    start = model.initial_weights()

    def channels(round_index: int) -> np.ndarray:
        dropped = dropped_inputs(trainer(model, data, partition, clip=0.5), start, round_index)
        assert np.all(dropped.reshape(4, 36, 64) == dropped.reshape(4, 36, 64)[:, :1])
        return dropped.reshape(4, 36, 64)[:, 0]

    first = channels(0)
    np.testing.assert_array_equal(first, channels(0))
    assert len(np.unique(np.concatenate([first, channels(1)]), axis=0)) == 8
    # 256 fair coins.
    assert first.mean() == pytest.approx(0.5, abs=4 * 0.5 / 16)


def test_every_epoch_takes_every_sample_once_in_an_order_of_its_own() -> None:
    sizes = np.array([5, 4, 7])
    batches = Batches(key=np.array([3, 4], np.uint32), devices=np.array([0, 7, 2]), sizes=sizes, batch_size=2)
    taken: list[list[int]] = [[], [], []]
    for step in range(12):
        position, counts = batches.at(step, width=2)
        for row in range(3):
            assert counts[row] >= 1
            taken[row] += position[row, : counts[row]].tolist()
    for row, size in enumerate(sizes):
        epochs = [taken[row][start : start + size] for start in range(0, len(taken[row]) - size + 1, size)]
        assert len(epochs) >= 3
        assert all(sorted(epoch) == list(range(size)) for epoch in epochs)
        assert len({tuple(epoch) for epoch in epochs}) > 1
    alone = Batches(key=np.array([3, 4], np.uint32), devices=np.array([7]), sizes=sizes[1:2], batch_size=2)
    np.testing.assert_array_equal(alone.at(4, width=2)[0][0], batches.at(4, width=2)[0][1])


def test_shapes_are_few_and_padding_is_at_most_an_eighth() -> None:
    sizes = np.arange(1, 5000)
    padded = np.array([padded_size(int(size)) for size in sizes])
    assert np.all((padded >= sizes) & (padded - sizes <= sizes / 8))
    assert len(np.unique(padded)) < 16 + 8 * 9
    for size in (1, 37, 513, 1000, 2000):
        cut = slices(size, rows_at_once=37)
        assert cut.rows * (cut.count - 1) < size <= cut.rows * cut.count
        assert cut.rows <= 37 * 9 / 8


def test_nothing_is_traced_again_in_later_rounds() -> None:
    data, partition = images([5, 5, 31, 32, 31])
    model = network("mlp")
    learner = trainer(model, data, partition, clip=0.5)
    learner._stack = None  # trains in TensorFlow, as on a GPU
    start = model.initial_weights()
    learner.train(start, devices=np.arange(5), round_index=0)
    traced = learner._gradient.call.experimental_get_tracing_count()
    assert traced == 2
    for index in range(1, 4):
        learner.train(start, devices=np.arange(index, 5), round_index=index)
    assert learner._gradient.call.experimental_get_tracing_count() == traced


def test_the_loss_is_that_of_the_weights_received_with_its_l2_term() -> None:
    data, partition = images(SIZES)
    model = network("mlp")
    start = model.initial_weights()
    l2 = 0.2
    outcome = trainer(model, data, partition, clip=0.5, l2=l2, steps=3).train(start, devices=EVERYONE, round_index=0)
    for device in EVERYONE:
        own = partition.devices[device]
        loss, _ = evaluate(model, start, data.x_train[own], data.y_train[own], scale=SCALE)
        assert outcome.loss[device] == pytest.approx(loss + 0.5 * l2 * np.sum(start.astype(float) ** 2), rel=1e-5)


@pytest.mark.parametrize("kind", ["mlp", "residual", "dropout", "unknown"])
def test_evaluation_is_that_of_the_network_itself(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = images([50])
    model = network(kind)
    weights = model.initial_weights() * np.float32(1.1)
    assign(model, weights)
    logits = np.asarray(model.network((data.x_train * np.float32(SCALE)).astype(np.float32), training=False))
    logits = logits.astype(float) - logits.max(axis=1, keepdims=True)
    picked = logits[np.arange(50), data.y_train] - np.log(np.exp(logits).sum(axis=1))
    monkeypatch.setattr("fl.local.evaluation._MOST_ROWS", 16)
    loss, accuracy = evaluate(model, weights, data.x_train, data.y_train, scale=SCALE)
    assert loss == pytest.approx(-picked.mean(), rel=1e-5)
    assert accuracy == np.mean(logits.argmax(axis=1) == data.y_train)


@pytest.mark.parametrize("clip", [None, 1.0])
def test_weights_that_are_not_finite_come_back_and_hurt_nobody_else(clip: float | None) -> None:
    data, partition = images(SIZES)
    model = network("mlp")
    start = np.tile(model.initial_weights(), (len(SIZES), 1))
    good = trainer(model, data, partition, clip=clip).train(start, devices=EVERYONE, round_index=0)
    start[1, 5] = np.nan
    start[2] = np.inf
    found = trainer(model, data, partition, clip=clip).train(start, devices=EVERYONE, round_index=0)
    assert not np.isfinite(found.weights[1]).all()
    assert not np.isfinite(found.weights[2]).any()
    assert np.isnan(found.loss[1])
    np.testing.assert_array_equal(found.weights[[0, 3]], good.weights[[0, 3]])


def test_the_state_can_be_put_back() -> None:
    data, partition = images(SIZES)
    model = network("linear")
    start = model.initial_weights()
    given = {"optimizer": "adam", "batch_size": 2, "learning_rate": 0.05, "steps": 3}
    learner = trainer(model, data, partition, **given)
    learner.train(start, devices=EVERYONE, round_index=0)
    kept = deepcopy(learner.state())
    first = learner.train(start, devices=EVERYONE, round_index=1).weights
    other = trainer(model, data, partition, **given)
    for one in (learner, other):
        one.restore(kept)
        np.testing.assert_array_equal(one.train(start, devices=EVERYONE, round_index=1).weights, first)
    with pytest.raises(KeyError, match="first_moment"):
        trainer(model, data, partition).restore(kept)
