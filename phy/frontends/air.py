"""Functions of all front-ends: motion of the channel in a packet, noise, sum over users, and energies.

    y_A = sum_u a_u g_u h_uA x_u + sqrt(2 N0) n_A,    n ~ CN(0, 1)

for antenna A, over a plane of channel uses `[times, carriers]`; h may be the same for all times or all carriers.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from phy.config import ChannelConfig
from phy.numerics.lazy_tensorflow import tf
from phy.numerics.random import complex_normal, threefry

Motion = Literal["still", "symbol", "moving"]


def motion(channel: ChannelConfig) -> Motion:
    """Motion of a channel within a packet: constant (`still`), independent per symbol, or continuous (`moving`)."""
    if channel.coherence == "symbol":
        return "symbol"
    moves = channel.coherence == "doppler" if not channel.selective else channel.speed_m_s > 0
    return "moving" if moves and channel.fades else "still"


def draw_normals(key: Any, *, rows: int, columns: int) -> Any:
    """CN(0, 1) `[..., rows, columns]` complex64 for keys `[..., 2]` (TensorFlow)."""
    row = tf.cast(tf.range(rows), tf.uint32)[:, None]
    column = tf.cast(tf.range(columns), tf.uint32)[None, :]
    words = threefry((key[..., 0, None, None], key[..., 1, None, None]), (column, row), tf.bitwise)
    return complex_normal(words)


def instants(start_s: Any, offsets_s: Any, *, num_users: int) -> Any:
    """Start of each row `[rows]` plus offsets `[n]` [s], for every user: `[rows * num_users, n]` float32."""
    at = start_s[:, None] + tf.constant(np.asarray(offsets_s, np.float32))[None, :]
    return tf.repeat(at, num_users, axis=0)


def flat_keys(key: Any) -> Any:
    """Keys `[rows, users, 2]` as `[rows * users, 2]`."""
    return tf.reshape(key, [key.shape[0] * key.shape[1], 2])


def power_of(value: Any) -> Any:
    """|v|^2, float32."""
    return tf.math.real(value) ** 2 + tf.math.imag(value) ** 2


def arrive(launch: Any, symbols: Any, channel: Any) -> Any:
    """a g h x of every user `[rows, users, antennas, times, carriers]`.

    `symbols` `[rows, users, times, carriers]`, `channel` as the result with times or carriers possibly 1.
    """
    arrival = tf.cast(launch.amplitude * launch.gain, tf.complex64)[:, :, None, None, None]
    return (arrival * channel) * symbols[:, :, None]


def add_noise(faded: Any, noise: Any, noise_power: Any) -> Any:
    """Sum over users, plus noise `[rows, antennas, times, carriers]` of unit power times `noise_power`."""
    return tf.reduce_sum(faded, axis=1) + tf.cast(tf.sqrt(noise_power), tf.complex64) * noise


def mean_energy(value: Any, counted: Any) -> Any:
    """Energy over the channel uses marked in `counted` `[times, carriers]`, mean over antennas (axis -3)."""
    energy = tf.reduce_sum(power_of(value) * counted, axis=[-2, -1])
    return tf.reduce_mean(energy, axis=-1)
