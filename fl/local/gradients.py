"""Sums of (clipped) per-sample gradients of many devices, or of many samples of one, in one compiled call.

By taps where every layer is known. Else every sample's gradient is vectorised, which takes M numbers a sample, so that
slices are small. Whatever Keras can call without state is trained so: subclassed models, layers of the user's own,
layers that are used twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fl.base.errors import LearningError
from fl.local.config import LocalConfig
from fl.local.forward import Pass, can_walk, has_convolutions, walk
from fl.local.taps import LinearTap, inner_products
from fl.models.federated import FederatedModel
from phy.engines.choice import has_bfloat16_kernels
from phy.numerics.lazy_tensorflow import tf
from phy.numerics.random import threefry


def cross_entropy(labels: Any, logits: Any) -> Any:
    """-ln softmax(logits)[label] `[N]`; the logits may be wider than the labels."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def clip_factors(squared_norms: Any, *, clip: float) -> tuple[Any, Any]:
    """min(1, G / ||v||) and 1.0 where ||v|| > G, from ||v||^2; a norm that is not a number makes the factor so too."""
    norms = tf.sqrt(squared_norms)
    longer = tf.logical_not(norms <= clip)
    return tf.where(longer, clip / norms, tf.ones_like(norms)), tf.cast(longer, tf.float32)


def split_weights(model: FederatedModel, weights: Any) -> list[Any]:
    """`[D, M]` to `[D, *shape]` per variable; the gradient of a split is one concatenation, where slices add M each."""
    parts = tf.split(weights, [piece.size for piece in model.pieces], axis=1)
    return [tf.reshape(part, [weights.shape[0], *piece.shape]) for part, piece in zip(parts, model.pieces, strict=True)]


def join_weights(parts: list[Any], *, rows: int) -> Any:
    """`[rows, *shape]` per variable to `[rows, M]`."""
    return tf.concat([tf.reshape(part, [rows, -1]) for part in parts], axis=1)


def unit_pixels(images: Any, *, scale: Any, shift: Any) -> Any:
    """Stored uint8 pixels times `scale` plus `shift`, float32."""
    return tf.cast(images, tf.float32) * tf.cast(scale, tf.float32) + tf.cast(shift, tf.float32)


@dataclass(frozen=True, kw_only=True)
class Gradient:
    """A compiled sum of gradients.

    `call(weights, images, labels, mask, first, keys)` takes float32 `[D, M]`, uint8 `[D, m, H, W, C]`, int32 `[D, m]`,
    float32 `[D, m]` (1 for a sample that counts), the number of the slice's first sample in its step (uint32) and
    dropout keys uint32 `[D, 2]`. It returns

    - `[D, M]`: sum_i min(1, G / ||v_i||) v_i, v_i = grad(cross-entropy_i + mu/2 ||w||^2), Li et al. 2025 (3);
    - `[D]`: the sum of these losses;
    - `[D]`: how many v_i were longer than G.

    One sample takes `sample_bytes` and one device `device_bytes` of a call; `devices`: a call takes more than one.
    `shared` takes more than one with the same weights `[1, M]`, see `compile_shared`; None where that wins nothing.
    """

    call: Callable[..., tuple[Any, Any, Any]]
    sample_bytes: int
    device_bytes: int
    devices: bool
    shared: Callable[..., tuple[Any, Any, Any]] | None = None


def number_format(local: LocalConfig) -> tuple[str, bool]:
    """Return the dtype in which layers multiply, and True if they round float32 numbers to bfloat16 instead."""
    rounds = local.precision == "bfloat16" and not has_bfloat16_kernels()
    return "float32" if rounds else local.precision, rounds


