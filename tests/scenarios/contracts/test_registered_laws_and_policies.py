"""Every fading law and every power policy keeps its contract, and a broken one is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from phy.config.fading import FadingLaw, fading_laws
from phy.config.power import PowerPolicy, power_policies
from phy.fading.laws.nakagami import Nakagami
from phy.fading.quantile_table import quantile_table
from scenarios.contracts import radio


@pytest.mark.parametrize("check", radio.FADING, ids=lambda check: check.__name__)
@pytest.mark.parametrize("word", fading_laws.words())
def test_every_fading_law_keeps_the_contract(word: str, check: Callable[[FadingLaw], None]) -> None:
    check(fading_laws.read(word))


@pytest.mark.parametrize("check", radio.POLICY, ids=lambda check: check.__name__)
@pytest.mark.parametrize("word", power_policies.words())
def test_every_power_policy_keeps_the_contract(word: str, check: Callable[[PowerPolicy], None]) -> None:
    check(power_policies.read(word))


class Strong(Nakagami):
    """A law of mean power 1.21."""

    label: ClassVar[str] = "strong"

    def quantile(self, tail: Any, *, upper: bool) -> Any:
        """Too large amplitudes."""
        return 1.1 * super().quantile(tail, upper=upper)


class Upside(Nakagami):
    """A law whose halves are exchanged."""

    label: ClassVar[str] = "upside"

    def quantile(self, tail: Any, *, upper: bool) -> Any:
        """Exchange the tails."""
        return super().quantile(tail, upper=not upper)


class Short(Nakagami):
    """A law whose quantile function forgets most tails."""

    label: ClassVar[str] = "short"

    def quantile(self, tail: Any, *, upper: bool) -> Any:
        """Three amplitudes, whatever is asked."""
        return super().quantile(tail, upper=upper)[:3]


class Negative(PowerPolicy):
    """A policy of negative amplitudes."""

    name: str = "negative"

    def amplitude(self, gain: Any, mean_gain: Any, xp: Any) -> Any:
        """Return a negative amplitude, and another in TensorFlow."""
        return -xp.ones_like(mean_gain * gain) * (1.0 if xp is np else 2.0)


@pytest.mark.parametrize(
    ("law", "check"),
    [
        (Strong, radio.the_mean_power_is_one),
        (Upside, radio.the_quantile_function_rises),
        (Short, radio.the_quantile_function_rises),
    ],
)
def test_a_faulty_law_breaks_the_contract(law: type[Nakagami], check: Callable[[FadingLaw], None]) -> None:
    with pytest.raises(AssertionError):
        check(law())


@pytest.mark.parametrize("check", radio.POLICY, ids=lambda check: check.__name__)
def test_a_faulty_policy_breaks_the_contract(check: Callable[[PowerPolicy], None]) -> None:
    with pytest.raises(AssertionError):
        check(Negative())


def test_a_law_of_another_shape_makes_no_table() -> None:
    with pytest.raises(ValueError, match=r"quantile of short gives shape \(3,\) for tails of shape \(257,\)"):
        quantile_table(Short())
