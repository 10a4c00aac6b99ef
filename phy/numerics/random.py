"""Counter-based random numbers: the same values for any batch, chunk, order or thread count.

Every number is a pure function of (scenario seed, trial, purpose, round, device, position). The first
three pass through `numpy.random.SeedSequence` into a 64-bit key; round and device are folded into that
key, and the position is the counter of Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3", SC'11; the generator of JAX). TensorFlow's own stateless operations take
one key for a whole tensor, so a trial's numbers would depend on which trials share its batch; and
written as plain arithmetic and compiled, Threefry is about four times faster on a CPU than TensorFlow's own
drawing, in graph mode or under XLA (`benchmarks/random_numbers.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.numerics.lazy_tensorflow import tf

RECEIVER = 0xFFFFFFFF
"""Device number of the server."""

ANTENNA_BITS = 26
"""Antenna n of device k draws as device k + n 2^26: 64 antennas of 67 million devices, all below `RECEIVER`."""

_ROUNDS_AT_ONCE = 32
_KEYS_AT_ONCE = 1 << 15

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_MANY_TRIALS = 32
"""For fewer keys, loading a kernel takes longer than drawing them."""


class Purpose(IntEnum):
    """Separate streams: one more draw for one purpose never shifts the numbers of another.

    The values are part of every result's identity: append, never renumber.
    """

    DATA = 0
    PARTITION = 1
    INITIAL_MODEL = 2
    LOCAL_TRAINING = 3
    CHANNEL = 4
    NOISE = 5
    PRIVACY = 6
    CODEBOOK = 7
    CSI = 8
    PROBE_BITS = 9
    PROBE_NOISE = 10
    BIT_FLIPS = 11
    LANGEVIN_NOISE = 12
    POSTERIOR = 13
    SCRAMBLING = 14
    IMPAIRMENTS = 15
    POSITIONS = 16
    ATTEMPT = 17
    INTERLEAVING = 18
    PILOT_NOISE = 19
    FILLER = 20
    PARTICIPATION = 21
    CIPHER = 22
    DROPOUT = 23
    ROUNDING = 24
    BIT_DISTANCE = 25
    ATTACK = 26
    COMPUTE = 27


class TrialNumbers(tuple[int, ...]):
    """Trial numbers with a cached hash: hashing a thousand of them takes longer than drawing their keys."""

    _hashed: int

    def __hash__(self) -> int:
        try:
            return self._hashed
        except AttributeError:
            self._hashed = super().__hash__()
            return self._hashed


def seed_sequence(seed: int, trial: int, purpose: Purpose) -> np.random.SeedSequence:
    """The root of one stream of one trial."""
    return np.random.SeedSequence(entropy=seed, spawn_key=(trial, int(purpose)))


def generator(seed: int, trial: int, purpose: Purpose) -> np.random.Generator:
    """A NumPy generator for work that is done once per trial on the host (data, partition)."""
    return np.random.Generator(np.random.Philox(seed_sequence(seed, trial, purpose)))


@lru_cache(maxsize=64)
def trial_keys(seed: int, trials: tuple[int, ...], purpose: Purpose) -> NDArray[np.uint32]:
    """Return the key of each trial for one purpose, `[num_trials, 2]` uint32, read-only."""
    keys = np.empty((len(trials), 2), np.uint32)
    for row, trial in enumerate(trials):
        keys[row] = seed_sequence(seed, trial, purpose).generate_state(2, np.uint32)
    keys.setflags(write=False)
    return keys


def threefry(key: tuple[Any, Any], counter: tuple[Any, Any], ops: Any = np) -> tuple[Any, Any]:
    """Threefry-2x32-20 on uint32 arrays that broadcast against each other.

    Two key words and two counter words in, two random words out. `ops` is the namespace of the
    bitwise functions: `numpy` for arrays, `tf.bitwise` for tensors.
    """
    schedule = (key[0], key[1], ops.bitwise_xor(ops.bitwise_xor(key[0], key[1]), _PARITY))
    x0, x1 = counter[0] + schedule[0], counter[1] + schedule[1]
    for group in range(5):
        for bits in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ops.bitwise_or(ops.left_shift(x1, np.uint32(bits)), ops.right_shift(x1, np.uint32(32 - bits)))
            x1 = ops.bitwise_xor(x1, x0)
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def round_keys(seed: int, trials: Sequence[int], purpose: Purpose, round_index: int) -> NDArray[np.uint32]:
    """Key of each trial for one purpose in one round, `[num_trials, 2]` uint32, read-only.

    The counter that goes with it is (position, device): `words(keys, position, device)`.
    """
    numbers = trials if isinstance(trials, tuple) else tuple(trials)  # keep a `TrialNumbers` with its cached hash
    count = max(min(_ROUNDS_AT_ONCE, _KEYS_AT_ONCE // max(len(numbers), 1)), 1)
    place = round_index % count
    keys: NDArray[np.uint32] = _keys_of_rounds(seed, numbers, purpose, round_index - place, count)[place]
    return keys


@lru_cache(maxsize=32)
def _keys_of_rounds(seed: int, trials: tuple[int, ...], purpose: Purpose, first: int, count: int) -> NDArray[np.uint32]:
    """Keys of `count` rounds, `[count, num_trials, 2]`; one call costs about as much for many rounds as for one."""
    key = trial_keys(seed, trials, purpose)
    if len(key) >= _MANY_TRIALS:
        # Imported here, because numba takes a while to import.
        from phy.numerics.threefry import keys_of_rounds

        found = keys_of_rounds(key, first=first, count=count)
        found.setflags(write=False)
        return found
    counter = np.arange(first, first + count).astype(np.uint32)[:, None]
    found = np.stack(threefry((key[:, 0], key[:, 1]), (counter, np.zeros_like(counter))), axis=2)
    found.setflags(write=False)
    return found


def complex_normal(words: tuple[Any, Any]) -> Any:
    """CN(0, 1) from two uint32 words by Box-Muller, complex64 of the same shape.

    The radius sqrt(-ln u) uses u = (w + 1/2) 2^-32, which reaches 6.7 standard deviations per real
    dimension (a tail of 2e-11); sine and cosine are Taylor polynomials on a quarter turn (error below
    2e-7), because XLA on a CPU calls the scalar library function for each element otherwise.
    """
    uniform = (tf.cast(words[0], tf.float32) + 0.5) * tf.constant(2.0**-32, tf.float32)
    radius = tf.sqrt(tf.maximum(-tf.math.log(uniform), 0.0))
    cosine, sine = cosine_and_sine(uniform_turns(words[1]))
    return tf.complex(radius * cosine, radius * sine)


def uniform_turns(word: Any) -> Any:
    """Uniform on [-1/2, 1/2), float32, from uint32 words (TensorFlow)."""
    return tf.cast(tf.bitcast(word, tf.int32), tf.float32) * tf.constant(2.0**-32, tf.float32)


def phasor(turns: Any) -> Any:
    """exp(j 2 pi t) for t in [-1/2, 1/2] float32, complex64 of the same shape, error below 2e-7."""
    return tf.complex(*cosine_and_sine(turns))


def cosine_and_sine(turns: Any) -> tuple[Any, Any]:
    """cos(2 pi t) and sin(2 pi t) for t in [-1/2, 1/2], float32, error below 2e-7 (TensorFlow)."""
    distance = tf.abs(turns)
    sine = _sine_of_quarter_turns(0.25 - tf.abs(distance - 0.25))
    return _sine_of_quarter_turns(0.25 - distance), tf.where(turns < 0.0, -sine, sine)


def _sine_of_quarter_turns(turns: Any) -> Any:
    """sin(2 pi t) for t in [-1/4, 1/4]."""
    angle = turns * np.float32(2.0 * np.pi)
    square = angle * angle
    series = np.float32(1.0)
    for factor in (-110.0, -72.0, -42.0, -20.0, -6.0):
        series = 1.0 + square * series / np.float32(factor)
    return angle * series


def uniform_words(
    keys: NDArray[np.uint32], *, num_devices: int, num_words: int, first_pair: int = 0, first_device: int = 0
) -> NDArray[np.uint32]:
    """Uniform 32-bit words `[num_trials, num_devices, num_words]`, on the host.

    `keys` is `round_keys(...)`; the words are those of the stream from number `2 first_pair` on, of devices from
    `first_device` on.
    """
    from phy.numerics.random_kernels import fill_words

    words = np.empty((len(keys) * num_devices, (num_words + 1) // 2 * 2), np.uint32)
    devices = np.tile(np.arange(first_device, first_device + num_devices, dtype=np.uint32), len(keys))
    fill_words(np.repeat(keys, num_devices, axis=0), devices, first_pair=first_pair, words=words)
    return words.reshape(len(keys), num_devices, -1)[:, :, :num_words]


def random_bits(
    keys: NDArray[np.uint32], *, num_devices: int, num_bits: int, first_device: int = 0
) -> NDArray[np.uint8]:
    """Packed uniform bits `[num_trials, num_devices, ceil(num_bits / 8)]`, padding zero."""
    words = uniform_words(keys, num_devices=num_devices, num_words=-(-num_bits // 64) * 2, first_device=first_device)
    out = np.ascontiguousarray(words.view(np.uint8)[..., : -(-num_bits // 8)])
    if num_bits % 8:
        out[..., -1] &= np.uint8((0xFF << (8 - num_bits % 8)) & 0xFF)
    return out


def real_normals(keys: NDArray[np.uint32], *, num_values: int) -> NDArray[np.float64]:
    """N(0, 1) draws `[num_trials, num_values]` at the server, on the host; `keys` is `round_keys(...)`."""
    from phy.numerics.compiled import read_only
    from phy.numerics.random_kernels import fill_real_normals

    out = np.empty((len(keys), num_values), np.float32)
    fill_real_normals(read_only(keys), RECEIVER, out)
    return np.asarray(out * np.sqrt(2.0))


def stateless_uniform(seed: int, count: int, *, limit: float) -> NDArray[np.float32]:
    """Return `tf.random.stateless_uniform([count], [seed, 0], -limit, limit)`: Philox-4x32 with 10 rounds."""
    mix = _philox(np.array([[seed, 0, 0, 0]], np.uint64), (0x3EC8F720, 0x02461E29))[0]
    counter = np.zeros((-(-count // 4), 4), np.uint64)
    counter[:, 0], counter[:, 2:] = np.arange(len(counter)), mix[2:]
    words = _philox(counter, (int(mix[0]), int(mix[1]))).astype(np.uint32).ravel()[:count]
    unit = (words & np.uint32(0x7FFFFF) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1.0)
    low, high = np.float32(-limit), np.float32(limit)
    return unit * (high - low) + low


def _philox(counter: NDArray[np.uint64], key: tuple[int, int]) -> NDArray[np.uint64]:
    """Four words below 2^32 of each counter `[n, 4]` (Salmon et al., SC'11)."""
    low32, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b, c, d = counter.T
    for step in range(10):
        key_a, key_b = (key[0] + step * 0x9E3779B9) & 0xFFFFFFFF, (key[1] + step * 0xBB67AE85) & 0xFFFFFFFF
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (
            (second >> shift) ^ b ^ np.uint64(key_a),
            second & low32,
            (first >> shift) ^ d ^ np.uint64(key_b),
            first & low32,
        )
    return np.stack([a, b, c, d], axis=1)
