"""Error rates of runs over fades: an interval as wide as uploads differ holds the true rate, one over bits does not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from phy.config import LinkConfig
from phy.measure.monte_carlo import ClusteredCounts
from scenarios.report.tables.summaries import observed_rate, rate_interval

BITS, UPLOADS, RUNS = 2000, 100, 400
FADING = LinkConfig.model_validate({"access": "orthogonal", "modulation": "bpsk", "channel": {"fading": "rayleigh"}})
STILL = LinkConfig.model_validate({"access": "orthogonal", "modulation": "bpsk"})


def uploads(seed: int, *, snr: float = 10.0) -> tuple[np.ndarray, float]:
    """Wrong bits of uploads, each over one Rayleigh fade, and the true rate (1 - sqrt(g / (1 + g))) / 2."""
    drawn = np.random.default_rng(seed)
    wrong = norm.sf(np.sqrt(2.0 * snr * drawn.exponential(size=UPLOADS)))
    return drawn.binomial(BITS, wrong), 0.5 * (1.0 - np.sqrt(snr / (1.0 + snr)))


def test_an_interval_over_uploads_holds_the_true_rate_and_one_over_bits_does_not() -> None:
    """95 % are asked for; of 400 runs five standard errors are 0.055. Fades are skewed, which costs a few per cent."""
    held = {"uploads": 0, "bits": 0}
    for seed in range(RUNS):
        errors, true = uploads(seed)
        counts = ClusteredCounts.of(errors, np.full(UPLOADS, BITS))
        over_uploads = observed_rate("bit_error_rate", counts, link=FADING)
        over_bits = rate_interval(errors=int(errors.sum()), total=UPLOADS * BITS)
        held["uploads"] += over_uploads.low <= true <= over_uploads.high
        held["bits"] += over_bits.low <= true <= over_bits.high
    assert held["uploads"] / RUNS > 0.87
    assert held["bits"] / RUNS < 0.3


def test_without_fading_the_interval_is_that_of_independent_bits() -> None:
    errors = np.array([3, 0, 9, 1])
    counts = ClusteredCounts.of(errors, np.full(4, BITS))
    assert observed_rate("bit_error_rate", counts, link=STILL) == rate_interval(errors=13, total=4 * BITS)


def test_uploads_without_an_error_bound_the_rate_by_their_number_and_not_by_their_bits() -> None:
    """A share q of fades that make half of the bits wrong hides in n uploads with (1 - q)^n."""
    counts = ClusteredCounts.of(np.zeros(UPLOADS, np.int64), np.full(UPLOADS, BITS))
    found = observed_rate("bit_error_rate", counts, link=FADING)
    assert found.high == pytest.approx(0.5 * (1.0 - 0.05 ** (1.0 / UPLOADS)))
    assert observed_rate("packet_error_rate", counts, link=FADING).high == pytest.approx(2.0 * found.high)


def own_fades(**changes: object) -> LinkConfig:
    channel = {"fading": "rayleigh", "coherence": "packet"}
    given = {"access": "orthogonal", "modulation": "bpsk", "channel": channel, "packet_size_bytes": 25, **changes}
    return LinkConfig.model_validate(given)


def test_packets_with_fades_of_their_own_are_the_units_of_their_rate() -> None:
    wrong = np.random.default_rng(3).binomial(10, 0.05, UPLOADS)
    packets = ClusteredCounts.of(wrong, np.full(UPLOADS, 10))
    expected = rate_interval(errors=int(wrong.sum()), total=10 * UPLOADS)
    for link in (own_fades(), own_fades(coding={"code": "convolutional"}, channel={"model": "awgn"})):
        assert observed_rate("packet_error_rate", packets, link=link) == expected
    silent = ClusteredCounts.of(np.zeros(UPLOADS, np.int64), np.full(UPLOADS, BITS))
    bits = observed_rate("bit_error_rate", silent, link=own_fades())
    assert (1.0 - bits.high / 0.5) ** (UPLOADS * BITS // 200) == pytest.approx(0.05), "10 packets of 200 bits an upload"


@pytest.mark.parametrize(
    "changes",
    [
        {"channel": {"fading": "rayleigh", "coherence": "round"}},
        {"channel": {"fading": "rayleigh", "coherence": "packet", "cell": {}}},
        {"access": "noma"},
        {"power": {"policy": "closed-loop"}},
        {"error_model": "iid"},
    ],
)
def test_packets_that_share_a_draw_are_no_units(changes: dict[str, object]) -> None:
    wrong = np.repeat([0, 10], UPLOADS // 2)  # all packets of an upload, or none
    packets = ClusteredCounts.of(wrong, np.full(UPLOADS, 10))
    found, alone = (
        observed_rate("packet_error_rate", packets, link=own_fades(**changes)),
        rate_interval(errors=500, total=1000),
    )
    assert found.high - found.low > 2.5 * (alone.high - alone.low)


@pytest.mark.parametrize(
    ("changes", "lasts"),
    [
        ({}, False),
        ({"channel": {"fading": "rayleigh", "coherence": "round"}}, False),
        ({"channel": {"fading": "rayleigh", "coherence": "run"}}, True),
        ({"channel": {"fading": "constant", "coherence": "run"}}, False),
        ({"power": {"policy": "closed-loop"}}, True),
        ({"channel": {"cell": {}}}, True),
    ],
)
def test_a_channel_lasts_where_what_is_drawn_of_it_stays(changes: dict[str, object], lasts: bool) -> None:
    assert LinkConfig.model_validate({"access": "orthogonal", "modulation": "bpsk", **changes}).lasting is lasts
