"""Sionna's random blocks on our numbers: right in law, and one row never touches another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from phy.numerics.generator_override import CounterGenerator, override_generator


def keys(rows: int) -> NDArray[np.uint32]:
    return np.random.default_rng(5).integers(0, 1 << 32, (rows, 2), dtype=np.uint32)


@pytest.mark.parametrize(("verb", "law"), [("uniform", stats.uniform()), ("normal", stats.norm())])
def test_override_draws_have_the_requested_distribution(verb: str, law: Any) -> None:
    drawn = getattr(CounterGenerator(keys(100)), verb)([100, 200])
    # One such test in 10 000 fails for a correct program; the seed is fixed.
    assert stats.kstest(np.asarray(drawn).ravel(), law.cdf).pvalue > 1e-4


def test_two_draws_of_one_row_are_independent() -> None:
    lent = CounterGenerator(keys(1))
    first, second = np.asarray(lent.normal([1, 20_000]))[0], np.asarray(lent.normal([1, 20_000]))[0]
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(20_000)


def test_a_row_of_sionnas_tdl_does_not_depend_on_its_batch() -> None:
    import tensorflow as tf
    from sionna.phy.channel.tr38901 import TDL

    model = TDL("A", 100e-9, 3.5e9, min_speed=3.0, num_rx_ant=2)

    @tf.function(jit_compile=True)
    def draw(rows: Any) -> Any:
        with override_generator(rows):
            return model(rows.shape[0], 14, 1e4)[0]

    many, few = draw(tf.constant(keys(10))), draw(tf.constant(keys(10)[3:8]))
    assert np.array_equal(np.asarray(many)[3:8], np.asarray(few))
    # Unit mean power over 20 antennas: chi-square of 20 x 23 correlated taps stays within a factor.
    assert (np.abs(np.asarray(many)) ** 2).sum(axis=5).mean() == pytest.approx(1.0, abs=0.4)


def test_sionnas_own_generator_is_restored() -> None:
    from sionna.phy import config

    own = config.tf_rng
    with override_generator(keys(1)):
        assert config.tf_rng is not own
    assert config.tf_rng is own


def test_a_draw_without_a_row_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="has no row axis of 4"):
        CounterGenerator(keys(4)).uniform([3, 4])