def compile_gradient(model: FederatedModel, *, local: LocalConfig, scale: float, shift: float) -> Gradient:
    """The gradient of a network by taps where every layer is known, else by vectorised per-sample gradients.

    Raises `LearningError` for bfloat16 in the latter.
    """
    clip, l2 = local.clip, local.l2
    precision, rounds = number_format(local)
    dry = _dry_run(model) if can_walk(model.network) else None
    if dry is None or not (clip is None or _has_one_tap_each(model, dry)):
        if local.precision != "float32":
            raise LearningError(
                f"learning.local.precision is {local.precision}, but other layers with weights than "
                "Dense, Conv2D and GroupNormalization, and those used twice, train in float32",
                "leave precision out",
            )
        by_sample = compile_by_sample(model, scale=scale, shift=shift, clip=clip, l2=l2)
        sample_bytes = 3 * forward_bytes(model) + 16 * model.num_parameters
        return Gradient(call=by_sample, sample_bytes=sample_bytes, device_bytes=0, devices=False)

    @tf.function(autograph=False)
    def call(weights: Any, images: Any, labels: Any, mask: Any, first: Any, keys: Any) -> Any:
        devices, rows = images.shape[:2]
        pixels = unit_pixels(tf.reshape(images, [devices * rows, *images.shape[2:]]), scale=scale, shift=shift)
        labels, mask = tf.reshape(labels, [-1]), tf.reshape(mask, [-1])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            parts = split_weights(model, weights)
            known = _by_identity(model, parts)
            run = Pass(parts=known, num_devices=devices, keys=keys, first=first, precision=precision, rounds=rounds)
            if clip is None:
                tape.watch(parts)
            else:
                run.tape = tape
            losses = cross_entropy(labels, tf.cast(walk(model.network, pixels, run), tf.float32))
            if clip is None:
                losses *= mask
            total = tf.reduce_sum(losses)

        def by_device(values: Any) -> Any:
            return tf.reduce_sum(tf.reshape(values, [devices, -1]), axis=1)

        # TensorFlow adds terms in the order of their names, which count operations: the order of lines below is in
        # the last digits of the results.
        if clip is None:
            gradient = join_weights(tape.gradient(total, parts, unconnected_gradients="zero"), rows=devices)
            loss, ones = by_device(losses), by_device(mask)
            if l2 > 0.0:
                gradient += l2 * ones[:, None] * weights
                loss += 0.5 * l2 * ones * tf.reduce_sum(tf.square(weights), axis=1)
            return gradient, loss, tf.zeros_like(loss)
        backs = tape.gradient(total, [tap.output for tap in run.taps], unconnected_gradients="zero")
        found = [tap.squared_norms(back) for tap, back in zip(run.taps, backs, strict=True)]
        squared = tf.add_n([norms for norms, _ in found])
        square_of_weights = tf.reduce_sum(tf.square(weights), axis=1)
        if l2 > 0.0:
            inner = tf.add_n([inner_products(tap, back) for tap, back in zip(run.taps, backs, strict=True)])
            own = tf.repeat(square_of_weights, rows)
            # Rounding may leave a vanishing norm below zero.
            squared = tf.maximum(squared + 2.0 * l2 * inner + l2**2 * own, 0.0)
        factors, longer = clip_factors(squared, clip=clip)
        factors *= mask
        sums: dict[int, Any] = {}
        for _, summed in found:
            sums.update(summed(factors, devices))
        gradient = join_weights([sums[id(variable)] for variable in model.network.trainable_variables], rows=devices)
        share, loss, count, ones = (by_device(values) for values in (factors, losses * mask, longer * mask, mask))
        if l2 > 0.0:
            gradient += l2 * share[:, None] * weights
            loss += 0.5 * l2 * square_of_weights * ones
        return gradient, loss, count

    # Every output, its gradient and what a layer makes of them.
    stored = math.prod(model.network.input_shape[1:]) + 3 * dry.entries
    if clip is not None:
        stored += sum(tap.entries for tap in dry.taps)
    linear = all(isinstance(tap, LinearTap) for tap in dry.taps) and _has_one_tap_each(model, dry)
    convolves, shared = has_convolutions(model.network), None
    # Adam's root rounds the last numbers of an array otherwise: bits would hang on the company.
    if convolves and linear and clip is None and local.optimizer != "adam":
        shared = compile_shared(model, local=local, scale=scale, shift=shift)
    return Gradient(
        call=call,
        sample_bytes=tf.as_dtype(precision).size * stored,
        device_bytes=4 * 6 * model.num_parameters,
        devices=not convolves,
        shared=shared,
    )


