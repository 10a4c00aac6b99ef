"""One step of each device on flat vectors: gradient descent, momentum, Adam, and the pull to the global model."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fl.config.local import LocalConfig

STATES = {"gd": (), "sgd": ("momentum",), "adam": ("first_moment", "second_moment")}
"""Names of the flat vectors that an optimiser keeps per device."""

_ADAM_EPSILON = 1e-7
"""As in Keras."""


def state_names(config: LocalConfig) -> tuple[str, ...]:
    """What is kept per device; nothing for sgd without momentum."""
    return () if config.optimizer == "sgd" and config.momentum == 0.0 else STATES[config.optimizer]


@lru_cache(maxsize=4)
def compile_update(config: LocalConfig) -> Any:
    """A compiled step of D devices: `update(weights, total, counts, anchor, state, taken, active)`.

    With g = total / count + rho (w - w_global) (FedProx), eta = `learning_rate`:

    - gd: w <- w - eta g;
    - sgd: v <- momentum v + g, w <- w - eta v;
    - adam: m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2,
      w <- w - eta sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + 1e-7), t = `taken` + 1 (Kingma and Ba 2015).

    `weights`, `total` (sum over the batch), `anchor` (w_global) and each of `state` are float32 `[D, M]`, `counts`
    (samples in the batch) float32 `[D]`, `taken` (steps before) float32 `[D]`, `active` bool `[D]`: the others keep
    weights and state.
    """
    import tensorflow as tf

    eta, rho = config.learning_rate, config.proximal

    @tf.function(autograph=False)
    def update(
        weights: Any, total: Any, counts: Any, anchor: Any, state: tuple[Any, ...], taken: Any, active: Any
    ) -> Any:
        gradient = total / counts[:, None]
        if rho > 0.0:
            gradient += rho * (weights - anchor)
        moved: tuple[Any, ...] = ()
        if config.optimizer == "adam":
            first, second = state
            first = config.beta1 * first + (1.0 - config.beta1) * gradient
            second = config.beta2 * second + (1.0 - config.beta2) * tf.square(gradient)
            times = taken + 1.0
            rate = eta * tf.sqrt(1.0 - config.beta2**times) / (1.0 - config.beta1**times)
            step = rate[:, None] * first / (tf.sqrt(second) + _ADAM_EPSILON)
            moved = (first, second)
        elif state:
            velocity = config.momentum * state[0] + gradient
            step, moved = eta * velocity, (velocity,)
        else:
            step = eta * gradient
        keep = active[:, None]
        kept = tuple(tf.where(keep, new, old) for new, old in zip(moved, state, strict=True))
        return tf.where(keep, weights - step, weights), kept

    return update
