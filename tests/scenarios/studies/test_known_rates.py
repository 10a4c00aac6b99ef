"""The known error rates of reference checks, compared with the formulas behind their tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from known_rates import (
    best_packet_error_rate,
    cancellation_rate,
    coded_snr,
    esno_with_interference_db,
    residual_packet_error_rate,
    union_bound,
)

from phy.measure.monte_carlo import ClusteredCounts
from scenarios.studies.link.plan import LinkCurve, LinkPoint, expand_link, packet_plan
from scenarios.studies.verify.cards import load_card
from scenarios.studies.verify.kinds.rates import ClosedForm, Rates, log_linear


class Falling(Rates):
    """A rate that falls by a factor of ten in 10 dB."""

    def rate(self, curve: LinkCurve, point: LinkPoint, shift_db: float) -> float:
        del curve, point
        return 0.01 * 10.0 ** (-shift_db / 10.0)


def falling(**tolerances: float) -> Falling:
    return Falling.model_validate({"kind": "rates", "points": [[0, 0.2], [1, 0.1]], **tolerances})


@pytest.fixture(scope="module")
def place() -> tuple[LinkCurve, LinkPoint]:
    (curve, *_) = expand_link(load_card("retransmission").loaded).curves
    return curve, curve.points[0]


def test_the_width_of_an_interval_is_the_shift_between_its_ends(place: tuple[LinkCurve, LinkPoint]) -> None:
    counts = ClusteredCounts.of(np.full(1000, 10), np.full(1000, 1000))
    check = falling().compare(*place, counts, resolves_db=1.0)
    assert falling().width_db(*place, counts) == pytest.approx(10.0 * np.log10(check.high / check.low), abs=2e-3)
    assert check.passed
    assert not falling().compare(*place, counts, resolves_db=0.1).enough


def test_tolerances_lie_on_their_own_side(place: tuple[LinkCurve, LinkPoint]) -> None:
    counts = ClusteredCounts.of(np.full(1000, 11), np.full(1000, 1000))  # 0.41 dB worse, interval 0.4 dB
    better = falling(better_db=0.5).compare(*place, counts, resolves_db=1.0)
    assert better.verdict == "FAIL: too high"
    assert falling(worse_db=0.5).compare(*place, counts, resolves_db=1.0).passed


def best_code(curve: LinkCurve, esno_db: float, _: Rates) -> float:
    plan, snr = packet_plan(curve.link), coded_snr(curve.link, esno_db)
    information_bits = 8 * curve.link.packet_size_bytes + plan.crc_bits
    return best_packet_error_rate(snr, coded_bits=plan.coded_bits, information_bits=information_bits)


CONAN = [36, 211, 1404, 11633, 77433, 502690, 3322763, 21292910]
"""Information bits on the paths of weight 10, 12, ... of the (171, 133) code."""

FORMULAS: dict[str, Callable[[LinkCurve, float, Rates], float]] = {
    **dict.fromkeys(("ldpc-1024-512", "ldpc-12288-6144", "ldpc-128-64", "polar-128-64"), best_code),
    "convolutional-union-bound": lambda curve, esno_db, _: union_bound(
        coded_snr(curve.link, esno_db), free_distance=10, bit_weights=CONAN
    ),
    "noma-cancellation": lambda curve, esno_db, known: cancellation_rate(curve.link, esno_db, device=known.device or 0),
    "retransmission": lambda curve, esno_db, _: residual_packet_error_rate(curve.link, esno_db),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_rates_of_a_table_are_those_of_its_formula(name: str) -> None:
    """Seven digits are written; between the points the logarithm is straight to a hundredth of a decibel."""
    card = load_card(name)
    tables = [one for one in card.config.expect if isinstance(one, Rates) and (one.of or one.where)]
    curves = expand_link(card.loaded).curves
    pairs = [(curve, one) for curve in curves for one in tables if one.is_about(curve)]
    assert len(pairs) == len(tables)
    for curve, known in pairs:
        over = curve.measure.over
        for value_db, rate in known.points:
            formula = FORMULAS[name](curve, curve.budget.esno_db(value_db, over), known)
            assert rate == pytest.approx(formula, rel=1e-6)
        between = FORMULAS[name](curve, curve.points[0].esno_db + 0.1, known)
        assert known.shift_db(curve, curve.points[0], between) == pytest.approx(0.1, abs=0.01)


def test_the_floor_is_that_of_the_interference_that_check_predicts() -> None:
    card = load_card("ofdm-short-prefix")
    (known,), (curve,) = card.config.expect, expand_link(card.loaded).curves
    assert isinstance(known, ClosedForm)
    found = [esno_with_interference_db(curve.link, point.esno_db) for point in curve.points]
    assert known.esno_db == pytest.approx(found, abs=1e-6)


def test_the_best_code_of_great_length_is_limited_by_capacity() -> None:
    """Rate 1/2 over BI-AWGN: Eb/N0 = 0.187 dB (Richardson and Urbanke, "Modern coding theory", 4.1)."""

    def rate(ebno_db: float) -> float:
        return best_packet_error_rate(10.0 ** (ebno_db / 10.0), coded_bits=1_000_000_000, information_bits=500_000_000)

    assert rate(0.18) > 0.999
    assert rate(0.194) < 0.001


def test_the_union_bound_starts_with_its_lightest_paths() -> None:
    from scipy import special

    expected = 36 * special.ndtr(-np.sqrt(10 * 4.0))
    assert union_bound(4.0, free_distance=10, bit_weights=[36]) == pytest.approx(expected)
    assert union_bound(4.0, free_distance=10, bit_weights=[36, 211]) == pytest.approx(expected, rel=0.1)
    assert union_bound(0.01, free_distance=10, bit_weights=[36, 211, 1404]) == 0.5


@pytest.mark.parametrize(("x", "y"), [(1.0, 0.1), (1.5, 10**-1.5), (2.0, 0.01), (2.5, 1e-3), (0.5, 10**-0.5)])
def test_published_points_are_joined_by_straight_lines_of_the_logarithm(x: float, y: float) -> None:
    assert log_linear(x, [(1.0, 0.1), (2.0, 0.01), (3.0, 1e-4)]) == pytest.approx(y)
