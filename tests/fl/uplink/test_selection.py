"""Which devices are chosen for a round: against order statistics, shares of time and plain sorting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from fl.algorithms.fedavg.account import CHOSEN, sampled_share
from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.federation import Federation
from fl.base.arrays import F64
from fl.base.errors import LearningError
from fl.uplink.participation import Participation, ParticipationConfig
from fl.uplink.selection import RoundKnowledge, Selection, selections
from phy.config import LinkConfig
from phy.measure.counts import LinkCounts, empty_counts
from scenarios.contracts.selection import CHECKS

FADES = {"modulation": "qpsk", "channel": {"model": "flat", "fading": "rayleigh"}, "power": {"snr_max_db": 10}}
LEARNING = {
    "algorithm": "fedavg", "data": {"name": "digits", "train_samples": 200, "test_samples": 20},
    "num_devices": 20, "rounds": 3, "local": {"learning_rate": 0.1},
}  # fmt: skip

PRIVATE = {"name": "probit", "epsilon": 2.0, "l1_clip": 1.0, "bound": "adaptive"}


def participation(
    given: dict[str, Any], *, num_devices: int = 20, probe: Any = None, snr: float = 0.0
) -> Participation:
    config = ParticipationConfig.model_validate({"devices_per_round": 5, **given})
    return Participation(config, samples=np.ones(num_devices), steps=1, seed=3, trial=0, probe=probe, snr_max_db=snr)


def counts_of(gain: NDArray[Any]) -> LinkCounts:
    """A probe that measured these power gains."""
    return replace(
        empty_counts(1, len(gain)), signal_energy=7.0 * gain[None], transmit_energy=np.full((1, len(gain)), 7.0)
    )


def run(who: Participation, rounds: int) -> NDArray[np.bool_]:
    """Who was chosen, `[rounds, K]`."""
    chosen = np.zeros((rounds, len(who._samples)), bool)
    for index in range(rounds):
        found = who.of(index)
        chosen[index, found.devices] = True
        who.end(found, index)
    return chosen


def federation(selection: Any, link: dict[str, Any] = FADES, **learning: Any) -> Federation:
    part = {"devices_per_round": 5, "selection": selection}
    config = FedAvgConfig.model_validate({**LEARNING, "participation": part, **learning})
    return Federation(config, link=LinkConfig.model_validate(link), privacy=None, seed=1, trial=0)


def test_the_best_5_of_20_rayleigh_channels_have_the_mean_of_the_largest_order_statistics() -> None:
    # |h|^2 is exponential: the j-th largest of n has mean sum_{i=j}^n 1/i, and variance sum 1/i^2 (Renyi 1953).
    found = federation("best-channel")
    gains = []
    for index in range(400):
        counts = found._probe(index)
        gain = counts.signal_energy[0] / counts.transmit_energy[0]
        gains.append(np.mean(gain[found.participation.of(index).devices]))
    expected = np.mean([sum(1.0 / i for i in range(j, 21)) for j in range(1, 6)])
    error = np.std(gains) / np.sqrt(len(gains))
    assert error < 0.05
    assert abs(np.mean(gains) - expected) < 4 * error


def test_the_channel_that_is_probed_is_the_one_that_carries_the_upload() -> None:
    # The SNR that a device is received at, estimated from the noise of its upload, against P0 |h|^2 / N0 of the probe.
    found = federation("best-channel", {**FADES, "power": {"snr_max_db": 20}})
    found.round(0)
    probed = found.participation._snr_db(0)
    counts = found.record.of_trial("link")
    sent = counts["bits"][0] > 0
    assert np.flatnonzero(sent).tolist() == np.sort(np.argsort(probed)[-5:]).tolist()
    # N0 is per real dimension; the noise of n symbols has a relative standard error of n^-1/2.
    error_db = 10 / np.log(10) / np.sqrt(counts["raw_bits"][0][sent].min() / 2)
    np.testing.assert_allclose(counts["snr_db"][0][sent], probed[sent] - 10 * np.log10(2), atol=5 * error_db)


def test_every_number_that_arrives_is_that_of_the_device_that_sent_it() -> None:
    # Without bit errors the server's update is the mean of what the chosen have trained, by their numbers of samples.
    loud = {**FADES, "power": {"snr_max_db": 60}}
    unequal = {"codec": "binary32", "partition": {"kind": "dirichlet", "alpha": 0.5}}
    found = federation("best-channel", loud, **unequal)
    start, devices = found.weights.copy(), found.participation.of(0).devices
    trained = federation("best-channel", loud, **unequal)._trainer.train(start, devices=devices, round_index=0)
    found.round(0)
    assert found.record.of_trial("link")["bit_errors"].sum() == 0
    sizes = found._sizes[devices]
    assert len(set(sizes)) > 1
    mean = (sizes @ (trained.weights - start).astype(np.float64)) / sizes.sum()
    np.testing.assert_allclose(found.weights - start, mean, atol=1e-6)


def test_an_outdated_probe_is_that_of_an_earlier_round_and_none_before_the_first() -> None:
    asked: list[int] = []
    gains = np.random.default_rng(1).exponential(size=(30, 20))

    def probe(index: int) -> LinkCounts:
        asked.append(index)
        return counts_of(gains[index])

    late = participation({"selection": {"name": "best-channel", "outdated_rounds": 4}}, probe=probe)
    chosen = run(late, 30)
    for index in range(4, 30):
        assert set(np.flatnonzero(chosen[index])) == set(np.argsort(gains[index - 4])[-5:])
    assert asked == list(range(26)), "each probe once"
    plain = run(participation({}), 4)
    assert (chosen[:4] == plain).all(), "without a probe the choice is that of a draw"


def test_proportional_fairness_gives_equal_time_to_devices_of_unequal_gain_where_rates_are_linear() -> None:
    # Far below 0 dB rates are proportional to gains, and fades of all devices have one shape: the best relative to its
    # own mean is every device alike (Viswanath et al. 2002). The best channel starves the weak.
    draws, mean_gain = np.random.default_rng(2).exponential(size=(2000, 20)), np.geomspace(0.1, 10.0, 20)

    def probe(index: int) -> LinkCounts:
        return counts_of(mean_gain * draws[index])

    def time(selection: Any) -> NDArray[Any]:
        return run(participation({"selection": selection}, probe=probe, snr=-40.0), 2000).mean(axis=0)

    fair, best = time({"name": "proportional-fair", "window": 200}), time("best-channel")
    assert np.abs(fair - 0.25).max() < 0.03
    assert best[:5].max() < 0.01
    assert best[-1] > 0.6
    gained = (
        draws
        * run(participation({"selection": {"name": "proportional-fair", "window": 200}}, probe=probe, snr=-40.0), 2000)
    ).sum(axis=0)
    alone = sum(1.0 / i for j in range(1, 6) for i in range(j, 21)) / 20  # the five best of 20, shared by 20
    np.testing.assert_allclose(gained / 2000, alone, rtol=0.1)


def test_turns_and_ages_serve_everybody_equally() -> None:
    for name in ("round-robin", "by-age"):
        who = participation({"selection": name})
        chosen = run(who, 8)
        assert (chosen[:4].sum(axis=0) == 1).all(), name
        assert (chosen.sum(axis=0) == 2).all(), name
        assert who.metrics() == {"participation_fairness": 1.0}
    turns = run(participation({"selection": "round-robin"}, num_devices=7), 3)
    assert [np.flatnonzero(row).tolist() for row in turns] == [[0, 1, 2, 3, 4], [0, 1, 2, 5, 6], [0, 3, 4, 5, 6]]


@pytest.mark.parametrize(("name", "key"), [("by-loss", "loss"), ("by-update-norm", "update_norm")])
def test_the_largest_reports_are_chosen_and_those_without_one_first(name: str, key: str) -> None:
    who, values = participation({"selection": name}), np.random.default_rng(4).random(20)

    def report(devices: NDArray[Any]) -> None:
        both = {"loss": np.zeros(len(devices)), "update_norm": lambda: np.zeros(len(devices))}
        both[key] = values[devices] if key == "loss" else lambda: values[devices]
        who.note(devices, **both)

    seen: set[int] = set()
    for index in range(4):
        found = who.of(index)
        assert not seen.intersection(found.devices.tolist())
        seen.update(found.devices.tolist())
        report(found.devices)
        who.end(found, index)
    assert who.of(4).devices.tolist() == np.sort(np.argsort(values)[-5:]).tolist()


def test_a_run_reports_loss_and_norm_of_those_that_trained() -> None:
    found = federation("by-update-norm")
    before = found.weights.copy()
    found.round(0)
    who = found.participation
    (there,) = np.nonzero(~np.isnan(who._update_norm))
    assert len(there) == 5
    again = federation("by-update-norm")._trainer.train(before, devices=there, round_index=0)
    np.testing.assert_allclose(who._update_norm[there], np.linalg.norm(again.weights - before, axis=1), rtol=1e-6)
    np.testing.assert_allclose(who._loss[there], again.loss, rtol=1e-6)


@pytest.mark.parametrize("name", selections.words())
def test_a_run_goes_on_from_a_checkpoint_as_if_undisturbed(name: str) -> None:
    whole, first, second = (federation(name, rounds=4) for _ in range(3))
    for index in range(4):
        whole.round(index)
    for index in range(2):
        first.round(index)
    second.restore(first.state())
    for index in range(2, 4):
        second.round(index)
    assert np.array_equal(second.weights, whole.weights)
    assert second.participation.metrics() == whole.participation.metrics()
    assert (
        second.record.of_trial("rounds")["participation_age"].tolist()
        == whole.record.of_trial("rounds")["participation_age"].tolist()
    )


@pytest.mark.parametrize("name", selections.words())
def test_every_selection_keeps_the_contract(name: str) -> None:
    for check in CHECKS:
        check(selections.read(name))


def test_fairness_is_the_index_of_jain() -> None:
    who = participation({"selection": "best-channel"}, num_devices=10, probe=lambda _: counts_of(np.arange(10.0)))
    run(who, 7)  # the same five in every round
    assert who.metrics() == {"participation_fairness": pytest.approx(0.5)}
    assert participation({}, num_devices=5).metrics() == {}


def test_only_a_draw_at_random_is_credited_for_those_it_leaves_out() -> None:
    link = LinkConfig.model_validate(FADES)
    for name in selections.words():
        part = {"devices_per_round": 5, "selection": name}
        config = FedAvgConfig.model_validate({**LEARNING, "participation": part})
        assert sampled_share(config, link=link, privacy=None) == (0.25 if name == "random" else None)


def test_a_ledger_says_that_the_choice_hides_nobody() -> None:
    for name, told in (("random", False), ("best-channel", True)):
        found = federation(name, aggregation=PRIVATE)
        for index in range(3):
            found.round(index)
        (result,) = found.results(None)
        assert result.account is not None
        assert (CHOSEN.format("best channel") in result.account.ledger.assumptions) == told


@pytest.mark.parametrize(
    ("part", "link", "words"),
    [
        ({"selection": "best-channel", "devices_per_round": None}, {}, "chooses nobody where all 20 devices take part"),
        (
            {"selection": "best-channel"},
            {"access": "superposition"},
            "a probe of every device, which nobody sees in a sum",
        ),
        ({"selection": "proportional-fair"}, {"error_model": "error_free"}, "error_model error_free has none"),
        ({"selection": "by-loss"}, {}, "tells the loss of devices, which no privacy mechanism protects"),
        ({"selection": "by-update-norm"}, {}, "tells the update norm of devices"),
    ],
)
def test_what_a_selection_cannot_know_or_must_not_tell_is_refused(part: Any, link: Any, words: str) -> None:
    private = {"aggregation": PRIVATE} if "tells" in words else {}
    given = {**LEARNING, **private, "participation": {"devices_per_round": 5, **part}}
    config = FedAvgConfig.model_validate(given)
    found = [str(one) for one in config.conflicts(link=LinkConfig.model_validate({**FADES, **link}), privacy=None)]
    assert any(words in one for one in found), found


class Broken(Selection):
    """Scores of a kind that no server can sort."""

    name: Literal["broken"] = "broken"
    scores_are: ClassVar[F64] = np.full(20, np.nan)

    def scores(self, known: RoundKnowledge) -> F64:
        """Return what the test asks for."""
        del known
        return self.scores_are


@pytest.mark.parametrize(("scores", "words"), [(np.full(20, np.nan), "NaN as a score"), (np.zeros(3), "shape")])
def test_scores_that_cannot_be_sorted_end_the_trial_in_one_sentence(scores: F64, words: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(Broken, "scores_are", scores)
    who = participation({"selection": Broken()})
    with pytest.raises(LearningError, match=words):
        who.of(0)
