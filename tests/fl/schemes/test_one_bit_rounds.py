"""One-bit schemes, rivals and attackers as parts of whole rounds over the link."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from scipy.special import ndtri

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.federation import Federation
from fl.algorithms.run import run_trials
from fl.base.results import TrialResult
from fl.schemes.scheme import Scheme
from phy.config import LinkConfig

NO_RADIO = LinkConfig.model_validate({"error_model": "error_free"})
SEED = 8
RIVALS: tuple[dict[str, Any], ...] = (
    {"name": "cpa"},
    {"name": "cpa", "stages": 2, "decode": "unbiased", "epsilon": 5.0},
    {"name": "cpa", "dimension": 2, "dither": True, "radius": "scaled", "gamma": 2.0},
    {"name": "probit", "bound": "adaptive", "b": 0.5},
    {"name": "probit", "epsilon": 1.0, "l1_clip": 0.1, "bound": "adaptive"},
    {"name": "sign", "epsilon": 0.5, "step": 0.01},
    {"name": "laplace", "epsilon": 5.0},
    {"name": "jopeq", "epsilon": 5.0},
    {"name": "mvu", "epsilon": 5.0},
    {"name": "median"},
    {"name": "trimmed-mean"},
    {"name": "geometric-median"},
    {"name": "rsa"},
)


def setting(aggregation: Any = "mean", **changes: Any) -> FedAvgConfig:
    """Digits on twenty devices, linear model."""
    return FedAvgConfig.model_validate(
        {
            "num_devices": 20,
            "rounds": 2,
            "partition": {"kind": "iid", "samples_per_device": 20},
            "local": {"learning_rate": 0.5, "steps": 2},
            "codec": "binary32",
            "receiver_limit": 1e3,
            "aggregation": aggregation,
            **changes,
        }
    )


def radio(rate: float, **changes: Any) -> LinkConfig:
    """Uncoded QPSK over AWGN at a bit error rate."""
    snr_max_db = 10.0 * np.log10(2.0 * ndtri(rate) ** 2)
    power = {"policy": "fixed", "snr_max_db": float(snr_max_db)}
    return LinkConfig.model_validate({"power": power, "probe_bits": 100_000, **changes})


def run(config: FedAvgConfig, link: LinkConfig = NO_RADIO, seed: int = SEED) -> TrialResult:
    found = run_trials(config, link=link, privacy=None, seed=seed, trials=[0])[0]
    assert found.failure is None, found.failure
    return found


@pytest.mark.parametrize("aggregation", RIVALS, ids=lambda a: "-".join(map(str, a.values())))
def test_every_aggregation_runs_over_packets_that_are_lost_and_devices_that_drop_out(aggregation: Any) -> None:
    config = setting(aggregation, participation={"devices_per_round": 15, "dropout": 0.2})
    lossy = radio(2e-3, packets={"policy": "drop"}, packet_size_bytes=16)
    if aggregation["name"] in ("cpa", "probit", "sign"):
        config = setting(
            {**aggregation, "channel": "agnostic"}, participation={"devices_per_round": 15, "dropout": 0.2}
        )
    found = run(config, lossy)
    assert found.link["dropped"].sum() > 0, "no packet was lost: nothing was put to the test"
    assert np.isfinite(found.rounds["aggregation_mse"]).all()
    again = run(config, lossy)
    np.testing.assert_array_equal(found.rounds["test_loss"], again.rounds["test_loss"])


@pytest.mark.parametrize("aggregation", RIVALS, ids=lambda a: "-".join(map(str, a.values())))
def test_a_round_in_which_nothing_arrives_leaves_the_model_as_it_is(aggregation: Any) -> None:
    federation = Federation(
        setting(aggregation, participation={"dropout": 0.999999}), link=NO_RADIO, privacy=None, seed=SEED, trial=0
    )
    before = federation.weights.copy()
    federation.round(0)
    np.testing.assert_array_equal(federation.weights, before)
    assert federation.record.of_trial("rounds")["num_active"] == 0


def test_rounds_in_which_nobody_sends_have_no_error_and_do_not_enter_its_mean() -> None:
    config = setting({"name": "probit"}, num_devices=2, rounds=8, participation={"dropout": 0.7})
    found = run(config)
    empty = found.rounds["num_active"] == 0
    assert 0 < empty.sum() < 8, "choose another seed"
    errors = found.rounds["aggregation_mse"]
    np.testing.assert_array_equal(np.isnan(errors), empty)
    assert found.metrics["aggregation_mse"] == pytest.approx(errors[~empty].mean())
    assert found.metrics["empty_rounds"] == empty.sum()


@pytest.mark.parametrize("name", ["cpa", "probit", "sign"])
def test_one_bit_per_number_is_sent(name: str) -> None:
    found = run(setting({"name": name}, rounds=1))
    assert found.metrics["upload_bits"] == found.metrics["num_parameters"]
    assert (found.link["bits"] == found.metrics["num_parameters"]).all()


def test_native_response_leaves_to_the_channel_what_it_surely_does() -> None:
    config = setting({"name": "cpa", "epsilon": 2.0, "decode": "unbiased"}, rounds=1)
    found = run(config, radio(0.05))
    target = 1.0 / (1.0 + np.exp(2.0))
    low, added = found.devices["probed_low"], found.devices["flip_probability"]
    assert (low < 0.05).mean() > 0.9
    np.testing.assert_allclose(added + low - 2 * added * low, target)
    agnostic = run(setting({"name": "cpa", "epsilon": 2.0, "channel": "agnostic"}, rounds=1), radio(0.05))
    np.testing.assert_allclose(agnostic.devices["flip_probability"], target)


def test_errors_that_never_arrive_are_no_response_and_errors_in_bursts_are_little() -> None:
    target = 1.0 / (1.0 + np.exp(2.0))
    config = setting({"name": "cpa", "epsilon": 2.0}, rounds=1)
    dropped = run(config, radio(0.001, packets={"policy": "drop"}, packet_size_bytes=16))
    np.testing.assert_allclose(dropped.devices["flip_probability"], target)
    bursts = radio(0.05, channel={"fading": "rayleigh", "coherence": "packet"}, packet_size_bytes=100)
    credit = []
    for link in (bursts, radio(0.05)):
        devices = run(config, link).devices
        credit.append(devices["probed_low"] / (devices["probed_errors"] / devices["probed_bits"]))
    assert credit[0].max() < credit[1].min()


@pytest.mark.parametrize("channel", ["native", "debias", "agnostic"])
def test_the_decode_undoes_what_response_and_channel_did_to_the_mean(channel: str) -> None:
    # Updates of one device, repeated by all: the mean of decodes over rounds must come back to it, but for `agnostic`,
    # which leaves out the 1 - 2 p_C = 0.8 of the channel.
    config = setting({"name": "probit", "b": 1.0, "channel": channel}, num_devices=200, rounds=1)
    config = config.model_copy(update={"partition": config.partition.model_copy(update={"samples_per_device": 5})})
    federation = Federation(config, link=radio(0.1), privacy=None, seed=SEED, trial=0)
    federation.round(0)
    (exact_mse,) = federation.record.of_trial("rounds")["aggregation_mse"]
    # Var = b^2 / (K f^2) at most, f = 0.8 undone or 1.
    expected = 1.0 / 200 / (1.0 if channel == "agnostic" else 0.64)
    assert exact_mse == pytest.approx(expected, rel=4 * np.sqrt(2 / 650) + 0.02)


def test_constant_ones_and_poisoned_labels_hurt_the_mean_and_the_median_bears_outliers() -> None:
    honest = run(setting(rounds=8)).metrics["test_accuracy"]
    attack = {"kind": "gaussian", "std": 10.0, "share": 0.2}
    poisoned = run(setting(rounds=8, attack={"kind": "labels", "share": 0.45})).metrics["test_accuracy"]
    assert poisoned < honest - 0.05
    assert run(setting(rounds=8, attack=attack)).metrics["test_accuracy"] < 0.5
    assert run(setting("median", rounds=8, attack=attack)).metrics["test_accuracy"] > 0.6
    found = run(setting(rounds=1, attack=attack))
    assert found.rounds["num_attackers"] == [4.0]


def test_personal_models_do_better_at_home_than_the_global_one_where_devices_differ() -> None:
    config = setting(
        rounds=6,
        partition={"kind": "labels", "labels_per_device": 2, "samples_per_device": 60},
        personal={"lam": 0.1},
        local={"learning_rate": 0.5, "steps": 10},
    )
    found = run(config)
    assert found.metrics["personal_accuracy"] > found.metrics["global_accuracy_at_home"] + 0.05
    assert found.devices["personal_accuracy"].shape == (6, 20)


def test_the_signal_to_noise_ratio_is_that_of_the_update_and_its_error() -> None:
    federation = Federation(setting({"name": "probit", "b": 0.2}), link=NO_RADIO, privacy=None, seed=SEED, trial=0)
    exact = Federation(setting(), link=NO_RADIO, privacy=None, seed=SEED, trial=0)
    before = federation.weights.copy()
    federation.round(0)
    told = {name: values[0] for name, values in federation.record.of_trial("rounds").items()}
    exact.round(0)
    wanted, found = exact.weights - before, federation.weights - before
    by_hand = [
        10 * np.log10(np.var(wanted[piece.place]) / np.var((wanted - found)[piece.place]))
        for piece in federation.model.pieces
    ]
    assert told["aggregation_snr_db"] == pytest.approx(np.mean(by_hand), abs=1e-3)
    as_coded = 20 * np.log10(np.mean([10 ** (level / 10) for level in by_hand]))
    assert told["aggregation_snr_20log_db"] == pytest.approx(as_coded, abs=1e-3)


class Midrange(Scheme):
    """The middle between the least and the largest number."""

    uses_codec: ClassVar[bool] = True

    name: Literal["midrange"] = "midrange"

    def aggregate(self, values: Any, *, weights: Any, known: Any, otherwise: Any) -> Any:
        """See `Scheme.aggregate`."""
        del weights, otherwise
        assert known is None
        return 0.5 * (values.min(axis=0) + values.max(axis=0))


def test_an_aggregator_of_ones_own_gets_the_numbers_that_the_codec_decoded() -> None:
    devices = {"num_devices": 2, "weighting": "equal"}
    own = run(setting(Midrange(), **devices))
    # Of two numbers the midrange is the mean, up to rounding; of three it is not.
    np.testing.assert_allclose(own.rounds["test_loss"], run(setting("mean", **devices)).rounds["test_loss"], rtol=1e-5)
    devices["num_devices"] = 3
    three = run(setting(Midrange(), **devices)).rounds["test_loss"]
    assert np.abs(three / run(setting("mean", **devices)).rounds["test_loss"] - 1.0).max() > 1e-5
