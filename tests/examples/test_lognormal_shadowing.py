"""The example of a fading law in one file: `examples/lognormal_shadowing.py`, over a link of each engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import special

from scenarios.contracts import broken_checks
from scenarios.engine.run import run_study
from scenarios.schema.loader import load_scenario
from scenarios.schema.permission import code_allowed
from scenarios.studies.link.results import LinkStore, read_results
from scenarios.studies.link.study import LinkStudy

EXAMPLE = Path(__file__).parents[2] / "examples" / "lognormal_shadowing.py"
SIGMA_DB = 4.0

STUDY = """\
name: lognormal
plugins: [lognormal_shadowing.py]
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


def test_the_example_keeps_the_contract_of_fading_laws() -> None:
    assert broken_checks(EXAMPLE) == []


@pytest.mark.parametrize("engine", ["fused", "sionna"])
def test_the_measured_rate_meets_the_integral_on_both_engines(engine: str, tmp_path: Path) -> None:
    (tmp_path / EXAMPLE.name).write_text(EXAMPLE.read_text())
    (tmp_path / "s.yaml").write_text(STUDY.format(engine=engine))
    with code_allowed():
        study = LinkStudy(load_scenario(tmp_path / "s.yaml"))
        run_study(study, folder=tmp_path / "run")
        with LinkStore.open_existing(tmp_path / "run") as store:
            ((point,),) = read_results(store, study.plan)
    rate = point.rates()[0]
    assert rate.low <= integral(4.0, sigma_db=SIGMA_DB) <= rate.high
    assert not rate.low <= integral(4.0, sigma_db=SIGMA_DB + 0.5) <= rate.high
