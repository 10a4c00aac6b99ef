"""Rounds that take time: against closed forms, an event-driven oracle, Little's law and a replay of the updates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fl.algorithms.fedavg.account import TIMED, sampled_share
from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.federation import Federation
from fl.base.arrays import F64, I64
from fl.uplink.clock import RoundClock
from fl.uplink.participation import Participation, ParticipationConfig
from fl.uplink.timing import TimingConfig
from phy.config import LinkConfig

COMPUTE = {"shift_s_per_sample": 1e-3, "mean_s_per_sample": 1e-3}
FADES = {"modulation": "qpsk", "channel": {"model": "flat", "fading": "rayleigh"}, "power": {"snr_max_db": 10}}
LEARNING = {
    "algorithm": "fedavg", "data": {"name": "digits", "train_samples": 200, "test_samples": 20},
    "num_devices": 20, "rounds": 6, "local": {"learning_rate": 0.1},
}  # fmt: skip
PRIVATE = {"name": "probit", "epsilon": 2.0, "l1_clip": 1.0, "bound": "adaptive"}


def federation(timing: Any, *, link: Any = FADES, **learning: Any) -> Federation:
    config = FedAvgConfig.model_validate({**LEARNING, "timing": timing, **learning})
    return Federation(config, link=LinkConfig.model_validate(link), privacy=None, seed=7, trial=0)


def after(found: Federation, rounds: int) -> Federation:
    for index in range(found.record.rounds_done, rounds):
        found.round(index)
    return found


def clock_of(
    timing: Any, *, samples: F64, airtime_s: float = 0.0, drawn: int | None = None, in_turn: bool = True, seed: int = 3
) -> tuple[RoundClock, Participation]:
    """A clock whose devices process all of their samples once in a round, and who takes part."""
    clock = RoundClock(
        TimingConfig.model_validate(timing), per_step=samples, airtime_s=airtime_s, in_turn=in_turn, seed=seed, trial=0
    )
    part = ParticipationConfig(devices_per_round=drawn)
    return clock, Participation(part, samples=samples, steps=1, seed=seed, trial=0)


def run(clock: RoundClock, part: Participation, rounds: int) -> tuple[list[I64], dict[str, F64]]:
    """Devices whose uploads arrive in each round, and the numbers of the rounds."""
    arrived, numbers = [], []
    for index in range(rounds):
        who = part.of(index, busy=clock.busy)
        out = clock.begin(who, index)
        arrived.append(out.devices[out.sends])
        numbers.append(clock.end(arrived[-1], index, airtime_s=None))
        part.end(who, index)
    return arrived, {name: np.array([one[name] for one in numbers]) for name in numbers[0]}


def test_the_share_of_devices_in_time_is_that_of_a_shifted_exponential_law() -> None:
    samples, rounds, deadline = np.linspace(20.0, 200.0, 40), 1500, 0.2
    clock, part = clock_of({"compute": COMPUTE, "deadline_s": deadline}, samples=samples)
    arrived, numbers = run(clock, part, rounds)
    share = np.bincount(np.concatenate(arrived), minlength=40) / rounds
    exact = 1.0 - np.exp(-np.maximum(deadline / samples - 1e-3, 0.0) / 1e-3)
    assert (np.abs(share - exact) <= 4.0 * np.sqrt(exact * (1.0 - exact) / rounds)).all()
    assert (numbers["round_s"] <= deadline).all()
    np.testing.assert_array_equal(numbers["num_late"], [40 - len(one) for one in arrived])


@pytest.mark.parametrize("arrivals", [1, 7, 20])
def test_the_round_ends_at_the_order_statistic_of_exponential_times(arrivals: int) -> None:
    compute, rounds = {"mean_s_per_sample": 0.5}, 1500
    clock, part = clock_of({"compute": compute, "arrivals": arrivals}, samples=np.full(20, 2.0))
    round_s = run(clock, part, rounds)[1]["round_s"]
    steps = 1.0 / np.arange(20, 20 - arrivals, -1)  # mean 1 s: E[T_(n)] = sum 1 / (K - i), and squares its variance
    assert abs(round_s.mean() - steps.sum()) < 4.0 * np.sqrt((steps**2).sum() / rounds)


@pytest.mark.parametrize("timing", [{"arrivals": 5}, {"deadline_s": 0.25}, {"deadline_s": 0.2, "arrivals": 9}])
def test_the_mean_age_of_updates_is_that_of_the_law_of_little(timing: Any) -> None:
    # In units of rounds: late devices at the end of a round = arrivals in a round x rounds that each is late.
    rounds, airtime_s = 1500, 2e-3
    given: dict[str, Any] = {"compute": COMPUTE, "late": "keep", **timing}
    clock, part = clock_of(given, samples=np.linspace(50.0, 300.0, 20), airtime_s=airtime_s)
    arrived, numbers = run(clock, part, rounds)
    counts = np.array([len(one) for one in arrived])
    gap = numbers["num_late"] - counts * np.nan_to_num(numbers["staleness"])
    batches = gap.reshape(30, -1).mean(axis=1)
    assert abs(batches.mean()) < 4.0 * batches.std(ddof=1) / np.sqrt(30) + 20 / rounds
    assert numbers["staleness"][counts > 0].mean() > 0.2
    if timing == {"arrivals": 5}:  # concurrency over buffer size, less one
        assert numbers["staleness"].mean() == pytest.approx(20 / 5 - 1, abs=20 * 10 / rounds)


def in_events(clock: RoundClock, part: Participation, *, timing: TimingConfig, airtime_s: float, rounds: int) -> Any:
    """The same rounds in absolute time, upload by upload: a queue of one server, first come first served."""
    now, free, ready, arrived, lengths = 0.0, 0.0, dict[int, float](), [], []
    for index in range(rounds):
        busy = np.isin(np.arange(len(clock.busy)), list(ready))
        who = part.of(index, busy=busy)
        clock.begin(who, index)
        ready |= {int(k): now + clock._ready_s[k] for k in who.devices}
        clock._ready_s[:] = np.inf
        until = np.inf if timing.deadline_s is None else now + timing.deadline_s
        came = list[int]()
        for device in sorted(ready, key=lambda k: ready[k]):
            end = max(free, ready[device]) + airtime_s
            if end > until or len(came) == (timing.arrivals or np.inf):
                break
            free, last = end, end
            came.append(device)
        full = len(came) == (timing.arrivals or len(ready))
        ends = last if full else until
        ready = {k: at for k, at in ready.items() if k not in came} if timing.keeps else {}
        free = free if timing.keeps else 0.0
        lengths.append(ends - now)
        now, free = ends, max(free, ends if not timing.keeps else free)
        arrived.append(sorted(came))
        part.end(who, index)
    return arrived, lengths


@pytest.mark.parametrize("late", ["drop", "keep"])
@pytest.mark.parametrize("ends", [{"deadline_s": 0.06}, {"arrivals": 4}, {"deadline_s": 0.1, "arrivals": 6}])
def test_uploads_queue_for_the_air_as_in_a_simulation_of_events(late: str, ends: Any) -> None:
    given: dict[str, Any] = {"compute": COMPUTE, "late": late, **ends}
    made: dict[str, Any] = {"samples": np.linspace(5.0, 60.0, 12), "airtime_s": 0.011, "drawn": 9}
    arrived, numbers = run(*clock_of(given, **made), 60)
    timing = TimingConfig.model_validate(given)
    expected, lengths = in_events(*clock_of(given, **made), timing=timing, airtime_s=0.011, rounds=60)
    assert [one.tolist() for one in arrived] == expected
    np.testing.assert_allclose(numbers["round_s"], lengths, rtol=1e-9)


def test_devices_that_add_up_wait_for_the_last_of_those_in_time() -> None:
    made: dict[str, Any] = {"samples": np.linspace(5.0, 60.0, 12), "airtime_s": 0.01, "in_turn": False}
    clock, part = clock_of({"compute": COMPUTE, "arrivals": 5}, **made)
    alone, again = clock_of({"compute": COMPUTE, "arrivals": 5}, **{**made, "airtime_s": 0.0})
    np.testing.assert_allclose(
        run(clock, part, 20)[1]["round_s"], run(alone, again, 20)[1]["round_s"] + 0.01, rtol=1e-12
    )


def test_a_device_that_was_ready_too_late_for_a_sum_is_in_the_next_one_from_its_beginning() -> None:
    given = {"compute": COMPUTE, "arrivals": 3, "late": "keep"}
    arrived, numbers = run(*clock_of(given, samples=np.linspace(5.0, 60.0, 12), airtime_s=0.05, in_turn=False), 200)
    assert (numbers["round_s"] >= 0.05).all()
    assert (numbers["round_s"] == 0.05).sum() > 20  # three were ready when the sum before was on the air
    assert max(len(one) for one in arrived) > 3  # then all that were ready add up


def test_no_other_setting_shifts_the_times_of_devices() -> None:
    def times(timing: Any, **more: Any) -> F64:
        clock, part = clock_of({"compute": COMPUTE, **timing}, samples=np.full(20, 9.0), **more)
        for index in range(3):
            who = part.of(index)
            out = clock.begin(who, index)
            found = clock._ready_s.copy()
            clock.end(out.devices[out.sends], index, airtime_s=None)
        return found

    few, usual = times({}, drawn=4), times({"deadline_s": 0.01}, airtime_s=1.0)
    assert np.isfinite(few).sum() == 4
    np.testing.assert_array_equal(few[np.isfinite(few)], usual[np.isfinite(few)])


@pytest.mark.parametrize("weighting", ["samples", "equal"])
def test_a_late_update_is_that_of_its_own_round_weighted_by_its_age(weighting: str) -> None:
    """w_{t+1} = w_t + sum_k q_k (1 + tau_k)^-0.5 D_k / sum_k q_k, with D_k trained on the model of round t - tau_k."""
    settings = {"weighting": weighting, "codec": "binary32", "partition": {"kind": "dirichlet", "alpha": 1.0}}
    timing = {"compute": COMPUTE, "arrivals": 4, "late": "keep"}
    error_free = {"error_model": "error_free"}
    found, free = federation(timing, link=error_free, **settings), federation(None, link=error_free, **settings)
    sizes = found._sizes if weighting == "samples" else np.ones(20)
    clock, models, ages = found.clock, list[Any](), list[int]()
    assert clock is not None
    for index in range(6):
        models.append(found.weights.copy())
        began, counts = clock._started.copy(), clock._arrived.copy()
        began[~clock.busy] = index
        found.round(index)
        came = np.flatnonzero(clock._arrived > counts)
        total = sum(
            sizes[k]
            * (1.0 + index - began[k]) ** -0.5
            * (
                free._trainer.train(models[began[k]], devices=np.array([k]), round_index=int(began[k])).weights[0]
                - models[began[k]]
            ).astype(float)
            for k in came
        )
        np.testing.assert_allclose(found.weights - models[-1], total / sizes[came].sum(), atol=2e-7)
        ages += (index - began[came]).tolist()
    assert max(ages) >= 3
    assert found.record.of_trial("rounds")["staleness"][-1] == np.mean(ages[-4:])


def test_a_server_that_waits_for_all_learns_as_one_without_a_clock() -> None:
    timed, plain = after(federation({"compute": COMPUTE}), 3), after(federation(None), 3)
    assert np.array_equal(timed.weights, plain.weights)
    rounds = timed.record.of_trial("rounds")
    assert (rounds["round_s"] > rounds["airtime_s"]).all()
    assert "round_s" not in plain.record.of_trial("rounds")


def test_without_computing_a_round_takes_the_measured_time_on_the_air() -> None:
    for link in (FADES, {"access": "superposition"}, {**FADES, "packets": {"policy": "drop"}, "packet_size_bytes": 64}):
        rounds = after(federation({}, link=link), 2).record.of_trial("rounds")
        np.testing.assert_allclose(rounds["round_s"], rounds["airtime_s"], rtol=1e-12)


def test_packets_sent_again_lengthen_the_round_by_what_was_measured() -> None:
    link = {**FADES, "packets": {"policy": "retransmit"}, "packet_size_bytes": 64}
    rounds = after(federation({}, link=link), 3).record.of_trial("rounds")
    np.testing.assert_allclose(rounds["round_s"], rounds["airtime_s"], rtol=1e-12)
    once = after(federation({}, link={**link, "packets": {"policy": "drop"}}), 3).record.of_trial("rounds")
    assert (rounds["round_s"] > 1.5 * once["round_s"]).all()


def test_a_device_that_cannot_be_in_time_sends_nothing_and_spends_no_energy() -> None:
    found = after(federation({"compute": COMPUTE, "deadline_s": 0.08}), 4)
    link, rounds = found.record.of_trial("link"), found.record.of_trial("rounds")
    sent = link["bits"] > 0
    np.testing.assert_array_equal((~sent).sum(axis=1), rounds["num_late"])
    assert 0 < sent.sum() < sent.size
    assert (link["energy_j"][~sent] == 0.0).all()
    assert (link["airtime_s"][~sent] == 0.0).all()
    (result,) = found.results(None)
    np.testing.assert_allclose(result.rounds["wall_s"], np.cumsum(rounds["round_s"]))
    counts = sent.sum(axis=0).astype(float)
    assert result.metrics["arrival_fairness"] == pytest.approx(counts.sum() ** 2 / (20 * (counts**2).sum()))


def test_rounds_in_which_nobody_begins_or_arrives_change_no_model() -> None:
    slow = {"shift_s_per_sample": 1e-2}  # 0.5 s for each of 20 devices
    found = federation({"compute": slow, "deadline_s": 0.2, "late": "keep"})
    before = found.weights.copy()
    assert np.array_equal(after(found, 2).weights, before)
    rounds = after(found, 3).record.of_trial("rounds")
    assert np.isnan(rounds["train_loss"]).tolist() == [False, True, True]
    assert rounds["num_late"].tolist() == [20.0, 20.0, 0.0]
    assert np.any(found.weights != before)


@pytest.mark.parametrize("late", ["drop", "keep"])
def test_a_run_goes_on_from_a_checkpoint_as_if_undisturbed(late: str) -> None:
    timing = {"compute": COMPUTE, "deadline_s": 0.09, "arrivals": 12, "late": late}
    whole, first, second = (federation(timing, participation={"devices_per_round": 15}) for _ in range(3))
    after(whole, 6)
    second.restore(after(first, 3).state())
    after(second, 6)
    assert np.array_equal(second.weights, whole.weights)
    (one,), (other,) = second.results(None), whole.results(None)
    assert one.metrics == other.metrics
    for name in ("wall_s", "num_late", "staleness"):
        np.testing.assert_array_equal(one.rounds[name], other.rounds[name])


def test_lateness_ends_the_credit_for_sampling_and_the_ledger_says_so() -> None:
    found = federation({"deadline_s": 5}, participation={"devices_per_round": 5}, aggregation=PRIVATE)
    (result,) = after(found, 2).results(None)
    assert result.account is not None
    assert TIMED in result.account.ledger.assumptions
    link, config = LinkConfig.model_validate(FADES), found._config
    assert sampled_share(config, link=link, privacy=None) is None
    assert sampled_share(config.model_copy(update={"timing": None}), link=link, privacy=None) == 0.25


def test_dropped_uploads_are_awaited_until_the_deadline() -> None:
    clock, part = clock_of({"deadline_s": 3.0}, samples=np.full(6, 2.0))
    who = part.of(0)
    clock.begin(replace(who, sends=who.devices != 2), 0)
    assert clock.end(np.array([0, 1, 3, 4, 5]), 0, airtime_s=None)["round_s"] == 3.0


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        ({}, "a round ends when all uploads have arrived"),
        ({"deadline_s": 2, "arrivals": 3}, "a round ends after 2 s or at arrival 3; late updates are dropped"),
        (
            {"arrivals": 3, "late": "keep"},
            "a round ends at arrival 3; late updates count (1 + age)^-0.5 in a later round",
        ),
    ],
)
def test_a_check_says_when_a_round_ends(timing: Any, words: str) -> None:
    config = FedAvgConfig.model_validate({**LEARNING, "timing": timing})
    assert words in config.describe(lambda _, value: str(value), link=LinkConfig.model_validate(FADES))
