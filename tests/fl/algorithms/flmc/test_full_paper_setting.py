"""The setting of Zhang et al. 2022 at full size, 1000 experiments a point; run with `make slow`."""

from __future__ import annotations

import pytest
from flmc_setting import metric, run_paper, standard_error
from test_paper_setting import POINTS, Reference

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_thousand_experiments_give_the_reference_error(point: Reference) -> None:
    results = run_paper(point.scheme, trials=range(1000), snr_max_db=point.snr_max_db, lmc_cap=point.lmc_cap)
    mse = metric(results, "mse")
    # Half a unit of the printed digit, or 4 standard errors where those are more.
    assert mse.mean() == pytest.approx(point.mse, abs=max(point.rounding, 4 * standard_error(mse)))
