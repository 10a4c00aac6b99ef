"""Combining of antennas to one number per user and symbol: matched filters and their interference.

With y = sum_k h_k x_k + n over the antennas, n white of variance v, all that a receiver can use is

    z_k = h_k^H y / v    and    G_kj = h_k^H h_j / v

(Tse and Viswanath, "Fundamentals of wireless communication", 8.3). A linear MMSE filter against any set of other users
is Gaussian elimination of those users from (G + I | z): the pivot left for user k is 1 + SINR_k. Written out over
`[rows, num_symbols]` this is 10 to 40 times faster on a CPU than Sionna's `lmmse_equalizer` for 2 to 4 users, which
factorises a matrix per symbol; Sionna's is the oracle of the tests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from phy.receivers.demapping import SoftSymbols
from phy.stages import Observation

_ROUNDING = 2.0**-46
"""Received values are single precision, each rounded by up to 2^-24 of itself: noise at this much of their power, below
which no filter can look. It bounds the condition of the elimination to what double precision holds."""

_FAINTEST = np.float32(1e-30)


class Layers(NamedTuple):
    """Successive detection, users in the order in which they are detected (tensors).

    - `soft[k]`: user k behind its filter, users after k as noise, users before k still in it;
    - `leakage[k][i]` `[rows, num_symbols]` complex64, i < k: what a symbol of user i adds to `soft[k].matched`.
    """

    soft: tuple[SoftSymbols, ...]
    leakage: tuple[tuple[Any, ...], ...]


def noise_variance(observation: Observation, *, trusting: bool) -> Any:
    """Variance per antenna `[rows, num_symbols]` float32 of noise and, unless `trusting`, of what is not known of h.

    An estimation error of variance e acts like noise of variance e E|x|^2 = e; that of a silent user carries nothing.
    """
    noise = tf.maximum(observation.noise_power, _FAINTEST)
    if trusting:
        rows, num_symbols = observation.received.shape[0], observation.received.shape[-1]
        return tf.broadcast_to(noise, [rows, num_symbols])
    active = tf.reduce_any(tf.abs(observation.channel) > 0.0, axis=2)
    return noise + tf.reduce_sum(tf.where(active, observation.channel_error, 0.0), axis=1)


def combine_alone(observation: Observation, *, trusting: bool) -> SoftSymbols:
    """Maximum-ratio combining of a single user, `[rows, 1, num_symbols]`.

    The LMMSE filter against white noise differs from it by a real factor, which unbiasing takes out: both have the
    same x^, and the same SNR where `trusting` makes no difference, that is with perfect channel knowledge.
    """
    channel, received = observation.channel[:, 0], observation.received
    weight = tf.math.reciprocal(noise_variance(observation, trusting=trusting))
    matched = tf.reduce_sum(tf.math.conj(channel) * received, axis=1) * tf.cast(weight, tf.complex64)
    energy = tf.reduce_sum(tf.math.real(channel) ** 2 + tf.math.imag(channel) ** 2, axis=1)
    return SoftSymbols(matched[:, None], (energy * weight)[:, None])


def filter_together(observation: Observation) -> SoftSymbols:
    """Unbiased LMMSE filter of every user against all others, `[rows, users, num_symbols]`.

    With B = (G + I)^-1: SINR_k = 1 / B_kk - 1 and x^_k SINR_k = (B z)_k / B_kk (Kay, "Fundamentals of statistical
    signal processing", 12.5), B by Gauss-Jordan elimination.
    """
    matched, gram = _correlations(observation, trusting=False, precise=True)
    users = range(len(matched))
    table = [[*_plus_identity(gram, k), z] for k, z in enumerate(matched)]
    for p in users:
        # In place: the column of the pivot gives way to that of the inverse.
        pivot = _real_reciprocal(table[p][p])
        pivot_row = [pivot if j == p else value * pivot for j, value in enumerate(table[p])]
        table = [
            pivot_row
            if k == p
            else [-row[p] * pivot if j == p else a - row[p] * pivot_row[j] for j, a in enumerate(row)]
            for k, row in enumerate(table)
        ]
    own = [_real_reciprocal(table[k][k]) for k in users]
    filtered = tf.stack([table[k][-1] * own[k] for k in users], axis=1)
    sinr = tf.stack([tf.maximum(tf.math.real(value) - 1.0, 0.0) for value in own], axis=1)
    return SoftSymbols(tf.cast(filtered, tf.complex64), tf.cast(sinr, tf.float32))


def filter_in_turn(observation: Observation, *, equalizer: str) -> Layers:
    """Layers of successive detection in the order of the user axis.

    `zf`: user k by maximum-ratio combining, the power of users after k counted as noise; `lmmse`: the linear MMSE
    filter against users after k. On one antenna there is nothing to choose: both are the same.
    """
    if equalizer == "zf" or observation.received.shape[1] == 1:
        return _matched_layers(observation, trusting=equalizer == "zf")
    return _eliminated_layers(observation)


def _matched_layers(observation: Observation, *, trusting: bool) -> Layers:
    matched, gram = _correlations(observation, trusting=trusting, precise=False)
    soft, leakage = [], []
    for k, z in enumerate(matched):
        energy = tf.math.real(gram[k][k])
        later = [tf.math.real(g) ** 2 + tf.math.imag(g) ** 2 for g in gram[k][k + 1 :]]
        # Noise behind the matched filter has variance G_kk, a later user |G_kj|^2; signal has amplitude G_kk.
        share = tf.math.divide_no_nan(energy, tf.add_n([energy, *later]))
        scale = tf.cast(share, tf.complex64)
        soft.append(SoftSymbols(z * scale, energy * share))
        leakage.append(tuple(g * scale for g in gram[k][:k]))
    return Layers(tuple(soft), tuple(leakage))


def _eliminated_layers(observation: Observation) -> Layers:
    matched, gram = _correlations(observation, trusting=False, precise=True)
    table = [_plus_identity(gram, k) for k in range(len(gram))]
    for p in reversed(range(1, len(table))):
        pivot = _real_reciprocal(table[p][p])
        for k in range(p):
            ratio = table[k][p] * pivot
            table[k] = [a - ratio * b for a, b in zip(table[k][:p], table[p][:p], strict=True)]
            matched[k] = matched[k] - ratio * matched[p]
    soft, leakage = [], []
    for k, row in enumerate(table):
        sinr = tf.maximum(tf.math.real(row[k]) - 1.0, 0.0)
        soft.append(SoftSymbols(tf.cast(matched[k], tf.complex64), tf.cast(sinr, tf.float32)))
        leakage.append(tuple(tf.cast(g, tf.complex64) for g in row[:k]))
    return Layers(tuple(soft), tuple(leakage))


def _correlations(observation: Observation, *, trusting: bool, precise: bool) -> tuple[list[Any], list[list[Any]]]:
    """z_k and G_kj, each `[rows, num_symbols]` complex64, or complex128 where `precise`."""
    kind, real = (tf.complex128, tf.float64) if precise else (tf.complex64, tf.float32)
    channel, received = tf.cast(observation.channel, kind), tf.cast(observation.received, kind)
    noise = tf.cast(noise_variance(observation, trusting=trusting), real)
    users = range(channel.shape[1])
    upper = {
        (k, j): tf.reduce_sum(tf.math.conj(channel[:, k]) * channel[:, j], axis=1) for k in users for j in users[k:]
    }
    gram = [[upper[k, j] if j >= k else tf.math.conj(upper[j, k]) for j in users] for k in users]
    matched = [tf.reduce_sum(tf.math.conj(channel[:, k]) * received, axis=1) for k in users]
    if precise:
        noise = noise + _ROUNDING * tf.add_n([tf.math.real(gram[k][k]) for k in users])
    weight = tf.cast(tf.math.reciprocal(noise), kind)
    return [z * weight for z in matched], [[g * weight for g in row] for row in gram]


def _plus_identity(gram: list[list[Any]], k: int) -> list[Any]:
    """Row k of G + I."""
    return [g + tf.ones_like(g) if j == k else g for j, g in enumerate(gram[k])]


def _real_reciprocal(value: Any) -> Any:
    """1 / Re(value) as complex: pivots of a Hermitian matrix are real."""
    return tf.cast(tf.math.reciprocal(tf.math.real(value)), value.dtype)