def compile_shared(model: FederatedModel, *, local: LocalConfig, scale: float, shift: float) -> Any:
    """`Gradient.call` of devices with the same weights `[1, M]`, without clipping: one pass for the samples of all.

    Products of what goes into a layer and what comes back are taken device by device, all else at once: a call for each
    device has some eighty operations, often on 16 images. On an Intel Xeon both give the same bits.
    """
    l2 = local.l2
    precision, rounds = number_format(local)

    @tf.function(autograph=False)
    def call(weights: Any, images: Any, labels: Any, mask: Any, first: Any, keys: Any) -> Any:
        devices, rows = images.shape[:2]
        pixels = unit_pixels(tf.reshape(images, [devices * rows, *images.shape[2:]]), scale=scale, shift=shift)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            known = _by_identity(model, split_weights(model, weights))
            run = Pass(
                parts=known, num_devices=1, tape=tape, keys=keys, first=first, precision=precision, rounds=rounds
            )
            logits = tf.cast(walk(model.network, pixels, run), tf.float32)
            # Device by device, as the exponential rounds the last numbers of an array otherwise.
            own = zip(tf.unstack(labels), tf.split(logits, devices), strict=True)
            losses = tf.stack([cross_entropy(*one) for one in own]) * mask
            total = tf.reduce_sum(losses)
        backs = tape.gradient(total, [tap.output for tap in run.taps], unconnected_gradients="zero")
        sums: dict[int, Any] = {}
        for tap, back in zip(run.taps, backs, strict=True):
            assert isinstance(tap, LinearTap)
            sums.update(tap.sums(back, devices))
        gradient = join_weights([sums[id(variable)] for variable in model.network.trainable_variables], rows=devices)
        loss, ones = (tf.reduce_sum(values, axis=1) for values in (losses, mask))
        if l2 > 0.0:
            gradient += l2 * ones[:, None] * weights
            loss += 0.5 * l2 * ones * tf.reduce_sum(tf.square(weights), axis=1)
        return gradient, loss, tf.zeros_like(loss)

    return call


def logits_at_test(model: FederatedModel, weights: Any, pixels: Any) -> Any:
    """Logits `[D m, outputs]` of `pixels` `[D m, H, W, C]` with weights `[D, M]`, dropout off.

    D must be 1 for a network with convolutions, or one that is not known inside.
    """
    parts = split_weights(model, weights)
    if can_walk(model.network):
        run = Pass(parts=_by_identity(model, parts), num_devices=weights.shape[0])
        return walk(model.network, pixels, run)
    return _logits_of(model, [part[0] for part in parts], pixels, seed=None, training=False)


def forward_bytes(model: FederatedModel) -> int:
    """Bytes of one sample's way through the network; of one that cannot be walked through, a guess by its weights."""
    entries = _dry_run(model).entries if can_walk(model.network) else 8 * model.num_parameters
    return int(4 * (math.prod(model.network.input_shape[1:]) + entries))


def _by_identity(model: FederatedModel, parts: list[Any]) -> dict[int, Any]:
    """The parts by the identity of their variables, as layers know them."""
    return {id(variable): part for variable, part in zip(model.network.trainable_variables, parts, strict=True)}


def _has_one_tap_each(model: FederatedModel, run: Pass) -> bool:
    """Where a layer is used twice its gradient has cross terms, which the norms of the single uses do not see."""
    tapped = [id(variable) for tap in run.taps for variable in tap.variables]
    return sorted(tapped) == sorted(id(variable) for variable in model.network.trainable_variables)


