"""Packets lost under an error model beside packets lost on the radio, as a factor."""

from __future__ import annotations

import math

import pytest
from fake_runs import make_plan

from scenarios.report.lost_packets import Factor, packets_lost
from scenarios.report.tables.summaries import PointSummary, Rate

SNR, MODEL, POLICY = "link.power.snr_max_db", "link.error_model", "link.packets.policy"


def rate(errors: int, low: float, high: float, total: int = 1000) -> Rate:
    return Rate(errors=errors, total=total, low=low, high=high)


def pair(snr: float, given: Rate, measured: Rate, *, policy: str = "drop") -> tuple[PointSummary, PointSummary]:
    settings = [{SNR: snr, MODEL: model, POLICY: policy} for model in ("iid", "measured")]
    plan = make_plan(settings, trials=3, learning={"scheme": "digital-orthogonal"})
    first, second = (
        PointSummary(point=point, done=3, failed=0, rates={"packet_error_rate": one})
        for point, one in zip(plan.points, (given, measured), strict=True)
    )
    return first, second


def test_a_factor_is_the_ratio_of_rates_and_its_limits_are_those_of_the_intervals() -> None:
    factor = Factor.of(rate(490, 0.45, 0.53), rate(60, 0.05, 0.07))
    assert factor.value == pytest.approx(490 / 60)
    assert (factor.low, factor.high) == pytest.approx((0.45 / 0.07, 0.53 / 0.05))
    assert str(factor) == "8.17 times [6.43, 10.6]"
    assert Factor.of(rate(490, 0.45, 0.53), rate(1, 0.0, 0.01)).high == math.inf
    assert str(Factor(value=16_512.0, low=4432.0, high=141_200.0)) == "16,500 times [4,430, 141,000]"


def test_the_sentence_counts_settings_apart_and_names_the_factor_that_is_surely_the_largest() -> None:
    pairs = [
        pair(0.0, rate(490, 0.45, 0.53), rate(60, 0.05, 0.07)),
        pair(10.0, rate(60, 0.05, 0.07), rate(58, 0.048, 0.069)),
        # A larger ratio that may be as small as 2.
        pair(20.0, rate(20, 0.01, 0.03), rate(1, 0.0001, 0.005)),
    ]
    ((head, sentence),) = packets_lost(pairs, model="independent errors", paths=[SNR])
    assert head == "Packets lost with independent errors"
    assert sentence == (
        "another share than measured at 2 of 3 settings; the largest factor is 8.17 times [6.43, 10.6], "
        "0.490 [0.450, 0.530] where the radio lost 0.0600 [0.0500, 0.0700] (P₀/N₀ = 0 dB)."
    )


def test_packets_that_are_accepted_or_that_the_radio_never_lost_say_nothing() -> None:
    accepted = pair(0.0, rate(490, 0.45, 0.53), rate(60, 0.05, 0.07), policy="accept")
    none_lost = pair(0.0, rate(490, 0.45, 0.53), rate(0, 0.0, 0.003))
    assert list(packets_lost([accepted, none_lost], model="independent errors", paths=[SNR])) == []
