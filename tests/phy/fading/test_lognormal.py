"""Log-normal shadowing: its moments, and error rates over a link of each engine beside the integral over decibels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command import write_scenario
from scipy import special

from phy.config import ChannelConfig
from phy.fading.laws.lognormal import LogNormal
from scenarios.engine.run import run_study
from scenarios.schema.loader import load_scenario
from scenarios.studies.link.level import theory
from scenarios.studies.link.results import LinkStore, read_results
from scenarios.studies.link.study import LinkStudy

STUDY = """\
name: lognormal
link:
  modulation: qpsk
  engine: {engine}
  channel: {{fading: {{name: lognormal, sigma_db: 4}}, coherence: symbol}}
  power: {{policy: fixed}}
  packet_size_bytes: 32
measure: {{over: ebno_db, values: [4], bits_per_batch: 65536, stop: {{bit_errors: 20000, max_bits: 1e7}}}}
"""


def integral(ebno_db: float, *, sigma_db: float) -> float:
    """BER of QPSK over log-normal shadowing, by Gauss-Hermite integration over the decibels."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    s = sigma_db * np.log(10.0) / 10.0
    power = np.exp(s * nodes - s**2 / 2.0)
    errors = special.ndtr(-np.sqrt(2.0 * 10.0 ** (ebno_db / 10.0) * power))
    return float((weights * errors).sum() / weights.sum())


@pytest.mark.parametrize("sigma_db", [1.0, 8.0, 20.0])
def test_the_power_gain_in_decibels_is_normal(sigma_db: float) -> None:
    tail, law = np.logspace(-20, np.log10(0.5), 50), LogNormal(sigma_db=sigma_db)
    middle = -(sigma_db**2) * np.log(10.0) / 20.0  # E|h|^2 = 1
    for upper, sign in ((False, 1.0), (True, -1.0)):
        decibels = 20.0 * np.log10(law.quantile(tail, upper=upper))
        np.testing.assert_allclose(decibels, middle + sign * sigma_db * special.ndtri(tail), rtol=1e-9, atol=1e-9)


def test_a_scenario_writes_the_word_or_the_spread_with_it() -> None:
    assert ChannelConfig(fading="lognormal").law == LogNormal(sigma_db=8.0)
    written = {"name": "lognormal", "sigma_db": 4.0}
    assert ChannelConfig.model_validate({"fading": written}).law == LogNormal(sigma_db=4.0)


@pytest.mark.parametrize("engine", ["fused", "sionna"])
def test_the_measured_rate_meets_the_integral_on_both_engines(engine: str, tmp_path: Path) -> None:
    study = LinkStudy(load_scenario(write_scenario(tmp_path, STUDY.format(engine=engine))))
    run_study(study, folder=tmp_path / "run")
    with LinkStore.open_existing(tmp_path / "run") as store:
        ((point,),) = read_results(store, study.plan)
    rate = point.rates()[0]
    assert rate.low <= integral(4.0, sigma_db=4.0) <= rate.high
    assert not rate.low <= integral(4.0, sigma_db=4.5) <= rate.high
    assert theory(study.plan.curves[0], "bit_error_rate", point.point.esno_db) == pytest.approx(
        integral(4.0, sigma_db=4.0), rel=1e-6
    )
