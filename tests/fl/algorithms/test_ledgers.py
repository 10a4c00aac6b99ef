"""What trials released, as their records tell it: every kind of scheme, and what of the channel counts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flmc_setting import RAYLEIGH, SEED, paper_config, paper_link, printed_bound
from scipy.special import ndtri

from fl.algorithms.fedavg.account import TOLD_BY_ATTACKERS, fedavg_account, sampled_share
from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.flmc.account import MANY_LOOKS, NO_NOISE, flmc_account
from fl.algorithms.run import run_trials
from fl.base.results import PrivacyAccount, TrialResult
from fl.schemes.jopeq import JopeqScheme
from phy.config import LinkConfig
from privacy.config import BitFlippingConfig, GaussianConfig, PrivacyConfig, SchemeBudget
from privacy.events.events import Ledger
from privacy.events.published import CLEAR_SCALES, ONE_STEP
from privacy.mechanisms.bit_flipping import composed_rate
from privacy.mechanisms.gaussian_mechanism import spent_epsilon

NUM_DEVICES, NUM_VALUES = 6, 650


def radio(rate: float = 0.02, **changes: Any) -> LinkConfig:
    snr_max_db = 10.0 * np.log10(2.0 * ndtri(rate) ** 2)
    settings = {"access": "orthogonal", "modulation": "qpsk", "probe_bits": 20_000}
    power = {"policy": "fixed", "snr_max_db": float(snr_max_db)}
    return LinkConfig.model_validate({**settings, "power": power, **changes})


SMALL_PACKETS = radio(packet_size_bytes=64)


def setting(aggregation: Any, **changes: Any) -> FedAvgConfig:
    return FedAvgConfig.model_validate(
        {
            "num_devices": NUM_DEVICES,
            "rounds": 3,
            "partition": {"kind": "iid", "samples_per_device": 10},
            "local": {"learning_rate": 0.1, "steps": 1, "clip": 1.0},
            "codec": "binary32",
            "receiver_limit": 10.0,
            "aggregation": aggregation,
            **changes,
        }
    )


def account(
    aggregation: Any = "mean", *, link: LinkConfig | None = None, privacy: Any = None, **changes: Any
) -> TrialResult:
    config = setting(aggregation, **changes)
    result = run_trials(config, link=link or radio(), privacy=privacy, seed=3, trials=[0])[0]
    assert result.failure is None, result.failure
    assert result.account is not None
    return result


def flipping(**changes: Any) -> BitFlippingConfig:
    settings = {"mechanism": "bit-flipping", "epsilon": 10.0, "kappa": 0.02}
    return BitFlippingConfig.model_validate({**settings, **changes})


def flipped(privacy: BitFlippingConfig, *, link: LinkConfig | None = None, **changes: Any) -> TrialResult:
    return account(link=link, privacy=privacy, codec="fixed-point", **changes)


def of(result: TrialResult) -> PrivacyAccount:
    assert result.account is not None
    return result.account


def test_digital_flmc_releases_one_superposed_bit_per_entry_at_the_strongest_devices_amplitude() -> None:
    link = paper_link("digital", channel={**RAYLEIGH, "noise_power": 0.25})
    result = run_trials(
        paper_config("digital", rounds=6, burn_in=0), link=link, privacy=printed_bound(5.0), seed=1, trials=[4]
    )[0]
    ledger = of(result).ledger
    assert (ledger.kind, ledger.coordinates, ledger.unit) == ("superposed-bits", 5, "device")
    assert ledger.facts["entry_bound"] == pytest.approx(1.5)
    peak = result.rounds["peak_amplitude"]
    np.testing.assert_allclose(ledger.parameter[:, 0], np.where(peak > 0, peak, np.nan) / 0.5)
    assert ledger.uncredited is not None
    assert np.all(np.isinf(ledger.uncredited[peak > 0]))
    (claim,) = of(result).published
    assert claim.standing == "as published"
    assert claim.scope == "round"
    assert claim.delta == result.privacy["delta_spent"].max()


def flmc(scheme: str, *, epsilon: float | None) -> TrialResult:
    return run_trials(
        paper_config(scheme, rounds=4, burn_in=0),
        link=paper_link(scheme),
        privacy=None if epsilon is None else PrivacyConfig(epsilon=epsilon),
        seed=SEED,
        trials=[0],
    )[0]


def test_analog_flmc_releases_a_gradient_at_the_largest_distance_under_gaussian_noise() -> None:
    result = flmc("analog", epsilon=5.0)
    ledger = of(result).ledger
    amplitude = result.rounds["peak_amplitude"]
    farthest = amplitude * math.sqrt(5 * 60.0**2)  # every one of 5 entries from -30 to 30
    np.testing.assert_allclose(ledger.parameter[:, 0], 1.0 / farthest)
    assert ledger.uncredited is not None
    assert not ledger.uncredited.any()


@pytest.mark.parametrize(
    ("scheme", "changes"),
    [
        ("digital", {"error_model": "error_free"}),
        ("analog", {"error_model": "error_free"}),
        ("digital-orthogonal", {"error_model": "error_free"}),
        ("digital-orthogonal", {"error_model": "analytic"}),
        ("digital-orthogonal", {"coding": {"code": "repetition", "rate": 0.5}}),
        ("digital-orthogonal", {"packets": {"policy": "retransmit"}}),
        ("digital-orthogonal", {"receiver": {"num_antennas": 2}}),
        ("digital-orthogonal", {"modulation": "16qam"}),
    ],
)
def test_noise_that_is_not_there_or_met_more_than_once_hides_nothing(scheme: str, changes: dict[str, Any]) -> None:
    config, link = paper_config(scheme, rounds=2, burn_in=0), paper_link(scheme, **changes)
    ledger = flmc_account(config, link=link, privacy=None, peak=np.array([0.1, 0.0])).ledger
    assert ledger.uncredited is None
    assert not ledger.credit_assumptions
    assert ledger.assumptions[1] == (NO_NOISE if "error_model" in changes else MANY_LOOKS)
    # What is left are the bits' own draws, or nothing.
    np.testing.assert_array_equal(ledger.parameter[:, 0], [0.0 if scheme == "analog" else np.inf, np.nan])
    honest = flmc_account(config, link=paper_link(scheme), privacy=None, peak=np.array([0.1, 0.0]))
    assert honest.ledger.uncredited is not None


def test_langevin_noise_of_a_server_that_needs_no_radio_releases_nothing() -> None:
    assert flmc("noiseless", epsilon=None).account is None


def test_flips_and_the_sure_part_of_the_channel_are_composed_bit_by_bit() -> None:
    result = flipped(flipping(), link=radio(0.002))
    ledger = of(result).ledger
    own, low = result.devices["flip_probability"], result.devices["probed_low"]
    np.testing.assert_array_equal(ledger.parameter, composed_rate(own, low))
    assert ledger.uncredited is not None
    np.testing.assert_array_equal(ledger.uncredited, own)
    assert ledger.coordinates == 23 * NUM_VALUES
    assert ledger.credit_failure == pytest.approx(0.01)
    assert not ledger.assumptions
    assert any("by the law of the link" in sentence for sentence in ledger.credit_assumptions)
    assert any("sees decided bits alone" in sentence for sentence in ledger.credit_assumptions)
    # The sure rate is what Theorem 1 asks for, unless the channel alone makes more.
    assert ledger.parameter.min() == pytest.approx(result.devices["target"].min())


@pytest.fixture(scope="module")
def independent() -> TrialResult:
    """What a run sent over a link whose errors are independent, in packets of which many are in error."""
    trial = setting("mean", codec="fixed-point").build(link=SMALL_PACKETS, privacy=flipping(), seed=3, trials=(0,))
    for index in range(3):
        trial.round(index)
    sent: list[TrialResult] = []
    trial.record.results((0,), metrics=({},), failures=(None,), account=sent.append)
    return sent[0]


def told_of(result: TrialResult, **changes: Any) -> Ledger:
    """The ledger of the same records, had they come over a link of another law."""
    link = LinkConfig.model_validate({**SMALL_PACKETS.model_dump(exclude_unset=True), **changes})
    config = setting("mean", codec="fixed-point")
    found = fedavg_account(config, result, link=link, privacy=flipping(), num_values=NUM_VALUES)
    assert found is not None
    return found.ledger


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"coding": {"code": "convolutional", "rate": 0.5}}, "no test of counted errors shows that they are"),
        ({"packets": {"policy": "drop"}}, "do not arrive"),
    ],
    ids=["coded", "lost packets"],
)
def test_errors_that_may_come_together_or_never_arrive_are_not_credited(
    independent: TrialResult, changes: dict[str, Any], reason: str
) -> None:
    ledger = told_of(replace(independent, bursts={}), **changes)
    assert ledger.uncredited is None
    assert ledger.credit_failure == 0.0
    (sentence,) = ledger.assumptions
    assert reason in sentence


def test_errors_of_no_known_law_are_credited_once_those_counted_in_the_run_pass_as_independent(
    independent: TrialResult,
) -> None:
    ledger = told_of(independent, coding={"code": "repetition", "rate": 0.5})
    assert ledger.uncredited is not None
    assert np.all(ledger.parameter > ledger.uncredited)
    assert any("a test is no proof" in sentence for sentence in ledger.credit_assumptions)


def test_bits_that_share_an_axis_err_at_rates_of_their_own_and_are_not_credited() -> None:
    ledger = of(flipped(flipping(), link=radio(modulation="16qam", packet_size_bytes=64))).ledger
    assert ledger.uncredited is None
    assert "are not independent" in ledger.assumptions[0]


def test_an_agnostic_mechanism_credits_nothing_though_the_channel_errs() -> None:
    result = flipped(flipping(channel="agnostic"))
    ledger = of(result).ledger
    np.testing.assert_array_equal(ledger.parameter, result.devices["flip_probability"])
    assert ledger.uncredited is None


def test_a_block_cipher_releases_the_padding_of_its_blocks_as_well() -> None:
    ledger = of(flipped(flipping(cipher="aes", channel="agnostic"))).ledger
    assert ledger.coordinates == 128 * -(-23 * NUM_VALUES // 128)
    # One number of 23 bits may lie across two blocks, all bits of which it changes.
    assert ledger.per_number == 256


def test_the_gaussian_noise_of_a_calibrated_run_adds_up_to_the_epsilon_asked_for() -> None:
    privacy = GaussianConfig(mechanism="gaussian", epsilon=2.0, delta=1e-3, calibration="dp-accounting")
    result = account(privacy=privacy)
    ledger = of(result).ledger
    assert np.all(ledger.parameter == ledger.parameter[0, 0])
    found = spent_epsilon(sigma=ledger.parameter[0, 0], sensitivity=1.0, num_rounds=3, delta=1e-3)
    assert float(found) == pytest.approx(2.0, rel=1e-3)
    assert ledger.parameter[0, 0] == pytest.approx(result.metrics["sigma"] / result.metrics["sensitivity"])


def test_several_local_steps_void_the_printed_sensitivity_and_the_ledger_says_so() -> None:
    privacy = GaussianConfig(mechanism="gaussian", epsilon=2.0)
    result = account(privacy=privacy, local={"learning_rate": 0.1, "clip": 1.0, "steps": 2})
    assert of(result).ledger.assumptions == (ONE_STEP,)
    assert of(result).published[0].assumptions == (ONE_STEP,)


@pytest.mark.parametrize("stages", [1, 2])
def test_every_stage_of_cpa_releases_one_flipped_bit_per_number(stages: int) -> None:
    result = account({"name": "cpa", "epsilon": 0.5, "stages": stages, "channel": "agnostic"})
    ledger = of(result).ledger
    assert (ledger.kind, ledger.unit, ledger.coordinates) == ("flipped-bits", "device", stages * NUM_VALUES)
    assert ledger.per_number == stages
    each = np.log((1.0 - ledger.parameter) / ledger.parameter)
    np.testing.assert_allclose(each, 0.5, rtol=1e-12)
    assert of(result).published[0].scope == "coordinate"


@pytest.mark.parametrize("aggregation", ["mean", "median", {"name": "cpa", "epsilon": "none"}, {"name": "probit"}])
def test_what_has_no_mechanism_is_unprotected_whatever_the_channel_does(aggregation: Any) -> None:
    assert of(account(aggregation)).ledger.kind == "unprotected"


def test_probit_spends_the_exact_loss_of_its_b_and_a_credited_channel_lets_the_device_alone_spend_more() -> None:
    scheme = {"name": "probit", "epsilon": 1.0, "l1_clip": 0.05, "bound": "adaptive"}
    honest = of(account({**scheme, "channel": "agnostic"})).ledger
    assert (honest.kind, honest.coordinates) == ("pure", 1)
    assert np.all(honest.parameter <= 1.0)
    native = of(account({**scheme, "channel": "native"})).ledger
    assert native.uncredited is not None
    assert np.all(native.parameter <= 1.0)
    assert np.all(native.uncredited > native.parameter)


def test_jopeq_is_counted_by_the_noise_below_its_dither_and_laplace_by_its_own() -> None:
    jopeq = of(account({"name": "jopeq", "epsilon": 1.0})).ledger
    assert jopeq.kind == "laplace"
    assert CLEAR_SCALES in jopeq.assumptions
    # Variance 2 (2 / eps)^2 less that of the dither, D^2 / 12 with D = 2 gamma / 3, gamma = 1.5 sqrt(1 + 2 (2/eps)^2).
    variance = 2.0 * 4.0 - (1.0 + 8.0) / 12.0
    np.testing.assert_allclose(jopeq.parameter, 2.0 / math.sqrt(variance / 2.0), rtol=1e-6)
    laplace = of(account({"name": "laplace", "epsilon": 1.0})).ledger
    np.testing.assert_array_equal(laplace.parameter, 1.0)
    assert JopeqScheme(name="jopeq").epsilon == 0.5
    unclipped = of(account({"name": "laplace", "epsilon": 1.0, "as_coded": True}))
    assert unclipped.ledger.kind == "unprotected"
    assert unclipped.published[0].epsilon == 1.0


def test_devices_that_sat_out_a_round_released_nothing_in_it() -> None:
    result = account({"name": "cpa", "channel": "agnostic"}, participation={"devices_per_round": 2}, link=radio())
    ledger = of(result).ledger
    sent = ~np.isnan(ledger.parameter)
    np.testing.assert_array_equal(sent, result.link["bits"] > 0)
    np.testing.assert_array_equal(sent.sum(axis=1), 2)
    assert ledger.sampled == pytest.approx(2 / NUM_DEVICES)


DRAWN: dict[str, Any] = {"aggregation": "cpa", "participation": {"devices_per_round": 2}}
BUDGET = {"epsilon": 100.0, "calibrate": False}


def share(*, link: LinkConfig | None = None, privacy: Any = None, **changes: Any) -> float | None:
    return sampled_share(setting(**{**DRAWN, **changes}), link=link or radio(), privacy=privacy)


def test_who_is_drawn_hides_among_the_others_unless_something_tells_or_remembers() -> None:
    assert share() == pytest.approx(2 / NUM_DEVICES)
    momentum = {"optimizer": "sgd", "batch_size": 2, "momentum": 0.5}
    assert share(local={**momentum, "keep_state": False}) is not None
    told: dict[str, Any] = {
        "state of the optimizer": share(local=momentum),
        "state of the downlink": share(downlink=radio()),
        "a gain of one's own": share(link=radio(channel={"gain": [0.1] * NUM_DEVICES})),
        "a fade that lasts": share(link=radio(channel={**RAYLEIGH, "coherence": "run"})),
        "scales in the clear": share(aggregation={"name": "jopeq", "epsilon": 1.0}),
        "attackers": share(attack={"kind": "ones", "share": 0.5}),
        "a budget that runs out": share(privacy=SchemeBudget.model_validate({"mechanism": "scheme", "budget": BUDGET})),
        "everybody": share(participation={"devices_per_round": NUM_DEVICES}),
    }
    assert {name: value for name, value in told.items() if value is not None} == {}


def test_attackers_who_hand_on_what_honest_devices_computed_are_named() -> None:
    copied = of(account({"name": "cpa", "channel": "agnostic"}, attack={"kind": "duplicate", "devices": [0]}))
    assert copied.ledger.assumptions == (TOLD_BY_ATTACKERS,)


def test_the_round_in_which_the_servers_model_diverged_was_on_the_air_and_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fl.schemes.aggregation.update_kernels._DIVERGED", 1e6)
    config = setting("mean", attack={"kind": "gaussian", "std": 1e9, "devices": [1]}, receiver_limit=None)
    privacy = GaussianConfig(mechanism="gaussian", epsilon=2.0)
    failed = run_trials(config, link=radio(error_model="error_free"), privacy=privacy, seed=3, trials=[0])[0]
    assert failed.failure is not None
    assert failed.failure.startswith("round 1: the server's model")
    assert "train_loss" not in failed.rounds
    assert of(failed).ledger.parameter.shape == (1, NUM_DEVICES)
    assert np.isfinite(of(failed).ledger.parameter).all()


def test_numbers_that_the_codec_would_clip_are_never_sent() -> None:
    narrow = {"name": "uniform", "bits": 8, "bound": 1e-9, "max_clipped": 0.01}
    refused = run_trials(setting("mean", codec=narrow), link=radio(), privacy=None, seed=3, trials=[0])[0]
    assert refused.failure is not None
    assert "beyond the codec's bound" in refused.failure
    assert refused.account is None


@pytest.mark.parametrize("scheme", ["analog", "digital"])
def test_the_round_in_which_langevin_diverged_was_on_the_air_and_counts(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Clipped gradients take parameters no farther than some steps: a nearer end of all numbers will do.
    monkeypatch.setattr("fl.algorithms.flmc.trials._DIVERGED", 3.0)
    config = paper_config(scheme, rounds=40, burn_in=0, step_size=0.5)
    failed = run_trials(config, link=paper_link(scheme), privacy=None, seed=SEED, trials=[0])[0]
    assert failed.failure is not None
    last = int(failed.failure.split()[1].rstrip(":")) - 1
    assert len(failed.rounds["peak_amplitude"]) == last
    ledger = of(failed).ledger
    assert ledger.parameter.shape == (last + 1, 1)
    assert np.isfinite(ledger.parameter).all()


def test_a_trial_that_failed_still_has_an_account_of_the_rounds_before() -> None:
    aggregation = {"name": "cpa", "channel": "agnostic"}
    whole = account(aggregation)
    failed = replace(
        whole,
        failure="round 2: the model has diverged",
        metrics={},
        rounds={name: values[:2] for name, values in whole.rounds.items()},
        link={name: values[:2] for name, values in whole.link.items()},
        devices={name: values[:2] for name, values in whole.devices.items()},
    )
    found = fedavg_account(setting(aggregation), failed, link=radio(), privacy=None, num_values=NUM_VALUES)
    assert found is not None
    np.testing.assert_array_equal(found.ledger.parameter, of(whole).ledger.parameter[:2])
    assert found.ledger.coordinates == of(whole).ledger.coordinates


@pytest.mark.parametrize("scheme", ["analog", "digital"])
def test_noise_that_may_be_weaker_and_listeners_who_may_hear_better_hold_the_amplitude_down(scheme: str) -> None:
    link = paper_link(scheme)

    def run(**less: float) -> TrialResult:
        privacy = PrivacyConfig(epsilon=1.0, **less)
        learning = paper_config(scheme, rounds=4, burn_in=0, lmc_cap="none")
        return run_trials(learning, link=link, privacy=privacy, seed=SEED, trials=[0])[0]

    trusting, careful = run(), run(noise_tolerance_db=1.0, listener_advantage_db=2.0)
    ratio = careful.rounds["peak_amplitude"] / trusting.rounds["peak_amplitude"]
    np.testing.assert_allclose(ratio, 10.0 ** (-3.0 / 20.0), rtol=1e-5)
    # Against the noise that is surely there the two are the same release.
    np.testing.assert_allclose(of(careful).ledger.parameter, of(trusting).ledger.parameter, rtol=1e-5)
    (sentence,) = of(careful).ledger.credit_assumptions
    assert "at most 2 dB better" in sentence
    assert "at most 1 dB below" in sentence
