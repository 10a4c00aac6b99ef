"""Releases before a run, and the ledgers that records make of them."""

from __future__ import annotations

import numpy as np
import pytest

from privacy.config import BudgetConfig
from privacy.errors import PrivacyError
from privacy.events.releases import Release, Uploads
from privacy.mechanisms.bit_flipping import composed_rate

SENT = np.array([[True, True], [True, False]])
FLIPS = np.array([[0.1, 0.2], [0.3, 0.4]])
LOW = np.array([[0.01, 0.0], [0.02, 0.05]])


def uploads(*, independent: bool = True, low: bool = True) -> Uploads:
    devices = {"flip_probability": FLIPS, **({"probed_low": LOW} if low else {})}
    return Uploads(sent=SENT, devices=devices, independent=independent, reasons=("a reason",))


def flipped(confidence: float | None = 0.99) -> Release:
    return Release(kind="flipped-bits", unit="device", coordinates=8, parameter=0.1, confidence=confidence)


def test_a_fixed_parameter_is_that_of_every_upload_sent() -> None:
    ledger = Release(kind="laplace", unit="device", coordinates=3, parameter=2.0).recorded(uploads())
    np.testing.assert_array_equal(ledger.parameter, [[2.0, 2.0], [2.0, np.nan]])
    assert (ledger.kind, ledger.coordinates, ledger.unit) == ("laplace", 3, "device")


def test_parameters_that_a_budget_set_take_the_place_of_the_fixed_one() -> None:
    release = Release(kind="gaussian", unit="sample")
    ledger = release.recorded(uploads(), by_round=np.array([[1.0], [2.0]]))
    np.testing.assert_array_equal(ledger.parameter, [[1.0, 1.0], [2.0, np.nan]])


def test_counted_channel_errors_add_to_the_flips_that_were_drawn() -> None:
    ledger = flipped().recorded(uploads())
    np.testing.assert_array_equal(ledger.parameter[SENT], composed_rate(FLIPS, LOW)[SENT])
    assert ledger.uncredited is not None
    np.testing.assert_array_equal(ledger.uncredited[SENT], FLIPS[SENT])
    assert (ledger.credit_failure, ledger.credit_assumptions) == (1.0 - 0.99, ("a reason",))


@pytest.mark.parametrize(
    ("release", "seen", "assumptions"),
    [
        (flipped(confidence=None), uploads(), ()),
        (flipped(), uploads(low=False), ()),
        (flipped(), uploads(independent=False), ("a reason",)),
    ],
    ids=["not asked for", "not probed", "dependent errors"],
)
def test_flips_count_alone_without_channel_errors_that_may_count(
    release: Release, seen: Uploads, assumptions: tuple[str, ...]
) -> None:
    ledger = release.recorded(seen)
    np.testing.assert_array_equal(ledger.parameter[SENT], FLIPS[SENT])
    assert ledger.uncredited is None
    assert ledger.assumptions == assumptions


def test_evidence_for_channel_errors_leaves_fewer_rounds_in_a_budget() -> None:
    budget = BudgetConfig(epsilon=30.0, delta=1e-3, calibrate=False)
    free, paid = (Release(kind="flipped-bits", unit="device", parameter=0.3, evidence=e) for e in (0.0, 4e-4))
    assert budget.rounds_within(free, most=10) == 10
    assert budget.rounds_within(paid, most=10) == 2
    with pytest.raises(PrivacyError, match="leaves nothing"):
        budget.rounds_within(Release(kind="flipped-bits", unit="device", parameter=0.3, evidence=1e-2), most=10)
