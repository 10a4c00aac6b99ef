"""The loss of a sample, the clipping of its gradient, and weights as the network's variables."""

from __future__ import annotations

from typing import Any

from fl.models.federated import FederatedModel


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


def by_identity(model: FederatedModel, parts: list[Any]) -> dict[int, Any]:
    """The parts by the identity of their variables, as layers know them."""
    return {id(variable): part for variable, part in zip(model.network.trainable_variables, parts, strict=True)}


def join_weights(parts: list[Any], *, rows: int) -> Any:
    """`[rows, *shape]` per variable to `[rows, M]`."""
    import tensorflow as tf

    return tf.concat([tf.reshape(part, [rows, -1]) for part in parts], axis=1)


def unit_pixels(images: Any, *, scale: Any, shift: Any) -> Any:
    """Stored uint8 pixels times `scale` plus `shift`, float32."""
    import tensorflow as tf

    return tf.cast(images, tf.float32) * tf.cast(scale, tf.float32) + tf.cast(shift, tf.float32)
