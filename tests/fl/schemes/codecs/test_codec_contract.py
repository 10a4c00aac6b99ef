"""What every codec must do, and what one-bit stochastic quantisation does beyond it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

from fl.algorithms.flmc.one_bit import StochasticOneBit
from fl.base.errors import LearningError
from fl.schemes.codecs import partwise
from fl.schemes.codecs.codec import Codec
from fl.schemes.codecs.partwise import Binary32, FixedPoint, Uniform
from phy.numerics.packing import pack, unpack
from phy.numerics.random import Purpose, round_keys, uniform_words

LIMITS = {
    StochasticOneBit(slope=0.05): math.inf,
    StochasticOneBit(slope=2.0): math.inf,
    Binary32(): math.inf,
    FixedPoint(fraction_bits=10, bound=16.0): 32.0,
    FixedPoint(fraction_bits=23, bound=0.125): 0.25,
    FixedPoint(fraction_bits=52, bound=16.0): 32.0,
    Uniform(bits=1, bound=30.0): 30.0,
    Uniform(bits=5, bound=0.7, stochastic=False): 0.7,
    Uniform(bits=8, bound=30.0): 30.0,
    Uniform(bits=16, bound=0.3): 0.3,
}
"""Every codec with the end of its range; a new codec joins here."""

CODECS = list(LIMITS)
ALL = tuple(range(13))


def keys(trials: tuple[int, ...] = ALL, *, round_index: int = 1) -> np.ndarray:
    return round_keys(7, trials, Purpose.LOCAL_TRAINING, round_index)


def values(num_devices: int = 3, m: int = 11) -> np.ndarray:
    return np.random.default_rng(5).normal(scale=20.0, size=(len(ALL), num_devices, m))


def surely_encoded(codec: Codec, decoded: np.ndarray) -> np.ndarray:
    """Values that become the bits from which `decoded` came, whatever is drawn."""
    return 1e6 * decoded if isinstance(codec, StochasticOneBit) else decoded


@pytest.mark.parametrize("codec", CODECS, ids=str)
class TestAnyCodec:
    """The contract of the seam; a new codec joins `LIMITS`."""

    def test_bits_are_packed_and_padded_with_zeros(self, codec: Codec) -> None:
        payload = codec.encode(values(), keys=keys()).payload
        assert payload.dtype == np.uint8
        assert payload.shape == (len(ALL), 3, -(-11 * codec.bits_per_value // 8))
        used = np.unpackbits(payload, axis=-1)[..., 11 * codec.bits_per_value :]
        assert not used.any()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_decoding_gives_back_the_shape(self, codec: Codec, dtype: type) -> None:
        decoded = codec.decode(codec.encode(values().astype(dtype), keys=keys()).payload, num_values=11)
        assert decoded.shape == (len(ALL), 3, 11)
        wide = isinstance(codec, StochasticOneBit) or codec.bits_per_value == 52
        assert decoded.dtype == (np.float64 if wide else np.float32)

    def test_any_bits_decode_to_values_with_those_bits(self, codec: Codec) -> None:
        # Odd numbers of values, so that payloads end inside a byte; every code of up to 10 bits is there.
        for num_values in (1, 3, 701):
            num_bits = num_values * codec.bits_per_value
            bits = np.random.default_rng(3).integers(0, 2, size=(len(ALL), 2, num_bits), dtype=np.uint8)
            if isinstance(codec, Binary32):
                bits[..., 1::32] = 0  # no exponents of infinity and NaN, which no value may have
            payload = np.packbits(bits, axis=-1)
            decoded = codec.decode(payload, num_values=num_values)
            again = codec.encode(surely_encoded(codec, decoded), keys=keys())
            np.testing.assert_array_equal(again.payload, payload)
            assert not again.clipped.any()

    def test_the_first_bit_of_a_value_carries_the_most(self, codec: Codec) -> None:
        # One device with a single bit set at either end of the first value, against one without.
        payload = np.zeros((1, 3, -(-2 * codec.bits_per_value // 8)), np.uint8)
        last = codec.bits_per_value - 1
        payload[0, 1, 0] = 0x80
        payload[0, 2, last // 8] |= 0x80 >> last % 8
        decoded = codec.decode(payload, num_values=2)[0]
        assert np.all(decoded[1:, 1] == decoded[0, 1])
        if not isinstance(codec, Binary32):
            first, least = np.abs(decoded[1:, 0] - decoded[0, 0])
            # The least step of 16 bits is itself rounded to float32, by 2^-8 of it at the ends.
            assert first == pytest.approx(least * 2.0**last, rel=2.0**-8)

    def test_the_same_keys_give_the_same_bits(self, codec: Codec) -> None:
        np.testing.assert_array_equal(
            codec.encode(values(), keys=keys()).payload, codec.encode(values(), keys=keys()).payload
        )

    def test_bits_do_not_depend_on_how_many_values_are_encoded_at_once(
        self, codec: Codec, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        some = values(m=300)
        whole = codec.encode(some, keys=keys())
        decoded = codec.decode(whole.payload, num_values=300)
        monkeypatch.setattr(partwise, "_VALUES_AT_ONCE", 128 * 3 * len(ALL))
        pieces = codec.encode(some, keys=keys())
        np.testing.assert_array_equal(pieces.payload, whole.payload)
        np.testing.assert_array_equal(pieces.clipped, whole.clipped)
        np.testing.assert_array_equal(codec.decode(whole.payload, num_values=300), decoded)

    @pytest.mark.parametrize("cut", [1, 5, 12])
    def test_a_trial_has_the_bits_that_it_has_alone(self, codec: Codec, cut: int) -> None:
        whole = codec.encode(values(), keys=keys())
        first = codec.encode(values()[:cut], keys=keys(ALL[:cut]))
        last = codec.encode(values()[cut:], keys=keys(ALL[cut:]))
        np.testing.assert_array_equal(np.concatenate([first.payload, last.payload]), whole.payload)
        np.testing.assert_array_equal(np.concatenate([first.clipped, last.clipped]), whole.clipped)

    def test_values_beyond_the_range_are_clipped_and_counted_per_device(self, codec: Codec) -> None:
        limit = LIMITS[codec]
        if limit == math.inf:
            assert not codec.encode(1e30 * values(), keys=keys()).clipped.any()
            return
        some = 0.999 * limit * np.random.default_rng(1).uniform(-1, 1, (len(ALL), 3, 50))
        some[2, 1, :7] = 1.01 * limit
        some[3, 2, 10] = -1e30
        expected = np.zeros((len(ALL), 3))
        expected[2, 1], expected[3, 2] = 7, 1
        encoded = codec.encode(some, keys=keys())
        np.testing.assert_array_equal(encoded.clipped, expected)
        decoded = codec.decode(encoded.payload, num_values=50)
        step = 0.0 if isinstance(codec, Uniform) else codec.step
        np.testing.assert_allclose(decoded[2, 1, :7], limit - step, rtol=1e-6)
        np.testing.assert_allclose(decoded[3, 2, 10], -limit, rtol=1e-6)

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_nan_and_infinity_are_refused_by_the_name_of_the_device(self, codec: Codec, bad: float) -> None:
        some = values(m=200)
        some[4, 2, 150] = bad
        with pytest.raises(LearningError, match=r"entry 150 of device 2 .*row 4"):
            codec.encode(some, keys=keys())


@pytest.mark.parametrize("codec", [c for c in CODECS if isinstance(c, StochasticOneBit)], ids=str)
class TestOneBit:
    def test_other_rounds_trials_and_devices_give_other_bits(self, codec: StochasticOneBit) -> None:
        zeros = np.zeros((len(ALL), 3, 64))
        bits = codec.encode(zeros, keys=keys()).payload
        assert (bits != codec.encode(zeros, keys=keys(round_index=2)).payload).any(axis=(1, 2)).all()
        rows = bits.reshape(-1, 8)
        # 39 draws of 64 fair bits: two are alike once in 2e16.
        assert len({row.tobytes() for row in rows}) == len(rows)

    def test_bits_are_those_of_the_words_of_the_stream(self, codec: StochasticOneBit) -> None:
        some = values(m=2001)
        words = uniform_words(keys(), num_devices=3, num_words=2001)
        minus = words >= expit(codec.slope * some) * 2.0**32
        np.testing.assert_array_equal(codec.encode(some, keys=keys()).payload, np.packbits(minus, axis=-1))

    @pytest.mark.parametrize("value", [-90.0, -3.0, 0.0, 1.0, 30.0])
    def test_the_mean_is_a_function_of_the_value_that_is_odd_and_grows(
        self, codec: StochasticOneBit, value: float
    ) -> None:
        def mean(at: float) -> float:
            one = np.full((len(ALL), 20, 400), at)
            return float(codec.decode(codec.encode(one, keys=keys()).payload, num_values=400).mean())

        error = 4 * np.sqrt(2.0 / (len(ALL) * 20 * 400))
        assert mean(value) == pytest.approx(-mean(-value), abs=error)
        assert mean(value + 10.0) >= mean(value) - error


@pytest.mark.parametrize("bits", [1, 3, 8, 16])
def test_stochastic_rounding_is_unbiased_and_has_the_variance_of_two_levels(bits: int) -> None:
    codec = Uniform(bits=bits, bound=1.5)
    distance = 3.0 / (2**bits - 1)
    for share in (0.0, 0.03, 0.5, 0.8):
        value = np.float32(-1.5 + distance * (2 ** (bits - 1) - 1 + share))
        payload = codec.encode(np.full((len(ALL), 20, 400), value), keys=keys()).payload
        decoded = codec.decode(payload, num_values=400).astype(np.float64)
        assert len(np.unique(decoded)) == (1 if share == 0.0 else 2)
        # The share that float32 values leave, which differs at 16 bits.
        below, above = decoded.min(), decoded.max()
        variance = (value - below) * (above - value)
        n = decoded.size
        assert decoded.mean() == pytest.approx(value, abs=4 * np.sqrt(variance / n) + 1e-9)
        if share:
            assert above - below == pytest.approx(distance, rel=0.01)
            spread = np.sqrt(((decoded - value) ** 4).mean() / n)
            assert decoded.var() == pytest.approx(variance, abs=4 * spread + 1e-12)


def test_stochastic_rounding_differs_between_rounds_trials_devices_and_positions() -> None:
    codec = Uniform(bits=1, bound=1.0)
    first, second = (codec.encode(np.zeros((len(ALL), 3, 64)), keys=keys(round_index=i)).payload for i in (1, 2))
    rows = np.concatenate([first, second]).reshape(-1, 8)
    # 78 draws of 64 fair bits: two are alike once in 6e15.
    assert len({row.tobytes() for row in rows}) == len(rows)
    signs = codec.decode(codec.encode(np.zeros((len(ALL), 2000, 5)), keys=keys()).payload, num_values=5)
    correlation = np.corrcoef(signs.reshape(-1, 5).T) - np.eye(5)
    assert np.abs(correlation).max() < 4 / np.sqrt(len(ALL) * 2000)


def test_rounding_to_the_nearest_level_errs_by_half_a_distance_at_most() -> None:
    codec = Uniform(bits=3, bound=1.0, stochastic=False)
    sweep = np.linspace(-1.0, 1.0, 5001)[None, None]
    decoded = codec.decode(codec.encode(sweep, keys=keys((0,))).payload, num_values=5001)
    assert np.abs(decoded - sweep).max() == pytest.approx(1 / 7, rel=1e-3)
    np.testing.assert_allclose(np.unique(decoded), np.linspace(-1.0, 1.0, 8), rtol=1e-6)


def test_binary32_keeps_every_kind_of_number_and_shows_a_wrong_exponent_bit() -> None:
    kinds = np.array([0.0, -0.0, 1.0, -1.5, 1e-45, -3.4028235e38, 2.0**-126, np.pi], np.float32)[None, None]
    payload = Binary32().encode(kinds, keys=keys((0,))).payload
    decoded = Binary32().decode(payload, num_values=8)
    np.testing.assert_array_equal(decoded.view(np.uint32), kinds.view(np.uint32))
    payload[0, 0, 8] ^= 0x40  # the first exponent bit of 1.0
    assert Binary32().decode(payload, num_values=8)[0, 0, 2] == np.inf


def test_numbers_too_large_for_binary32_are_clipped_and_counted() -> None:
    encoded = Binary32().encode(np.array([[[1e300, -1e39, 1.0]]]), keys=keys((0,)))
    assert encoded.clipped.tolist() == [[2]]
    largest = np.finfo(np.float32).max
    np.testing.assert_array_equal(Binary32().decode(encoded.payload, num_values=3), [[[largest, -largest, 1.0]]])


@pytest.mark.parametrize("bits", [*range(1, 18), 23, 24, 31, 32, 33, 48, 52])
@pytest.mark.parametrize("num_values", [1, 7, 64, 129])
def test_packing_puts_the_bits_of_each_code_one_after_the_other(bits: int, num_values: int) -> None:
    dtype = np.uint32 if bits <= 32 else np.uint64
    codes = np.random.default_rng(bits).integers(0, 2**bits, size=(2, 3, num_values), dtype=dtype)
    digits = "".join(f"{code:0{bits}b}" for code in codes[1, 2].tolist())
    packed = pack(codes, bits=bits)
    np.testing.assert_array_equal(packed[1, 2], np.packbits([int(digit) for digit in digits]))
    np.testing.assert_array_equal(unpack(packed, bits=bits, num_values=num_values), codes)


@pytest.mark.parametrize("slope", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("gradient", [-30.0, -7.0, 0.0, 2.0, 30.0])
def test_a_one_bit_gradient_has_mean_tanh_of_half_a_g(slope: float, gradient: float) -> None:
    codec = StochasticOneBit(slope=slope)
    # 13 trials x 20 devices x 401 values, an odd number so that padding is in play.
    payload = codec.encode(np.full((len(ALL), 20, 401), gradient), keys=keys()).payload
    signs = codec.decode(payload, num_values=401)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    mean = np.tanh(slope * gradient / 2.0)
    assert signs.mean() == pytest.approx(mean, abs=4 * np.sqrt((1 - mean**2) / signs.size))


def test_a_tanh_of_a_g_is_caught() -> None:
    # The negative control: twice the slope moves the mean by far more than the tolerance.
    signs = StochasticOneBit(slope=0.1).decode(
        StochasticOneBit(slope=0.1).encode(np.full((len(ALL), 20, 401), 7.0), keys=keys()).payload, num_values=401
    )
    assert abs(signs.mean() - np.tanh(0.05 * 7.0 / 2.0)) > 4 / np.sqrt(signs.size)


def test_bit_zero_stands_for_plus_one_and_padding_is_zero() -> None:
    codec = StochasticOneBit(slope=1.0)
    sure = 1e4 * np.array([[[1.0, -1.0, -1.0, 1.0, 1.0]]])
    payload = codec.encode(sure, keys=keys((0,))).payload
    np.testing.assert_array_equal(payload, [[[0b01100000]]])
    np.testing.assert_array_equal(codec.decode(payload, num_values=5), np.sign(sure))


def test_entries_are_quantised_independently() -> None:
    signs = StochasticOneBit(slope=0.05).decode(
        StochasticOneBit(slope=0.05).encode(np.zeros((len(ALL), 2000, 5)), keys=keys()).payload, num_values=5
    )
    correlation = np.corrcoef(signs.reshape(-1, 5).T) - np.eye(5)
    assert np.abs(correlation).max() < 4 / np.sqrt(len(ALL) * 2000)
