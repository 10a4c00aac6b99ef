"""Fading laws: what each knows of itself, their tables, and their words in a scenario."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from scipy import stats

from phy.config import ChannelConfig
from phy.config.fading import FadingLaw, fading_laws
from phy.fading.laws.nakagami import Nakagami
from phy.fading.laws.rayleigh import Rayleigh
from phy.fading.quantile_table import quantile_table, table_taps
from phy.measure.theory import fading_bit_error_rate, rician_mgf

ESNO = 10.0 ** (np.array([-10.0, 0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]) / 10.0)
ENDS = np.unique(np.round(np.geomspace(1, 2.0**31 - 1, 4000))).astype(np.uint32)
WORDS = np.concatenate([np.zeros(1, np.uint32), ENDS, ~ENDS, ~np.zeros(1, np.uint32)])


class QuantileAlone(FadingLaw):
    """|h|^2 ~ Gamma(m, 1/m) by its quantile function and nothing else."""

    label: ClassVar[str] = "gamma fading"
    m: float

    def quantile(self, tail: NDArray[Any], *, upper: bool) -> NDArray[Any]:
        law = stats.gamma(self.m, scale=1.0 / self.m)
        return np.asarray(np.sqrt(law.isf(tail) if upper else law.ppf(tail)))


def of_words(law: FadingLaw, words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Amplitudes that engines draw for the words of a generator."""
    return np.abs(table_taps((words, np.zeros_like(words)), quantile_table(law)).numpy().astype(complex))


def of_law(law: FadingLaw, words: NDArray[np.uint32]) -> NDArray[np.float64]:
    """The same amplitudes without a table."""
    tail = (np.minimum(words, ~words).astype(float) + 0.5) * 2.0**-32
    return np.where(words < 1 << 31, law.quantile(tail, upper=False), law.quantile(tail, upper=True))


@pytest.mark.parametrize("m", [0.5, 0.75, 1.7, 20.0, 100.0])
def test_a_table_from_a_quantile_alone_is_as_good_as_one_with_slopes(m: float) -> None:
    law = QuantileAlone(m=m)
    # Interpolation 1.5e-7, float32 rounding of the coefficients and of the logarithm 1e-6 relative.
    np.testing.assert_allclose(of_words(law, WORDS), of_law(law, WORDS), rtol=3e-6)
    with_slopes = quantile_table(Nakagami(nakagami_m=m))
    assert np.abs(quantile_table(law) - with_slopes).max() < 3e-6 * with_slopes.max()


def test_a_table_with_a_wrong_slope_misses_the_quantiles() -> None:
    class Wrong(QuantileAlone):
        def slope(self, tail: NDArray[Any], *, upper: bool) -> NDArray[Any]:
            return 1.01 * super().slope(tail, upper=upper)

    law = Wrong(m=2.0)
    assert np.abs(of_words(law, WORDS) / of_law(law, WORDS) - 1.0).max() > 3e-5


def test_a_quantile_function_that_falls_is_refused() -> None:
    class Falling(QuantileAlone):
        def quantile(self, tail: NDArray[Any], *, upper: bool) -> NDArray[Any]:
            return super().quantile(tail, upper=not upper)

    with pytest.raises(ValueError, match="amplitudes from 0 that grow with u; its lower tail does not"):
        quantile_table(Falling(m=2.0))


@pytest.mark.parametrize("m", [0.5, 1.0, 3.0, 30.0])
def test_error_rates_integrated_over_quantiles_are_the_closed_form(m: float) -> None:
    for bits_per_symbol in (1, 4):
        exact = fading_bit_error_rate(ESNO, bits_per_symbol=bits_per_symbol, mgf=Nakagami(nakagami_m=m).mgf)
        found = fading_bit_error_rate(ESNO, bits_per_symbol=bits_per_symbol, mgf=QuantileAlone(m=m).mgf)
        # Beyond v = 45 lies 1e-20 of the law.
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-19)


