"""Sums of (clipped) per-sample gradients of many devices, or of many samples of one, in one compiled call."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fl.local.forward import Pass, Randomness, can_walk, has_convolutions, walk
from fl.local.samplewise.by_sample import compile_by_sample
from fl.local.samplewise.loss import by_identity, clip_factors, cross_entropy, join_weights, split_weights, unit_pixels
from fl.local.samplewise.taps import inner_products
from fl.models.federated import FederatedModel

_MOST_RANDOM_LAYERS = 4096


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one sample, and one device, occupy in one call [B]; `devices`: whether a call takes more than one."""

    sample_bytes: int
    device_bytes: int
    devices: bool


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """A compiled sum of gradients with its cost.

    `call(weights, images, labels, mask, first, keys)` takes float32 `[D, M]`, uint8 `[D, m, H, W, C]`, int32 `[D, m]`,
    float32 `[D, m]` (1 for a sample that counts), the number of the slice's first sample in its step (uint32) and
    dropout keys uint32 `[D, 2]`. It returns

    - `[D, M]`: sum_i min(1, G / ||v_i||) v_i, v_i = grad(cross-entropy_i + mu/2 ||w||^2), Li et al. 2025 (3);
    - `[D]`: the sum of these losses;
    - `[D]`: how many v_i were longer than G.
    """

    call: Callable[..., tuple[Any, Any, Any]]
    cost: Cost


def compile_gradient(
    model: FederatedModel, *, scale: float, shift: float = 0.0, clip: float | None, l2: float
) -> Gradient:
    """The gradient of a network by taps where every layer is known, else by vectorised per-sample gradients."""
    import tensorflow as tf

    if not can_walk(model.network) or not (clip is None or _each_variable_has_one_tap(model)):
        by_sample = compile_by_sample(model, scale=scale, shift=shift, clip=clip, l2=l2)
        cost = Cost(sample_bytes=3 * forward_bytes(model) + 16 * model.num_parameters, device_bytes=0, devices=False)
        return Gradient(call=by_sample, cost=cost)

    @tf.function(autograph=False)
    def call(weights: Any, images: Any, labels: Any, mask: Any, first: Any, keys: Any) -> Any:
        devices, rows = images.shape[:2]
        pixels = unit_pixels(tf.reshape(images, [devices * rows, *images.shape[2:]]), scale=scale, shift=shift)
        randomness = Randomness(keys=keys, first=first, num_layers=_MOST_RANDOM_LAYERS)
        given = {
            "weights": weights,
            "pixels": pixels,
            "labels": tf.reshape(labels, [-1]),
            "mask": tf.reshape(mask, [-1]),
            "randomness": randomness,
        }
        if clip is None:
            return _plain_sums(model, l2=l2, **given)
        return _clipped_sums(model, clip=clip, l2=l2, **given)

    return Gradient(call=call, cost=tapped_cost(model, clipped=clip is not None))


def _clipped_sums(
    model: FederatedModel,
    *,
    weights: Any,
    pixels: Any,
    labels: Any,
    mask: Any,
    randomness: Randomness,
    clip: float,
    l2: float,
) -> tuple[Any, Any, Any]:
    import tensorflow as tf

    devices = weights.shape[0]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        run = Pass(
            parts=by_identity(model, split_weights(model, weights)),
            num_devices=devices,
            tape=tape,
            randomness=randomness,
        )
        losses = cross_entropy(labels, walk(model.network, pixels, run))
        total = tf.reduce_sum(losses)
    backs = tape.gradient(total, [tap.output for tap in run.taps], unconnected_gradients="zero")
    found = [tap.squared_norms(back) for tap, back in zip(run.taps, backs, strict=True)]
    squared = tf.add_n([norms for norms, _ in found])
    square_of_weights = tf.reduce_sum(tf.square(weights), axis=1)
    if l2 > 0.0:
        inner = tf.add_n([inner_products(tap, back) for tap, back in zip(run.taps, backs, strict=True)])
        own = tf.repeat(square_of_weights, labels.shape[0] // devices)
        # Rounding may leave a vanishing norm below zero.
        squared = tf.maximum(squared + 2.0 * l2 * inner + l2**2 * own, 0.0)
    factors, longer = clip_factors(squared, clip=clip)
    factors *= mask
    sums: dict[int, Any] = {}
    for _, summed in found:
        sums.update(summed(factors, devices))
    gradient = join_weights([sums[id(variable)] for variable in model.network.trainable_variables], rows=devices)
    rows = [tf.reshape(values, [devices, -1]) for values in (factors, losses * mask, longer * mask, mask)]
    share, loss, count, ones = (tf.reduce_sum(values, axis=1) for values in rows)
    if l2 > 0.0:
        gradient += l2 * share[:, None] * weights
        loss += 0.5 * l2 * square_of_weights * ones
    return gradient, loss, count


def _plain_sums(
    model: FederatedModel,
    *,
    weights: Any,
    pixels: Any,
    labels: Any,
    mask: Any,
    randomness: Randomness,
    l2: float,
) -> tuple[Any, Any, Any]:
    import tensorflow as tf

    devices = weights.shape[0]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        parts = split_weights(model, weights)
        tape.watch(parts)
        run = Pass(parts=by_identity(model, parts), num_devices=devices, randomness=randomness)
        losses = cross_entropy(labels, walk(model.network, pixels, run)) * mask
        total = tf.reduce_sum(losses)
    gradients = tape.gradient(total, parts, unconnected_gradients="zero")
    gradient = join_weights(gradients, rows=devices)
    loss = tf.reduce_sum(tf.reshape(losses, [devices, -1]), axis=1)
    ones = tf.reduce_sum(tf.reshape(mask, [devices, -1]), axis=1)
    if l2 > 0.0:
        gradient += l2 * ones[:, None] * weights
        loss += 0.5 * l2 * ones * tf.reduce_sum(tf.square(weights), axis=1)
    return gradient, loss, tf.zeros_like(loss)


def tapped_cost(model: FederatedModel, *, clipped: bool) -> Cost:
    """Bytes of a pass by taps: of every output, its gradient and what a layer makes of them, from a dry run."""
    run = _dry_run(model)
    stored = math.prod(model.network.input_shape[1:]) + 3 * run.entries
    if clipped:
        stored += sum(tap.entries for tap in run.taps)
    return Cost(
        sample_bytes=4 * stored,
        device_bytes=4 * 6 * model.num_parameters,
        devices=not has_convolutions(model.network),
    )


def forward_bytes(model: FederatedModel) -> int:
    """Bytes of one sample's way through the network; of one that cannot be walked through, a guess by its weights."""
    entries = _dry_run(model).entries if can_walk(model.network) else 8 * model.num_parameters
    return int(4 * (math.prod(model.network.input_shape[1:]) + entries))


def _each_variable_has_one_tap(model: FederatedModel) -> bool:
    """Where a layer is used twice its gradient has cross terms, which the norms of the single uses do not see."""
    tapped = [id(variable) for tap in _dry_run(model).taps for variable in tap.variables]
    return sorted(tapped) == sorted(id(variable) for variable in model.network.trainable_variables)


def _dry_run(model: FederatedModel) -> Pass:
    import tensorflow as tf

    parts = split_weights(model, tf.zeros([1, model.num_parameters]))
    run = Pass(parts=by_identity(model, parts), num_devices=1)
    walk(model.network, tf.zeros([1, *model.network.input_shape[1:]]), run)
    return run
