"""The exact cap on a round of FLMC: whatever fades and however many send, no round of a device spends more."""

from __future__ import annotations

import numpy as np
import pytest
from flmc_setting import RAYLEIGH, paper_config, paper_link

from fl.algorithms.run import run_trials
from fl.base.results import TrialResult
from privacy.accounting import account, spendings
from privacy.config import PrivacyConfig

BOUND = PrivacyConfig(epsilon=2.0, delta=0.01)
FADING = {**RAYLEIGH, "gain": 0.5, "noise_power": 0.25}


def run(scheme: str, *, num_devices: int = 20, **link: object) -> TrialResult:
    config = paper_config(scheme, rounds=6, burn_in=0, lmc_cap="none", num_devices=num_devices)
    return run_trials(config, link=paper_link(scheme, **link), privacy=BOUND, seed=1, trials=[0])[0]


@pytest.mark.parametrize(
    ("scheme", "policy"),
    [
        ("analog", "inversion"),
        ("digital", "inversion"),
        ("digital-orthogonal", "inversion"),
        ("digital-orthogonal", "fixed"),  # every device at an amplitude of its own
    ],
)
def test_no_round_of_the_ledger_spends_more_than_was_asked_for_whatever_fades(scheme: str, policy: str) -> None:
    result = run(scheme, channel=FADING, snr_max_db=40.0, power={"policy": policy})
    assert (result.privacy["delta_spent"] <= 0.01 * (1 + 1e-6)).all()
    assert (result.privacy["delta_spent"] > 0.0099).any(), "no fade left the cap to bind"
    assert result.account is not None
    for spent in spendings(result.account.ledger, credited=True):
        # Another program composes the entries: dp-accounting's loss distributions, or the closed form.
        of_a_round = [type(spent)(event=spent.event, count=result.account.ledger.coordinates)]
        found = account(of_a_round, delta=0.01, accountant="pld")
        assert found <= 2.0 * (1 + 1e-2)
    assert not result.account.published


@pytest.mark.parametrize("scheme", ["analog", "digital"])
def test_the_cap_is_the_same_for_2_and_for_100_devices(scheme: str) -> None:
    few, many = (run(scheme, num_devices=k, snr_max_db=60.0).metrics["amplitude"] for k in (2, 100))
    assert few == many
    assert np.isfinite(few)