@pytest.mark.parametrize("word", fading_laws.words())
def test_a_generating_function_starts_with_the_mass_and_the_mean_power(word: str) -> None:
    law = ChannelConfig(fading=word).law
    assert law.mgf(np.zeros(3)) == pytest.approx(np.ones(3), rel=1e-12)
    first, second = ((1.0 - law.mgf(np.array([x]))) / x for x in (1e-5, 2e-5))
    assert 2.0 * first - second == pytest.approx([1.0], abs=2e-5)  # E|h|^4, which some laws have large, cancels


def test_rayleigh_is_rician_without_a_fixed_path() -> None:
    assert np.array_equal(Rayleigh().mgf(ESNO), rician_mgf(ESNO, 0.0))


@pytest.mark.parametrize("word", fading_laws.words())
def test_a_channel_has_the_defaults_of_the_law(word: str) -> None:
    law = ChannelConfig(fading=word).law
    assert law == type(law)()
    assert law.label


@pytest.mark.parametrize("word", fading_laws.words())
def test_a_built_in_law_is_kept_and_written_as_its_word_or_with_its_own_parameters(word: str) -> None:
    dumped = ChannelConfig(fading=word, nakagami_m=3.0).model_dump(mode="json")
    own = fading_laws[word].model_fields.keys() - ChannelConfig.model_fields.keys() - {"name"}
    assert dumped["fading"] == (fading_laws.read(word).model_dump() if own else word)
    assert dumped["nakagami_m"] == 3.0
    assert ChannelConfig.model_validate(dumped).model_dump(mode="json") == dumped


def test_parameters_beside_the_word_are_those_of_the_law() -> None:
    assert ChannelConfig(fading="nakagami", nakagami_m=0.8).law == Nakagami(nakagami_m=0.8)
    written: Any = {"name": "nakagami", "nakagami_m": 0.8}
    with pytest.raises(ValidationError, match="takes nakagami_m from the section around it; write the bare word"):
        ChannelConfig(fading=written)


@pytest.mark.parametrize("wrong", ["raleigh", {"name": "raleigh"}, {"nakagami_m": 2.0}, 3, None])
def test_what_names_no_law_is_refused_with_the_words_of_all(wrong: Any) -> None:
    with pytest.raises(ValidationError) as error:
        ChannelConfig(fading=wrong)
    assert all(f"'{word}'" in str(error.value) for word in ("constant", "nakagami", "rayleigh", "rician"))


def test_a_law_registered_later_is_a_word_or_a_mapping_with_its_own_parameters() -> None:
    class Later(QuantileAlone):
        name: Literal["later"] = "later"
        m: float = 2.0

    with pytest.raises(ValidationError, match="later"):
        ChannelConfig(fading="later")
    fading_laws.register(Later)
    try:
        written: Any = {"name": "later", "m": 3.0}
        assert ChannelConfig(fading=written).law == Later(m=3.0)
        assert ChannelConfig(fading=written).model_dump(mode="json")["fading"] == {"name": "later", "m": 3.0}
        by_word, in_full = ChannelConfig(fading="later"), ChannelConfig(fading=Later())
        assert by_word == in_full
        assert hash(by_word) == hash(in_full)
        schema = str(TypeAdapter(ChannelConfig).json_schema())
        assert "'later'" in schema
        assert "'nakagami'" in schema
        with pytest.raises(ValidationError, match="gamma fading has no Doppler process here"):
            ChannelConfig(fading="later", coherence="doppler", speed_m_s=3.0)
    finally:
        fading_laws.forget(__name__)


def test_two_parameters_of_a_law_are_two_tables_and_one_code() -> None:
    tables = [quantile_table(Nakagami(nakagami_m=m)) for m in (2.0, 2.0, 2.5)]
    assert tables[0] is tables[1]
    assert not np.array_equal(tables[0], tables[2])


def test_the_mean_power_over_the_table_is_one() -> None:
    """Both halves of 2^16 regular words; the mean of |h|^2 over them is 1 up to the last steps of the upper tail."""
    words = np.arange(0, 1 << 32, 1 << 14, dtype=np.uint64).astype(np.uint32) + np.uint32(1 << 13)
    for law in (Nakagami(nakagami_m=0.7), QuantileAlone(m=4.0)):
        assert (of_words(law, words) ** 2).mean() == pytest.approx(1.0, abs=1e-4)
