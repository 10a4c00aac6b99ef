"""What determines the result of an audit or of a reference check is part of its identity."""

from __future__ import annotations

import pytest

from scenarios.plan.plan import expand
from scenarios.schema.loader import load_scenario
from scenarios.studies.audit.plan import AuditOptions
from scenarios.studies.audit.study import AuditStudy
from scenarios.studies.verify import study as verify
from scenarios.studies.verify.cards import load_card
from scenarios.studies.verify.study import VerifyStudy

USUAL = {"games": 1000, "delta": None, "confidence": 0.99, "attack": None, "rounds": 1}


@pytest.mark.parametrize("change", [{"games": 2000}, {"delta": 1e-6}, {"confidence": 0.999}, {"rounds": 2}])
def test_other_options_of_an_audit_are_other_tasks(change: dict[str, float]) -> None:
    loaded = load_scenario("flmc-epsilon")
    usual, same, other = (
        AuditStudy(loaded, expand(loaded), options=AuditOptions(**given)).ids  # type: ignore[arg-type]
        for given in (USUAL, USUAL, {**USUAL, **change})
    )
    assert usual == same
    assert not set(usual) & set(other)


def test_another_version_measures_a_reference_check_again(monkeypatch: pytest.MonkeyPatch) -> None:
    card = load_card("awgn-uncoded")
    before = VerifyStudy([card]).ids
    assert before == VerifyStudy([card]).ids
    assert before != VerifyStudy([card], fast=True).ids
    monkeypatch.setattr(verify, "versions", lambda: {"phyloop": "another"})
    assert before != VerifyStudy([card]).ids
