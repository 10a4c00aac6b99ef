"""The worked example of a fading law from outside the packages: `examples/kappa_mu_fading.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import write_scenario
from example import imported
from scipy import integrate, special

from phy.config import ChannelConfig
from phy.config.fading import FadingLaw
from phy.fading.laws.nakagami import Nakagami
from phy.fading.quantile_table import quantile_table, table_taps
from phy.measure.theory import rician_mgf
from scenarios.engine.run import run_study
from scenarios.schema.labels.labels import setting_label
from scenarios.schema.loader import load_scenario
from scenarios.studies.link.level import theory
from scenarios.studies.link.plan import LinkCurve, expand_link
from scenarios.studies.link.results import LinkStore, read_results
from scenarios.studies.link.study import LinkStudy

EXAMPLE = Path(__file__).parents[2] / "examples" / "kappa_mu_fading.py"
KAPPA, MU = 1.5, 2.0
X = np.geomspace(1e-3, 1e6, 19)

STUDY = """\
name: kappa-mu
link:
  modulation: qpsk
  engine: {engine}
  channel: {{fading: {{name: kappa-mu, kappa: 1.5, mu: 2}}, coherence: symbol}}
  power: {{policy: fixed}}
  packet_size_bytes: 32
measure:
  over: ebno_db
  values: [0, 6]
  bits_per_batch: 65536
  stop: {{bit_errors: 20000, max_bits: 1e7}}
"""


@pytest.fixture(scope="module", autouse=True)
def example() -> Iterator[Any]:
    with imported(EXAMPLE) as module:
        yield module


def law(kappa: float = KAPPA, mu: float = MU) -> FadingLaw:
    written: Any = {"name": "kappa-mu", "kappa": kappa, "mu": mu}
    return ChannelConfig(fading=written).law


def density(power: float) -> float:
    """Density of |h|^2, Yacoub 2007 (2), by the Bessel function."""
    argument = 2.0 * MU * np.sqrt(KAPPA * (1.0 + KAPPA) * power)
    scale = MU * (1.0 + KAPPA) ** ((MU + 1.0) / 2.0) / (KAPPA ** ((MU - 1.0) / 2.0) * np.exp(MU * KAPPA))
    decay = np.exp(argument - MU * (1.0 + KAPPA) * power)
    return float(scale * power ** ((MU - 1.0) / 2.0) * decay * special.ive(MU - 1.0, argument))


def bit_errors(ebno_db: float) -> float:
    """BER of QPSK averaged over the density."""
    ebno = 10.0 ** (ebno_db / 10.0)
    return float(integrate.quad(lambda g: special.ndtr(-np.sqrt(2.0 * ebno * g)) * density(g), 0.0, 30.0)[0])


def test_one_cluster_is_rician_fading_and_no_dominant_path_is_nakagami_fading() -> None:
    np.testing.assert_allclose(law(kappa=3.0, mu=1.0).mgf(X), rician_mgf(X, 3.0), rtol=1e-8)
    np.testing.assert_allclose(law(kappa=0.0, mu=2.5).mgf(X), Nakagami(nakagami_m=2.5).mgf(X), rtol=1e-8, atol=1e-19)
    assert np.abs(law(kappa=3.0, mu=1.0).mgf(X) / rician_mgf(X, 3.3) - 1.0).max() > 0.01


@pytest.mark.parametrize(("kappa", "mu"), [(0.0, 0.5), (KAPPA, MU), (10.0, 4.0), (100.0, 20.0)])
def test_the_table_of_the_engines_has_the_quantiles_of_the_law(kappa: float, mu: float) -> None:
    ends = np.unique(np.round(np.geomspace(1, 2.0**31 - 1, 500))).astype(np.uint32)
    word = np.concatenate([ends, ~ends])
    tail = (np.minimum(word, ~word).astype(float) + 0.5) * 2.0**-32
    here = law(kappa, mu)
    exact = np.where(word < 1 << 31, here.quantile(tail, upper=False), here.quantile(tail, upper=True))
    drawn = np.abs(table_taps((word, np.zeros_like(word)), quantile_table(here)).numpy().astype(complex))
    np.testing.assert_allclose(drawn, exact, rtol=3e-6)


def measured(folder: Path, engine: str) -> tuple[LinkCurve, Any]:
    loaded = load_scenario(write_scenario(folder, STUDY.format(engine=engine)))
    plan = expand_link(loaded)
    run_study(LinkStudy(loaded, plan, rule=plan.measure.rule()), folder=folder / "run")
    with LinkStore.open_existing(folder / "run") as store:
        (points,) = read_results(store, plan)
    return plan.curves[0], points


@pytest.mark.parametrize("engine", ["fused", "sionna"])
def test_a_link_study_measures_the_error_rate_of_the_integral(tmp_path: Path, engine: str) -> None:
    curve, points = measured(tmp_path, engine)
    assert len(points) == 2
    for point in points:
        rates, ebno_db = point.rates()[0], point.point.value_db
        drawn = theory(curve, "bit_error_rate", point.point.esno_db)
        assert drawn == pytest.approx(bit_errors(ebno_db), rel=1e-6)
        assert rates.low < bit_errors(ebno_db) < rates.high
        # Rayleigh fading, or 0.3 dB more, is another rate.
        assert not rates.low < bit_errors(ebno_db + 0.3) < rates.high


def test_a_sweep_and_a_legend_name_the_law() -> None:
    value = {"name": "kappa-mu", "kappa": 2.5, "mu": 3.0}
    assert setting_label("link.channel.fading", value) == "κ-μ fading, kappa = 2.5, mu = 3"
    assert setting_label("link.channel.fading", "kappa-mu") == "κ-μ fading"
    assert setting_label("link.channel.fading", "rayleigh") == "Rayleigh fading"
