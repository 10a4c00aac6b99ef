"""Joint maximum-likelihood detection: every combination of all users' points is tried."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import tensorflow as tf

from phy.config import BITS_PER_SYMBOL
from phy.receivers.combining import noise_variance
from phy.receivers.demapping import constellation_points
from phy.receivers.detectors import Detector, DetectorSpec
from phy.stages import Observation

_METRICS_AT_A_TIME = 1 << 21
"""Combinations times symbols in memory at once: 8 MiB of float32."""


@lru_cache(maxsize=32)
def joint(spec: DetectorSpec) -> Detector:
    """LLRs of the bits of all users under -||y - sum_k h_k x_k||^2 / v, summed (app) or maximised (maxlog) over x.

    All M^U vectors x are equally likely (Verdu, "Multiuser detection", 4.1). The same as Sionna's
    `MaximumLikelihoodDetector`, the oracle of the tests, with the symbols innermost: 4 to 10 times faster on a CPU,
    and in memory that does not grow with the packet.
    """
    bits = BITS_PER_SYMBOL[spec.modulation]
    users = spec.num_users
    points = constellation_points(bits)
    at_once = max(_METRICS_AT_A_TIME // 2 ** (bits * users), 1)
    log_sum = tf.reduce_max if spec.demapper == "maxlog" else tf.reduce_logsumexp

    @tf.function(jit_compile=True, autograph=False)
    def likelihoods(received: Any, channel: Any) -> Any:
        # Every user has an axis of its own for its points; symbols come last.
        metric = tf.constant(0.0)
        for antenna in range(received.shape[0]):
            residual = received[antenna]
            for user in range(users):
                own_axis = [1] * user + [-1] + [1] * (users - 1 - user)
                residual = residual - points.reshape(*own_axis, 1) * channel[user, antenna]
            metric = metric - tf.math.real(residual) ** 2 - tf.math.imag(residual) ** 2
        return metric

    @tf.function(jit_compile=True, autograph=False)
    def marginals(metric: Any) -> Any:
        others = [[axis for axis in range(users) if axis != user] for user in range(users)]
        return tf.stack([log_sum(metric, axis=axes) for axes in others])

    @tf.function(jit_compile=True, autograph=False)
    def llrs(per_point: Any) -> Any:
        # The index of a point is its label: one axis per bit.
        split = tf.reshape(per_point, [users, *[2] * bits, -1])
        found = []
        for bit in range(bits):
            others = [1 + axis for axis in range(bits) if axis != bit]
            zero_one = log_sum(split, axis=others) if others else split
            found.append(zero_one[:, 1] - zero_one[:, 0])
        return tf.stack(found, axis=1)

    def part(whitened: tuple[Any, Any]) -> Any:
        return llrs(marginals(likelihoods(*whitened)))

    @tf.function(jit_compile=True, autograph=False)
    def whiten(observation: Observation) -> tuple[Any, Any]:
        noise = noise_variance(observation, trusting=spec.equalizer == "zf")
        scale = tf.cast(tf.math.rsqrt(noise), tf.complex64)
        received = tf.transpose(observation.received * scale[:, None], [1, 0, 2])
        channel = tf.transpose(observation.channel * scale[:, None, None], [1, 2, 0, 3])
        rows, num_symbols = noise.shape
        total = rows * num_symbols
        chunk = min(at_once, total)
        padding = -total % chunk
        received = tf.pad(tf.reshape(received, [-1, total]), [[0, 0], [0, padding]])
        channel = tf.pad(tf.reshape(channel, [users, -1, total]), [[0, 0], [0, 0], [0, padding]])
        received = tf.transpose(tf.reshape(received, [-1, (total + padding) // chunk, chunk]), [1, 0, 2])
        channel = tf.transpose(tf.reshape(channel, [users, -1, (total + padding) // chunk, chunk]), [2, 0, 1, 3])
        return received, channel

    @tf.function(jit_compile=True, autograph=False)
    def gather(found: Any, channel: Any) -> Any:
        # [chunks, users, bits, symbols of a chunk] to [rows, users, symbols and their bits].
        rows, _, _, num_symbols = channel.shape
        flat = tf.reshape(tf.transpose(found, [1, 2, 0, 3]), [users, bits, -1])[..., : rows * num_symbols]
        split = tf.transpose(tf.reshape(flat, [users, bits, rows, num_symbols]), [2, 0, 3, 1])
        # All points of a silent user are equally likely, but sums of equal terms may round differently.
        active = tf.reduce_any(tf.abs(channel) > 0.0, axis=2)[..., None]
        return tf.reshape(tf.where(active, split, 0.0), [rows, users, num_symbols * bits])

    def detect(observation: Observation) -> Any:
        found = tf.map_fn(part, whiten(observation), fn_output_signature=tf.float32, parallel_iterations=1)
        return gather(found, observation.channel)

    return detect
