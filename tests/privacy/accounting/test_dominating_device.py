"""The dominating device has lost, rank by rank, at least as much as any; found in seconds at full size."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from privacy.accounting import account, combined, event_of, spendings
from privacy.accounting.spending import MOST_DISTINCT, worst_release
from privacy.errors import PrivacyError
from privacy.events.events import Kind, Ledger, NoRelease, Spending, Unprotected
from privacy.events.noise_events import FlippedBit, GaussianNoise, LaplaceNoise, PureEpsilon, RepeatedFlips
from privacy.events.sampling import SampledRelease
from privacy.events.superposed import SuperposedBit

NAN = math.nan


def ledger(kind: Kind, parameter: list[list[float]] | np.ndarray, **change: object) -> Ledger:
    setting: dict[str, object] = {"coordinates": 1, "unit": "device", "facts": {"entry_bound": 1.5}}
    return Ledger(kind=kind, parameter=np.asarray(parameter, np.float64), **{**setting, **change})


def told(spent: tuple[Spending, ...]) -> list[tuple[object, int]]:
    return [(one.event, one.count) for one in spent]


def test_every_kind_and_parameter_is_its_event() -> None:
    facts = {"entry_bound": 1.5}
    assert event_of("gaussian", 2.0, {}) == GaussianNoise(noise_multiplier=2.0)
    assert event_of("laplace", 0.5, {}) == LaplaceNoise(epsilon=0.5)
    assert event_of("pure", 0.5, {}) == PureEpsilon(epsilon=0.5)
    assert event_of("flipped-bits", 0.1, {}) == FlippedBit(flip_probability=0.1)
    assert event_of("superposed-bits", 0.3, facts) == SuperposedBit(amplitude=0.3, entry_bound=1.5)
    assert event_of("superposed-bits", math.inf, facts) == PureEpsilon(epsilon=1.5)
    assert event_of("none", NAN, {}) == NoRelease()


@pytest.mark.parametrize(
    ("kind", "nothing", "everything"),
    [("gaussian", math.inf, 0.0), ("laplace", 0.0, math.inf), ("pure", 0.0, math.inf), ("flipped-bits", 0.5, 0.0)],
)
def test_zero_noise_is_infinite_epsilon_and_endless_noise_no_release(
    kind: Kind, nothing: float, everything: float
) -> None:
    assert event_of(kind, nothing, {}) == NoRelease()
    assert event_of(kind, everything, {}) == Unprotected()
    for accountant in ("basic", "advanced", "renyi", "pld", "exact"):
        spent = spendings(ledger(kind, [[everything]]), credited=True)
        assert account(spent, delta=1e-5, accountant=accountant) == math.inf
        assert account(spendings(ledger(kind, [[nothing]]), credited=True), delta=1e-5, accountant=accountant) == 0.0


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "pure", "flipped-bits", "superposed-bits"])
def test_negative_and_missing_parameters_are_refused(kind: Kind) -> None:
    with pytest.raises(PrivacyError, match=rf"{kind} release is -1\.0, but"):
        event_of(kind, -1.0, {"entry_bound": 1.0})
    with pytest.raises(PrivacyError, match="where nothing was sent"):
        event_of(kind, NAN, {"entry_bound": 1.0})
    with pytest.raises(PrivacyError, match="release is -1"):
        spendings(ledger(kind, [[0.4, -1.0]]), credited=True)
    with pytest.raises(PrivacyError, match="'entry_bound'"):
        event_of("superposed-bits", 0.3, {})


def test_equal_events_are_grouped_and_silent_rounds_have_no_loss() -> None:
    spent = spendings(ledger("flipped-bits", [[0.1, 0.2], [0.1, NAN], [0.3, NAN]], coordinates=7), credited=True)
    assert told(spent) == [(FlippedBit(flip_probability=0.1), 14), (FlippedBit(flip_probability=0.3), 7)]
    assert spendings(ledger("gaussian", [[NAN], [NAN]]), credited=True) == ()
    assert spendings(ledger("gaussian", np.empty((0, 3))), credited=True) == ()
    assert spendings(ledger("gaussian", [[1.0]], coordinates=0), credited=True) == ()
    assert told(spendings(ledger("unprotected", [[0.0, NAN], [0.0, 0.0]]), credited=True)) == [(Unprotected(), 2)]


def test_bits_wrong_more_often_than_right_hide_as_much_as_the_other_way_round() -> None:
    spent = spendings(ledger("flipped-bits", [[0.9, 0.2]]), credited=True)
    assert spent[0].event.pure_epsilon() == pytest.approx(math.log(9.0))


def test_noise_of_the_channel_counts_only_where_credited() -> None:
    both = ledger("flipped-bits", [[0.2]], uncredited=np.array([[0.1]]))
    assert told(spendings(both, credited=True)) == [(FlippedBit(flip_probability=0.2), 1)]
    assert told(spendings(both, credited=False)) == [(FlippedBit(flip_probability=0.1), 1)]
    analog = ledger("gaussian", [[2.0]], uncredited=np.array([[0.0]]))
    assert told(spendings(analog, credited=False)) == [(Unprotected(), 1)]


@pytest.mark.parametrize("seed", range(4))
def test_no_device_alone_spends_more_than_the_dominating_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parameter = np.where(rng.random((6, 5)) < 0.3, NAN, rng.choice([0.02, 0.1, 0.25, 0.4], size=(6, 5)))
    whole = spendings(ledger("flipped-bits", parameter, coordinates=3), credited=True)
    most = account(whole, delta=1e-3, accountant="pld")
    alone = [
        account(
            spendings(ledger("flipped-bits", column[:, None], coordinates=3), credited=True),
            delta=1e-3,
            accountant="pld",
        )
        for column in parameter.T
    ]
    # Grids differ by their discretisation, below 1 %.
    assert max(alone) <= most * 1.01
    single = spendings(ledger("flipped-bits", parameter[:, :1], coordinates=3), credited=True)
    mine = parameter[~np.isnan(parameter[:, 0]), 0]
    assert sorted((one.event.flip_probability, one.count) for one in single) == [
        (value, 3 * np.count_nonzero(mine == value)) for value in np.unique(mine)
    ]


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "flipped-bits", "superposed-bits"])
def test_many_distinct_values_are_rounded_to_more_loss_by_little(kind: Kind) -> None:
    rng = np.random.default_rng(3)
    values = rng.uniform(0.2, 0.4, size=500)
    spent = spendings(ledger(kind, values[:, None]), credited=True)
    assert len(spent) <= MOST_DISTINCT
    assert sum(one.count for one in spent) == 500
    orders = np.array([2.0, 9.0])
    true = sum(event_of(kind, value, {"entry_bound": 1.5}).renyi(orders) for value in values)
    rounded = sum(one.count * one.event.renyi(orders) for one in spent)
    assert np.all(rounded >= true)
    # A step of 0.4 % in the parameter, at most, of which the divergence takes at most the square.
    np.testing.assert_allclose(rounded, true, rtol=0.01)


def test_a_sampled_upload_is_one_event_and_every_round_counts_for_all() -> None:
    heard = ledger("flipped-bits", [[0.1, NAN], [NAN, 0.2], [NAN, NAN]], coordinates=10, sampled=0.5)
    spent = told(spendings(heard, credited=True, sampling=True))
    assert [(count, event.rate) for event, count in spent] == [(1, 0.5), (1, 0.5)]
    assert spent[0][0] == SampledRelease(event=RepeatedFlips(epsilon_each=math.log(9.0), count=10), rate=0.5) or (
        spent[0][0].event.pure_epsilon() == pytest.approx(10 * math.log(9.0))
    )
    laplace = spendings(ledger("laplace", [[0.1]], coordinates=3, sampled=0.5), credited=True, sampling=True)
    assert laplace[0].event == SampledRelease(event=RepeatedFlips(epsilon_each=0.1, count=3), rate=0.5)


def test_sampling_of_devices_is_not_credited_to_samples_or_to_added_devices() -> None:
    spent = spendings(ledger("gaussian", [[1.0, NAN]], unit="sample", sampled=0.5), credited=True, sampling=True)
    assert told(spent) == [(GaussianNoise(noise_multiplier=1.0), 1)]
    added = ledger("gaussian", [[1.0, NAN]], relation="add-or-remove-one", sampled=0.5)
    assert told(spendings(added, credited=True, sampling=True)) == [(GaussianNoise(noise_multiplier=1.0), 1)]


def test_the_worst_release_is_the_least_private_of_any_device() -> None:
    assert worst_release(ledger("gaussian", [[3.0, NAN], [2.0, 5.0]]), credited=True) == GaussianNoise(
        noise_multiplier=2.0
    )
    assert worst_release(ledger("gaussian", [[NAN]]), credited=True) == NoRelease()


def test_ledgers_of_different_neighbours_do_not_add_up() -> None:
    device, sample = ledger("pure", [[0.5]]), ledger("pure", [[0.5]], unit="sample")
    assert len(combined([device, device], credited=True)) == 2
    for other in (sample, ledger("pure", [[0.5]], relation="add-or-remove-one")):
        with pytest.raises(PrivacyError, match="do not add up"):
            combined([device, other], credited=True)
    with pytest.raises(PrivacyError, match="no ledger"):
        combined([], credited=True)


def test_ten_thousand_devices_over_five_hundred_rounds_of_a_million_numbers_take_seconds() -> None:
    rng = np.random.default_rng(0)
    parameter = rng.uniform(0.1, 0.3, size=(500, 10_000))
    # A third never sent; the rest differ in every round.
    parameter[:, ::3] = NAN
    start = time.perf_counter()
    spent = spendings(ledger("flipped-bits", parameter, coordinates=1_200_000), credited=True)
    found = {name: account(spent, delta=1e-6, accountant=name) for name in ("basic", "advanced", "renyi", "pld")}
    # Some 3 s on one core by itself; the rest is for busy machines.
    assert time.perf_counter() - start < 60.0
    assert sum(one.count for one in spent) == 500 * 1_200_000
    assert found["pld"] <= found["advanced"] <= found["basic"]
    assert found["pld"] <= found["renyi"] <= found["basic"]
