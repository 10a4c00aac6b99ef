"""The loss of a sample, and per-sample gradients of networks whose inside is not known: every sample's, vectorised.

These take M numbers a sample, so that slices are small. Whatever Keras can call without state is trained here:
subclassed models, layers of the user's own, layers that are used twice.
"""

from __future__ import annotations

from typing import Any

from fl.models.federated import FederatedModel
from phy.numerics.random import threefry


def cross_entropy(labels: Any, logits: Any) -> Any:
    """-ln softmax(logits)[label] `[N]`; the logits may be wider than the labels."""
    import tensorflow as tf

    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def clip_factors(squared_norms: Any, *, clip: float) -> tuple[Any, Any]:
    """min(1, G / ||v||) and 1.0 where ||v|| > G, from ||v||^2; a norm that is not a number makes the factor so too."""
    import tensorflow as tf

    norms = tf.sqrt(squared_norms)
    longer = tf.logical_not(norms <= clip)
    return tf.where(longer, clip / norms, tf.ones_like(norms)), tf.cast(longer, tf.float32)


def split_weights(model: FederatedModel, weights: Any) -> list[Any]:
    """`[D, M]` to `[D, *shape]` per variable; the gradient of a split is one concatenation, where slices add M each."""
    import tensorflow as tf

    parts = tf.split(weights, [piece.size for piece in model.pieces], axis=1)
    return [tf.reshape(part, [weights.shape[0], *piece.shape]) for part, piece in zip(parts, model.pieces, strict=True)]


def join_weights(parts: list[Any], *, rows: int) -> Any:
    """`[rows, *shape]` per variable to `[rows, M]`."""
    import tensorflow as tf

    return tf.concat([tf.reshape(part, [rows, -1]) for part in parts], axis=1)


def unit_pixels(images: Any, *, scale: Any, shift: Any) -> Any:
    """Stored uint8 pixels times `scale` plus `shift`, float32."""
    import tensorflow as tf

    return tf.cast(images, tf.float32) * tf.cast(scale, tf.float32) + tf.cast(shift, tf.float32)


def compile_by_sample(model: FederatedModel, *, scale: float, shift: float, clip: float | None, l2: float) -> Any:
    """`Gradient.call` for one device at a time (D = 1).

    Without clipping and without random layers it is one ordinary gradient of the slice.
    """
    import tensorflow as tf

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


def logits_of(model: FederatedModel, parts: list[Any], pixels: Any, *, seed: Any, training: bool) -> Any:
    """Logits `[N, outputs]` with the weights `parts`, one `[*shape]` per variable; random layers draw from `seed`."""
    import tensorflow as tf

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
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        parts = [part[0] for part in split_weights(model, weights)]
        tape.watch(parts)
        logits = logits_of(model, parts, pixels, seed=seed, training=True)
        losses = cross_entropy(labels, logits)
        total = tf.reduce_sum(losses * mask)
    gradients = tape.gradient(total, parts, unconnected_gradients="zero")
    return join_weights(gradients, rows=1)[0], losses
