"""Claims made from ledgers: scopes, the cost of evidence, neighbours, and why some claims are not made."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from privacy.accounting import ACCOUNTANTS, account, account_claims, claims, refusals
from privacy.accounting.claiming import DRAWN_IN_SECRET
from privacy.errors import PrivacyError
from privacy.events.claims import Claim
from privacy.events.events import Ledger, Spending
from privacy.events.noise_events import FlippedBit, GaussianNoise, PureEpsilon

NAN = math.nan

FLIPS = Ledger(
    kind="flipped-bits",
    parameter=np.array([[0.2, 0.3], [0.25, NAN], [0.2, NAN]]),
    uncredited=np.array([[0.1, 0.1], [0.1, NAN], [0.1, NAN]]),
    coordinates=20,
    unit="device",
    credit_failure=1e-7,
    assumptions=("bits fail by themselves",),
)
NOISE = Ledger(kind="gaussian", parameter=np.full((10, 3), 2.0), coordinates=1, unit="sample")


def only(found: list[Claim], **wanted: object) -> Claim:
    (one,) = [claim for claim in found if all(getattr(claim, key) == value for key, value in wanted.items())]
    return one


def test_the_three_scopes_are_one_number_one_upload_and_all_uploads() -> None:
    found = claims(FLIPS, delta=1e-5, accountants=("basic",))
    odds, own = math.log(4.0), math.log(9.0)
    for scope, count in (("coordinate", 1), ("round", 20)):
        assert only(found, scope=scope, channel_credited=True).epsilon == pytest.approx(count * odds)
        assert only(found, scope=scope, channel_credited=False).epsilon == pytest.approx(count * own)
    whole = 2 * 20 * odds + 20 * math.log(3.0)
    assert only(found, scope="run", channel_credited=True).epsilon == pytest.approx(whole)
    assert only(found, scope="run", channel_credited=False).epsilon == pytest.approx(60 * own)


def test_every_claim_carries_its_labels() -> None:
    for claim in claims(FLIPS, delta=1e-5):
        assert claim.standing == "proved"
        assert claim.unit == "device"
        assert claim.relation == "replace-one"
        assert claim.source
        assert claim.assumptions == ("bits fail by themselves",)
        assert claim.delta <= 1e-5
    names = {claim.accountant for claim in claims(FLIPS, delta=1e-5)}
    assert names == set(ACCOUNTANTS)


def test_evidence_is_paid_for_in_delta() -> None:
    found = claims(FLIPS, delta=1e-6, accountants=("basic", "pld"))
    for scope, evidence in (("coordinate", 1e-7), ("round", 1e-7), ("run", 3e-7)):
        claim = only(found, scope=scope, accountant="pld", channel_credited=True)
        assert claim.delta == 1e-6
        assert claim.delta_evidence == pytest.approx(evidence)
        assert only(found, scope=scope, accountant="basic", channel_credited=True).delta == pytest.approx(evidence)
        assert only(found, scope=scope, accountant="pld", channel_credited=False).delta_evidence == 0.0
    spent = (Spending(event=FlippedBit(flip_probability=0.2), count=20),)
    at_round = only(found, scope="round", accountant="pld", channel_credited=True)
    assert at_round.epsilon == account(spent, delta=9e-7, accountant="pld")
    assert at_round.epsilon > account(spent, delta=1e-6, accountant="pld")


@pytest.mark.parametrize("delta", [0.0, 1e-8, 3e-7])
def test_evidence_above_delta_gives_infinity_with_a_reason(delta: float) -> None:
    for claim in claims(FLIPS, delta=delta, accountants=("basic",)):
        if claim.channel_credited and claim.scope == "run":
            assert claim.epsilon == math.inf
            assert "raise the confidence" in claim.assumptions[-1]
        elif not claim.channel_credited:
            assert math.isfinite(claim.epsilon)


def test_data_protected_by_the_channel_only_has_no_epsilon_without_it() -> None:
    analog = replace(NOISE, uncredited=np.zeros((10, 3)))
    found = claims(analog, delta=1e-5, accountants=("renyi",))
    assert math.isfinite(only(found, scope="run", channel_credited=True).epsilon)
    assert only(found, scope="run", channel_credited=False).epsilon == math.inf


def test_an_accountant_without_a_result_gives_a_reason() -> None:
    found = claims(NOISE, delta=1e-5)
    assert {claim.accountant for claim in found} == {"renyi", "pld", "exact"}
    reasons = refusals(NOISE, delta=1e-5)
    assert "'basic'" in reasons["basic", "run"]
    assert "GaussianNoise" in reasons["advanced", "coordinate"]
    with pytest.raises(PrivacyError, match="'basic' adds up pure epsilons"):
        account_claims(NOISE, delta=1e-5, accountant="basic")
    assert len(account_claims(NOISE, delta=1e-5, accountant="exact")) == 3


def test_ten_rounds_of_gaussian_noise_are_one_of_less() -> None:
    found = only(claims(NOISE, delta=1e-5, accountants=("exact",)), scope="run")
    one = Spending(event=GaussianNoise(noise_multiplier=2.0 / math.sqrt(10.0)), count=1)
    assert found.epsilon == pytest.approx(account((one,), delta=1e-5, accountant="exact"))


def test_removing_and_adding_is_twice_the_distance_and_the_way_back_is_refused() -> None:
    added = replace(NOISE, relation="add-or-remove-one")
    twice = replace(NOISE, parameter=NOISE.parameter / 2.0)
    found = claims(added, delta=1e-5, accountants=("exact",), relation="replace-one")
    expected = claims(twice, delta=1e-5, accountants=("exact",))
    assert [claim.epsilon for claim in found] == pytest.approx([claim.epsilon for claim in expected])
    assert {claim.relation for claim in found} == {"replace-one"}
    flips = claims(
        replace(FLIPS, relation="add-or-remove-one"), delta=1e-5, accountants=("basic",), relation="replace-one"
    )
    assert only(flips, scope="coordinate", channel_credited=True).epsilon == pytest.approx(2.0 * math.log(4.0))
    with pytest.raises(PrivacyError, match="implies nothing for add-or-remove-one"):
        claims(NOISE, delta=1e-5, relation="add-or-remove-one")


def test_ledgers_side_by_side_add_up_over_rounds_and_take_the_worst_number() -> None:
    pure = Ledger(kind="pure", parameter=np.full((3, 1), 0.5), coordinates=2, unit="device")
    laplace = Ledger(kind="laplace", parameter=np.full((3, 1), 0.8), coordinates=1, unit="device")
    found = claims([pure, laplace], delta=1e-5, accountants=("basic",))
    assert [claim.epsilon for claim in found] == pytest.approx([0.8, 1.8, 5.4])
    with pytest.raises(PrivacyError, match="do not add up") as raised:
        claims([pure, NOISE], delta=1e-5)
    assert raised.value.remedies == ("account for each by itself",)


def test_sampling_counts_for_the_run_alone_beside_the_run_without_it_and_is_an_assumption() -> None:
    sampled = replace(NOISE, unit="device", sampled=0.1)
    found = claims(sampled, delta=1e-5, accountants=("pld",))
    plain = claims(replace(sampled, sampled=None), delta=1e-5, accountants=("pld",))
    for scope in ("coordinate", "round"):
        assert only(found, scope=scope).epsilon == only(plain, scope=scope).epsilon
        assert DRAWN_IN_SECRET not in only(found, scope=scope).assumptions
    hidden, known = (only(found, scope="run", sampling_credited=credit) for credit in (True, False))
    assert known == only(plain, scope="run")
    assert hidden.epsilon < 0.5 * known.epsilon
    assert DRAWN_IN_SECRET in hidden.assumptions
    assert "sampling credited" in hidden.label()


@pytest.mark.parametrize("changes", [{"unit": "sample"}, {"relation": "add-or-remove-one"}])
def test_sampling_is_not_credited_to_samples_nor_to_who_is_added(changes: dict[str, str]) -> None:
    ledger = replace(NOISE, **{"unit": "device", "sampled": 0.1, **changes})
    assert not any(claim.sampling_credited for claim in claims(ledger, delta=1e-5, accountants=("pld",)))


def test_a_number_of_several_bits_loses_what_all_of_them_lose() -> None:
    found = claims(replace(FLIPS, per_number=5), delta=1e-5, accountants=("basic",))
    assert only(found, scope="coordinate", channel_credited=True).epsilon == pytest.approx(5 * math.log(4.0))
    with pytest.raises(PrivacyError, match="per_number is 21 of 20"):
        replace(FLIPS, per_number=21)


@pytest.mark.parametrize("delta", [-0.1, 1.0, NAN])
def test_invalid_deltas_are_refused(delta: float) -> None:
    with pytest.raises(PrivacyError, match="delta is"):
        claims(FLIPS, delta=delta)


def test_delta_zero_is_refused_where_only_approximate_privacy_can_hold() -> None:
    with pytest.raises(PrivacyError, match="only approximate privacy can hold"):
        claims(NOISE, delta=0.0)
    pure = Ledger(kind="pure", parameter=np.full((3, 1), 0.5), coordinates=2, unit="device")
    assert only(claims(pure, delta=0.0), scope="run", accountant="basic").epsilon == 3.0


def test_a_run_without_releases_has_epsilon_0() -> None:
    silent = Ledger(kind="gaussian", parameter=np.full((4, 2), NAN), coordinates=5, unit="device")
    assert {claim.epsilon for claim in claims(silent, delta=1e-5)} == {0.0}


def test_more_credit_than_was_given_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above is one that can fail: a ledger whose evidence costs nothing gives a smaller epsilon."""
    from privacy.accounting import claiming

    monkeypatch.setattr(claiming, "_evidence", lambda *_, **__: 0.0)
    with pytest.raises(AssertionError):
        test_evidence_is_paid_for_in_delta()


def test_one_release_of_pure_epsilon_claims_that_epsilon() -> None:
    single = Ledger(kind="pure", parameter=np.array([[0.7]]), coordinates=1, unit="device")
    for claim in claims(single, delta=1e-9, accountants=("basic", "pld", "exact")):
        assert claim.epsilon == pytest.approx(PureEpsilon(epsilon=0.7).pure_epsilon(), rel=1e-6)
