"""What every codec must do, and what one-bit stochastic quantisation does beyond it."""

from __future__ import annotations

import numpy as np
import pytest

from fl.codecs import StochasticOneBit
from phy.random import Purpose, round_keys

CODECS = [StochasticOneBit(slope=0.05), StochasticOneBit(slope=2.0)]
ALL = tuple(range(13))


def keys(trials: tuple[int, ...] = ALL, *, round_index: int = 1) -> np.ndarray:
    return round_keys(7, trials, Purpose.LOCAL_TRAINING, round_index)


def values(num_devices: int = 3, m: int = 11) -> np.ndarray:
    return np.random.default_rng(5).normal(scale=20.0, size=(len(ALL), num_devices, m))


@pytest.mark.parametrize("codec", CODECS, ids=str)
class TestAnyCodec:
    """The contract of the seam; a new codec joins `CODECS`."""

    def test_bits_are_packed(self, codec: StochasticOneBit) -> None:
        payload = codec.encode(values(), keys=keys())
        assert payload.dtype == np.uint8
        assert payload.shape == (len(ALL), 3, 2)

    def test_decoding_gives_back_the_shape(self, codec: StochasticOneBit) -> None:
        decoded = codec.decode(codec.encode(values(), keys=keys()), num_values=11)
        assert decoded.shape == (len(ALL), 3, 11)
        assert decoded.dtype == np.float64

    def test_decoding_undoes_the_packing_and_no_more(self, codec: StochasticOneBit) -> None:
        # What was decoded, and is surely quantised to itself, survives another round trip.
        decoded = codec.decode(codec.encode(values(), keys=keys()), num_values=11)
        again = codec.decode(codec.encode(1e6 * decoded, keys=keys(round_index=2)), num_values=11)
        np.testing.assert_array_equal(decoded, again)

    def test_the_same_keys_give_the_same_bits(self, codec: StochasticOneBit) -> None:
        np.testing.assert_array_equal(codec.encode(values(), keys=keys()), codec.encode(values(), keys=keys()))

    def test_other_rounds_trials_and_devices_give_other_bits(self, codec: StochasticOneBit) -> None:
        zeros = np.zeros((len(ALL), 3, 64))
        bits = codec.encode(zeros, keys=keys())
        assert (bits != codec.encode(zeros, keys=keys(round_index=2))).any(axis=(1, 2)).all()
        rows = bits.reshape(-1, 8)
        # 39 draws of 64 fair bits: two are alike once in 2e16.
        assert len({row.tobytes() for row in rows}) == len(rows)

    @pytest.mark.parametrize("cut", [1, 5, 12])
    def test_a_trial_has_the_bits_that_it_has_alone(self, codec: StochasticOneBit, cut: int) -> None:
        whole = codec.encode(values(), keys=keys())
        parts = [
            codec.encode(values()[:cut], keys=keys(ALL[:cut])),
            codec.encode(values()[cut:], keys=keys(ALL[cut:])),
        ]
        np.testing.assert_array_equal(np.concatenate(parts), whole)

    @pytest.mark.parametrize("value", [-90.0, -3.0, 0.0, 1.0, 30.0])
    def test_the_mean_is_a_function_of_the_value_that_is_odd_and_grows(
        self, codec: StochasticOneBit, value: float
    ) -> None:
        def mean(at: float) -> float:
            one = np.full((len(ALL), 20, 400), at)
            return float(codec.decode(codec.encode(one, keys=keys()), num_values=400).mean())

        error = 4 * np.sqrt(2.0 / (len(ALL) * 20 * 400))
        assert mean(value) == pytest.approx(-mean(-value), abs=error)
        assert mean(value + 10.0) >= mean(value) - error


@pytest.mark.parametrize("slope", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("gradient", [-30.0, -7.0, 0.0, 2.0, 30.0])
def test_a_one_bit_gradient_has_mean_tanh_of_half_a_g(slope: float, gradient: float) -> None:
    codec = StochasticOneBit(slope=slope)
    # 13 trials x 20 devices x 401 values, an odd number so that padding is in play.
    payload = codec.encode(np.full((len(ALL), 20, 401), gradient), keys=keys())
    signs = codec.decode(payload, num_values=401)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    mean = np.tanh(slope * gradient / 2.0)
    assert signs.mean() == pytest.approx(mean, abs=4 * np.sqrt((1 - mean**2) / signs.size))


def test_a_tanh_of_a_g_is_caught() -> None:
    # The negative control: twice the slope moves the mean by far more than the tolerance.
    signs = StochasticOneBit(slope=0.1).decode(
        StochasticOneBit(slope=0.1).encode(np.full((len(ALL), 20, 401), 7.0), keys=keys()), num_values=401
    )
    assert abs(signs.mean() - np.tanh(0.05 * 7.0 / 2.0)) > 4 / np.sqrt(signs.size)


def test_bit_zero_stands_for_plus_one_and_padding_is_zero() -> None:
    codec = StochasticOneBit(slope=1.0)
    sure = 1e4 * np.array([[[1.0, -1.0, -1.0, 1.0, 1.0]]])
    payload = codec.encode(sure, keys=keys((0,)))
    np.testing.assert_array_equal(payload, [[[0b01100000]]])
    np.testing.assert_array_equal(codec.decode(payload, num_values=5), np.sign(sure))


def test_entries_are_quantised_independently() -> None:
    signs = StochasticOneBit(slope=0.05).decode(
        StochasticOneBit(slope=0.05).encode(np.zeros((len(ALL), 2000, 5)), keys=keys()), num_values=5
    )
    correlation = np.corrcoef(signs.reshape(-1, 5).T) - np.eye(5)
    assert np.abs(correlation).max() < 4 / np.sqrt(len(ALL) * 2000)
