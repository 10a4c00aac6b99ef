"""Per-sample gradients of networks whose inside is not known: the whole gradient of every sample, vectorised.

They take M numbers a sample, so that slices are small. Whatever Keras can call without state is trained here:
subclassed models, layers of the user's own, layers that are used twice.
"""

from __future__ import annotations

from typing import Any

from fl.local.samplewise.loss import clip_factors, cross_entropy, join_weights, split_weights, unit_pixels
from fl.local.samplewise.masks import sample_seeds
from fl.models.federated import FederatedModel
from phy.numerics.random import threefry


def compile_by_sample(model: FederatedModel, *, scale: float, shift: float, clip: float | None, l2: float) -> Any:
    """`Gradient.call` for one device at a time (D = 1).

    Without clipping and without random layers it is one ordinary gradient of the slice.
    """
    import tensorflow as tf

    whole = clip is None and not seed_states(model.network)

    @tf.function(autograph=False)
    def call(weights: Any, images: Any, labels: Any, mask: Any, first: Any, keys: Any) -> Any:
        pixels, labels, mask = unit_pixels(images[0], scale=scale, shift=shift), labels[0], mask[0]
        if whole:
            total, losses = _gradient(model, weights, pixels, labels, mask, seed=None)
            total, longer = total[None], tf.zeros_like(losses)
        else:
            seeds = sample_seeds(keys[0], samples=labels.shape[0], first=first)
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


def logits_of(model: FederatedModel, parts: list[Any], pixels: Any, *, seed: Any, training: bool) -> Any:
    """Logits `[N, outputs]` with the weights `parts`, one `[*shape]` per variable; random layers draw from `seed`."""
    import tensorflow as tf

    network = model.network
    states = [tf.convert_to_tensor(variable) for variable in network.non_trainable_variables]
    if seed is not None:
        seeded = {id(variable): number for number, variable in enumerate(seed_states(network))}
        states = [
            _seed_of_layer(seed, seeded[id(variable)], state.dtype) if id(variable) in seeded else state
            for variable, state in zip(network.non_trainable_variables, states, strict=True)
        ]
    return network.stateless_call(parts, states, pixels, training=training)[0]


def seed_states(network: Any) -> list[Any]:
    """Variables in which Keras's random layers keep their seeds."""
    return [variable for variable in network.non_trainable_variables if "seed_generator_state" in variable.path]


def _gradient(
    model: FederatedModel, weights: Any, pixels: Any, labels: Any, mask: Any, *, seed: Any
) -> tuple[Any, Any]:
    """Gradient `[M]` of the summed loss of the samples, and their losses `[N]`."""
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        parts = [part[0] for part in split_weights(model, weights)]
        tape.watch(parts)
        logits = logits_of(model, parts, pixels, seed=seed, training=True)
        losses = cross_entropy(labels, logits)
        total = tf.reduce_sum(losses * mask)
    gradients = tape.gradient(total, parts, unconnected_gradients="zero")
    return join_weights(gradients, rows=1)[0], losses


def _seed_of_layer(seed: Any, number: int, dtype: Any) -> Any:
    """Seed `[2]` of random layer `number`, within the positive numbers of a signed word."""
    import tensorflow as tf

    words = threefry((seed[0], seed[1]), (tf.constant(number, tf.uint32), tf.constant(0, tf.uint32)), tf.bitwise)
    return tf.cast(tf.bitwise.right_shift(tf.stack(words), tf.constant(1, tf.uint32)), dtype)
