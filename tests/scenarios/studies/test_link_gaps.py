"""How many dB lie between two curves of a link study, against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfc

from scenarios.studies.link.gaps import Crossing, compared_at, crossing, gap

Law = Callable[[Any], Any]
Rows = list[tuple[float, float | None, float, float]]


def tail(ebno_db: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Bit error rate of BPSK in white noise, Q(sqrt(2 Eb/N0))."""
    return np.asarray(0.5 * erfc(np.sqrt(10.0 ** (np.asarray(ebno_db) / 10.0))))


def packets(ebno_db: NDArray[np.float64] | float) -> NDArray[np.float64]:
    return 1.0 - (1.0 - tail(ebno_db)) ** 256


def rows(values: NDArray[np.float64], rates: NDArray[np.float64], *, wide: float = 1.1) -> Rows:
    return [(float(x), float(y), float(y / wide), float(y * wide)) for x, y in zip(values, rates, strict=True)]


@pytest.mark.parametrize("start", [0.0, 0.7, 1.4])
@pytest.mark.parametrize(("law", "target"), [(tail, 1e-3), (packets, 1e-2)])
def test_a_curve_meets_a_rate_where_its_closed_form_does(law: Law, target: float, start: float) -> None:
    values = np.arange(start, 12.0, 2.0)
    found = crossing(rows(values, law(values)), target=target)
    assert found is not None
    exact = brentq(lambda x: float(np.log(law(x) / target)), 0.0, 14.0)
    assert found.value_db == pytest.approx(exact, abs=0.02)  # cubics at steps of 2 dB; lines are off by 0.1


def test_the_interval_has_the_values_at_which_the_rate_lies_inside_that_of_the_error_rate() -> None:
    values = np.arange(0.0, 12.0, 1.0)
    found = crossing(rows(values, tail(values), wide=1.3), target=1e-3)
    assert found is not None
    for end, factor in ((found.low_db, 1.3), (found.high_db, 1 / 1.3)):
        # At the lower end the lower limit, the rate over 1.3, has fallen to the target.
        assert tail(end) == pytest.approx(1e-3 * factor, rel=0.01)


def test_a_rate_beyond_the_last_error_is_not_met() -> None:
    silent: Rows = [(0.0, 0.1, 0.09, 0.11), (2.0, 0.05, 0.04, 0.06), (4.0, None, 0.0, 1e-4)]
    assert crossing(silent, target=1e-2) is None
    assert crossing(silent, target=0.07) is not None


def test_a_lower_limit_of_zero_leaves_the_whole_step_to_the_interval() -> None:
    few: Rows = [(0.0, 0.1, 0.09, 0.11), (2.0, 0.02, 0.015, 0.03), (4.0, 1e-3, 0.0, 5e-3)]
    found = crossing(few, target=1e-2)
    assert found is not None
    assert found.low_db == 2.0
    assert 2.0 < found.value_db < found.high_db < 4.0


def test_an_upper_limit_above_the_rate_at_all_values_has_no_upper_end() -> None:
    found = crossing([(0.0, 0.1, 0.09, 0.11), (2.0, 0.005, 0.001, 0.02)], target=1e-2)
    assert found is not None
    assert found.high_db == inf


def test_the_gap_of_two_curves_has_the_interval_of_a_difference_of_independent_values() -> None:
    one = Crossing(value_db=10.0, low_db=9.7, high_db=10.4)
    other = Crossing(value_db=6.0, low_db=5.8, high_db=6.3)
    found = gap(one, other)
    assert found.value_db == pytest.approx(4.0)
    assert found.low_db == pytest.approx(4.0 - np.hypot(0.3, 0.3))
    assert found.high_db == pytest.approx(4.0 + np.hypot(0.4, 0.2))


def two_curves(last: float) -> dict[str, Rows]:
    """Return the curve of BPSK up to `last` dB, and one that is 2 dB behind."""
    values = np.arange(0.0, last + 0.1, 1.0)
    return {"first": rows(values, tail(values)), "second": rows(values, tail(values - 2.0))}


@pytest.mark.parametrize(("last", "rate"), [(10.0, "1e-3"), (8.0, "1e-2")])
def test_curves_are_compared_at_the_first_rate_that_two_meet(last: float, rate: str) -> None:
    """BPSK meets 1e-3 at 6.8 dB: the second curve does so at 8.8."""
    head, text = compared_at(two_curves(last), targets=(1e-3, 1e-2, 1e-1), axis="Eb/N0")
    assert head == rate
    assert text.startswith("first needs Eb/N0 = ")
    apart = float(text.partition("second ")[2].split()[0])
    assert apart == pytest.approx(2.0, abs=0.03)


def test_curves_that_meet_no_rate_say_so_and_one_curve_alone_says_nothing() -> None:
    head, text = compared_at(two_curves(1.0), targets=(1e-3, 1e-2), axis="Eb/N0")
    assert head == "1e-3 or 1e-2"
    assert text.endswith("needs more values of Eb/N0.")
    assert compared_at({"first": two_curves(1.0)["first"]}, targets=(1e-3,), axis="Eb/N0") == ("", "")
