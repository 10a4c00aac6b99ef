"""The fading law of uniform error rates: its mean power, and the rates that devices measure in every round."""

from __future__ import annotations

import numpy as np
import pytest
from radio import context, link_config
from scipy import integrate, stats

from phy.compile import compile_digital
from phy.fading.laws.uniform_errors import UniformErrors


@pytest.mark.parametrize("max_error_rate", [0.005, 0.02, 0.4])
def test_the_closed_mean_of_the_power_is_its_integral(max_error_rate: float) -> None:
    found, _ = integrate.quad(lambda p: stats.norm.isf(p) ** 2 / max_error_rate, 0.0, max_error_rate, epsabs=1e-10)
    assert UniformErrors(max_error_rate=max_error_rate).mean_esno == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("max_error_rate", [0.005, 0.02])
def test_error_rates_of_devices_and_rounds_are_uniform(max_error_rate: float) -> None:
    law = UniformErrors(max_error_rate=max_error_rate)
    snr_max_db = 10.0 * np.log10(2.0 * law.mean_esno)
    config = link_config("qpsk", fading=law.model_dump(), snr_max_db=snr_max_db, coherence="round")
    uplink = compile_digital(config, num_devices=20, num_bits=8)
    rates = [uplink.probe(1 << 17, context=context(5, round_index=i), caps={}).bit_error_rate for i in range(4)]
    # Counting 131072 bits moves a rate by at most sqrt(p / n) = 0.02 p_max; 400 rates: 1e-4 is a rare chance.
    assert stats.kstest(np.ravel(rates) / max_error_rate, "uniform").pvalue > 1e-4
    assert (np.ptp(rates, axis=0) > 0.0).all()  # a new rate in every round