def _dry_run(model: FederatedModel) -> Pass:
    parts = split_weights(model, tf.zeros([1, model.num_parameters]))
    run = Pass(parts=_by_identity(model, parts), num_devices=1)
    walk(model.network, tf.zeros([1, *model.network.input_shape[1:]]), run)
    return run


def compile_by_sample(model: FederatedModel, *, scale: float, shift: float, clip: float | None, l2: float) -> Any:
    """`Gradient.call` for one device at a time (D = 1).

    Without clipping and without random layers it is one ordinary gradient of the slice.
    """
    whole = clip is None and not _seed_states(model.network)

    @tf.function(autograph=False)
    def call(weights: Any, images: Any, labels: Any, mask: Any, first: Any, keys: Any) -> Any:
        pixels, labels, mask = unit_pixels(images[0], scale=scale, shift=shift), labels[0], mask[0]
        if whole:
            total, losses = _gradient(model, weights, pixels, labels, mask, seed=None)
            total, longer = total[None], tf.zeros_like(losses)
        else:
            index = first + tf.cast(tf.range(labels.shape[0]), tf.uint32)
            seeds = tf.stack(threefry((keys[0, 0], keys[0, 1]), (index, tf.zeros_like(index)), tf.bitwise), axis=1)
            ones = tf.ones([1])
            gradients, losses = tf.vectorized_map(
                lambda one: _gradient(model, weights, one[0][None], one[1][None], ones, seed=one[2]),
                (pixels, labels, seeds),
            )
            losses = losses[:, 0]
            factors, longer = tf.ones_like(losses), tf.zeros_like(losses)
            if clip is not None:
                gradients += l2 * weights
                factors, longer = clip_factors(tf.reduce_sum(tf.square(gradients), axis=1), clip=clip)
            total = tf.matmul((factors * mask)[None], gradients)
        count = tf.reduce_sum(mask)
        if clip is None:
            total += l2 * count * weights
        loss = tf.reduce_sum(losses * mask) + 0.5 * l2 * count * tf.reduce_sum(tf.square(weights))
        return total, loss[None], tf.reduce_sum(longer * mask)[None]

    return call


def _logits_of(model: FederatedModel, parts: list[Any], pixels: Any, *, seed: Any, training: bool) -> Any:
    """Logits `[N, outputs]` with the weights `parts`, one `[*shape]` per variable; random layers draw from `seed`."""
    variables = model.network.non_trainable_variables
    states = [tf.convert_to_tensor(variable) for variable in variables]
    if seed is not None:
        for number, own in enumerate(_seed_states(model.network)):
            place = next(place for place, variable in enumerate(variables) if variable is own)
            # Within the positive numbers of a signed word.
            counter = tf.constant(number, tf.uint32), tf.constant(0, tf.uint32)
            words = tf.stack(threefry((seed[0], seed[1]), counter, tf.bitwise))
            states[place] = tf.cast(tf.bitwise.right_shift(words, tf.constant(1, tf.uint32)), states[place].dtype)
    return model.network.stateless_call(parts, states, pixels, training=training)[0]


def _seed_states(network: Any) -> list[Any]:
    """Variables in which Keras's random layers keep their seeds."""
    return [variable for variable in network.non_trainable_variables if "seed_generator_state" in variable.path]


def _gradient(
    model: FederatedModel, weights: Any, pixels: Any, labels: Any, mask: Any, *, seed: Any
) -> tuple[Any, Any]:
    """Gradient `[M]` of the summed loss of the samples, and their losses `[N]`."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        parts = [part[0] for part in split_weights(model, weights)]
        tape.watch(parts)
        logits = _logits_of(model, parts, pixels, seed=seed, training=True)
        losses = cross_entropy(labels, logits)
        total = tf.reduce_sum(losses * mask)
    gradients = tape.gradient(total, parts, unconnected_gradients="zero")
    return join_weights(gradients, rows=1)[0], losses
