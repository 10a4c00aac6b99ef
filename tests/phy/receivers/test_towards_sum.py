"""Combiners towards a sum: what defines each, in NumPy and in TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from phy.config.access import Combining
from phy.receivers.towards_sum import towards_sum

NUMPY: dict[str, Any] = {"xp": np, "solve": np.linalg.solve}
TENSORFLOW: dict[str, Any] = {"xp": tf.experimental.numpy, "solve": tf.linalg.solve}
LEVEL = np.array([0.3, 0.01], np.float32)


def channels(num_antennas: int, num_devices: int) -> tuple[NDArray[np.complex64], NDArray[np.float32]]:
    """Two channels, device 1 off the air in the second of them."""
    rng = np.random.default_rng(num_antennas)
    parts = rng.standard_normal((2, 2, num_antennas, num_devices))
    gain = rng.uniform(0.5, 2.0, (2, num_devices)).astype(np.float32)
    gain[1, 1] = 0.0
    return ((parts[0] + 1j * parts[1]) * gain[:, None]).astype(np.complex64), gain


def found(combining: Combining, num_antennas: int, num_devices: int, order: Any = slice(None)) -> NDArray[np.complex64]:
    h, gain = channels(num_antennas, num_devices)
    return np.asarray(towards_sum(h[..., order], gain[:, order], combining=combining, level=LEVEL, **NUMPY))


@pytest.mark.parametrize(
    ("combining", "num_antennas", "num_devices"),
    [
        *[(name, antennas, 4) for name in ("mrc", "zf", "mmse", "blind") for antennas in (4, 6)],
        *[(name, 3, 5) for name in ("mrc", "mmse", "blind")],
    ],
)
def test_tensorflow_finds_the_same_combiner(combining: Combining, num_antennas: int, num_devices: int) -> None:
    """To float32 rounding, times the condition of a square channel."""
    h, gain = channels(num_antennas, num_devices)
    other = towards_sum(tf.constant(h), tf.constant(gain), combining=combining, level=tf.constant(LEVEL), **TENSORFLOW)
    np.testing.assert_allclose(np.asarray(other), found(combining, num_antennas, num_devices), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("combining", ["mrc", "zf", "mmse", "blind"])
def test_the_order_of_devices_changes_no_combiner(combining: Combining) -> None:
    np.testing.assert_allclose(
        found(combining, 6, 4, [2, 0, 3, 1]), found(combining, 6, 4), rtol=1e-5, atol=1e-6, err_msg=combining
    )


def test_zero_forcing_aligns_all_on_the_air_and_is_the_shortest_that_does() -> None:
    """All others that align differ by what is orthogonal to the channels, so that f is in their span."""
    h, _ = channels(6, 4)
    f = found("zf", 6, 4).astype(complex)
    reached = np.einsum("tn,tnk->tk", np.conj(f), h)
    np.testing.assert_allclose(reached, [[1, 1, 1, 1], [1, 0, 1, 1]], atol=1e-5)
    for one, channel in zip(f, h.astype(complex), strict=True):
        span = channel @ np.linalg.pinv(channel)
        np.testing.assert_allclose(span @ one, one, atol=1e-5)


@pytest.mark.parametrize(("num_antennas", "num_devices"), [(6, 4), (3, 5)])
def test_no_combiner_near_that_of_mmse_has_a_smaller_error(num_antennas: int, num_devices: int) -> None:
    """sum_k |f^H h_k - 1|^2 + l |f|^2 over devices on the air, of which the gradient vanishes."""
    h, gain = channels(num_antennas, num_devices)
    f = found("mmse", num_antennas, num_devices).astype(complex)

    def error(combiner: NDArray[np.complex128]) -> NDArray[np.float64]:
        reached = np.einsum("tn,tnk->tk", np.conj(combiner), h)
        wanted = np.where(gain > 0.0, 1.0, 0.0)
        return (np.abs(reached - wanted) ** 2).sum(axis=1) + LEVEL * (np.abs(combiner) ** 2).sum(axis=1)

    rng = np.random.default_rng(1)
    for _ in range(200):
        step = 1e-2 * (rng.standard_normal(f.shape) + 1j * rng.standard_normal(f.shape))
        assert (error(f + step) > error(f)).all()


def test_mrc_has_length_one_in_the_direction_of_the_sum() -> None:
    h, _ = channels(6, 4)
    f = found("mrc", 6, 4)
    np.testing.assert_allclose(np.linalg.norm(f, axis=1), 1.0, rtol=1e-6)
    reached = np.einsum("tn,tn->t", np.conj(f), h.sum(axis=2))
    np.testing.assert_allclose(reached, np.linalg.norm(h.sum(axis=2), axis=1), rtol=1e-5)


def test_blind_combining_is_the_sum_over_antennas_and_the_mean_power_on_the_air() -> None:
    h, gain = channels(6, 4)
    mean = np.array([np.mean(gain[0] ** 2), np.mean(gain[1][gain[1] > 0.0] ** 2)])
    np.testing.assert_allclose(found("blind", 6, 4), h.sum(axis=2) / (6.0 * mean[:, None]), rtol=1e-5)


@pytest.mark.parametrize("combining", ["mrc", "zf", "mmse", "blind"])
def test_nobody_on_the_air_gives_a_combiner_of_zero(combining: Combining) -> None:
    zeros = np.zeros((1, 3, 2), np.complex64), np.zeros((1, 2), np.float32)
    assert not towards_sum(*zeros, combining=combining, level=np.ones(1), **NUMPY).any()
