"""Images rebuilt from uploads: exact where nothing stands between, chance where nothing is left."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from fl.algorithms.reconstruction.attack import deal, invert_linear, likeness, psnr_db
from fl.algorithms.reconstruction.config import ReconstructionConfig
from fl.algorithms.run import run_trials
from fl.base.errors import LearningError
from fl.base.results import TrialResult
from fl.models.federated import FederatedModel, Piece
from fl.schemes.coders.coder import Senders
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext
from privacy.accounting import account_claims
from privacy.config import BitFlippingConfig, GaussianConfig, SchemeBudget
from privacy.mechanisms.probit import privacy_loss

NO_RADIO = LinkConfig(error_model="error_free")
FRACTION_BITS = {"name": "fixed-point", "fraction_bits": 10, "bound": 0.5}


def config(**changes: Any) -> ReconstructionConfig:
    return ReconstructionConfig.model_validate({"num_devices": 60, "rounds": 2, "codec": "binary32", **changes})


def attack(link: LinkConfig = NO_RADIO, privacy: Any = None, *, seed: int = 5, **changes: Any) -> TrialResult:
    (result,) = run_trials(config(**changes), link=link, privacy=privacy, seed=seed, trials=[0])
    return result


# --- the closed form --------------------------------------------------------------------------------


def softmax_gradients(
    x: NDArray[np.float64], y: NDArray[np.int64], *, classes: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Kernel `[K, D, C]` and bias `[K, C]` gradients of the cross-entropy at random weights, by hand."""
    rng = np.random.default_rng(seed)
    kernel, bias = rng.standard_normal((x.shape[1], classes)), rng.standard_normal(classes)
    logits = x @ kernel + bias
    error = np.exp(logits - logits.max(axis=1, keepdims=True))
    error /= error.sum(axis=1, keepdims=True)
    error[np.arange(len(y)), y] -= 1.0
    return x[:, :, None] * error[:, None, :], error


def test_the_closed_form_gives_the_input_of_a_linear_layer_whatever_the_scale() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.random((7, 20)), rng.integers(0, 4, 7)
    kernel, bias = softmax_gradients(x, y, classes=4, seed=4)
    assert invert_linear(kernel, bias) == pytest.approx(x, abs=1e-12)
    assert invert_linear(-0.3 * kernel, -0.3 * bias) == pytest.approx(x, abs=1e-12)


def test_it_is_the_least_squares_solution_under_noise() -> None:
    rng = np.random.default_rng(5)
    kernel, bias = rng.standard_normal((1, 20, 4)), rng.standard_normal((1, 4))
    # Every pixel d on its own: kernel[d, :] = x_d bias.
    wanted = [np.linalg.lstsq(bias[0][:, None], kernel[0, d], rcond=None)[0][0] for d in range(20)]
    assert invert_linear(kernel, bias)[0] == pytest.approx(wanted, abs=1e-12)
    assert (invert_linear(kernel, np.zeros((1, 4))) == 0.0).all()


def test_likeness_knows_an_image_again_and_nothing_from_one_grey() -> None:
    rng = np.random.default_rng(6)
    images = rng.random((50, 30))
    held = np.array([[4, 7], [9, 8], [1, 2]])
    rebuilt = np.stack([0.5 * images[7] + 0.2, np.full(30, 0.3), images[40]])
    found = likeness(rebuilt, held=held, images=images)
    assert found.correlation[:2] == pytest.approx([1.0, 0.0], abs=1e-12)
    assert found.recognised.tolist() == [True, False, False]
    assert found.squared_error[0] == pytest.approx(((rebuilt[0] - images[7]) ** 2).mean())
    assert psnr_db(np.array([0.01, 0.01])) == pytest.approx(20.0)
    assert psnr_db(np.zeros(3)) == pytest.approx(144.5, abs=0.01)


# --- games ------------------------------------------------------------------------------------------


def test_a_member_is_held_and_another_target_is_not_and_images_of_a_round_differ() -> None:
    games = deal(config(samples_per_device=3, rounds=20), num_images=300, seed=1, trial=0)
    inside = (games.held == games.targets[..., None]).any(axis=-1)
    assert (inside == games.member).all()
    for held, targets, member in zip(games.held, games.targets, games.member, strict=True):
        everything = np.concatenate([held.ravel(), targets[~member]])
        assert len(np.unique(everything)) == len(everything)
    # 1200 fair coins.
    assert abs(games.member.mean() - 0.5) < 4 * 0.5 / np.sqrt(1200)
    with pytest.raises(LearningError, match="need 240 images, there are 239"):
        deal(config(samples_per_device=3), num_images=239, seed=1, trial=0)


# --- the whole chain --------------------------------------------------------------------------------


def test_without_radio_and_privacy_images_come_back_as_they_were_and_members_are_all_told() -> None:
    found = attack()
    assert found.devices["correlation"].min() > 1.0 - 1e-9
    # Single precision rounds updates of size 1 at 2^-24; dividing by the bias' gradient makes a little more of it.
    assert found.metrics["psnr_db"] > 120.0
    assert found.metrics["recognised_share"] == 1.0
    # Every clipped gradient has one length, so that none matches the target's as well as itself (Cauchy and Schwarz).
    assert found.metrics["membership_auc"] == found.metrics["true_positive_rate"] == 1.0
    # A pixel of 8 / 16 is 127.5 greys.
    assert np.abs(found.pictures["original"] - found.pictures["rebuilt"]).max() <= 1
    assert found.pictures["original"].shape == (10, 8, 8, 1)
    symmetric = attack(data={"name": "digits", "pixels": "symmetric"})
    assert symmetric.metrics["psnr_db"] > 120.0


def test_bits_that_are_fair_coins_leave_chance() -> None:
    coins = BitFlippingConfig(mechanism="bit-flipping", epsilon=1.0, kappa=10.0, channel="agnostic")
    found = attack(privacy=coins, codec=FRACTION_BITS)
    assert found.metrics["target_bit_error_rate"] == 0.5
    # 120 games, 64 pixels each: a correlation of chance has standard deviation 1 / sqrt(63) or so.
    assert abs(found.metrics["mean_correlation"]) < 4.0 / np.sqrt(63 * 120)
    assert found.metrics["recognised_share"] < 0.05
    assert found.metrics["membership_auc_low"] < 0.5 < found.metrics["membership_auc_high"]


@pytest.mark.parametrize(
    "settings",
    [
        [{"privacy": GaussianConfig(mechanism="gaussian", epsilon=e)} for e in (3.0, 30.0, 300.0)],
        [
            {
                "privacy": BitFlippingConfig(mechanism="bit-flipping", epsilon=e, kappa="measured", channel="agnostic"),
                "codec": FRACTION_BITS,
            }
            for e in (1e3, 1e4, 1e5)
        ],
        [
            {"aggregation": {"name": "cpa", "epsilon": e, "gamma": 0.1, "decode": "unbiased", "channel": "agnostic"}}
            for e in (0.5, 2.0, 8.0)
        ],
        [
            {"codec": FRACTION_BITS, "link": LinkConfig.model_validate({"power": {"policy": "fixed", "snr_max_db": s}})}
            for s in (0.0, 10.0)
        ],
    ],
    ids=["gaussian", "bit-flipping", "cpa", "snr"],
)
def test_more_epsilon_and_more_snr_give_more_away(settings: list[dict[str, Any]]) -> None:
    likes, areas = [], []
    for one in settings:
        found = attack(**one)
        likes.append((found.metrics["mean_correlation"], found.devices["correlation"].std() / np.sqrt(120)))
        areas.append(
            (
                found.metrics["membership_auc"],
                found.metrics["membership_auc_high"] - found.metrics["membership_auc_low"],
            )
        )
    for (less, e1), (more, e2) in pairwise(likes):
        assert more > less - 3.0 * np.hypot(e1, e2)
    for (less, w1), (more, w2) in pairwise(areas):
        assert more > less - np.hypot(w1, w2)
    # And not by so little that the order is all there is.
    assert likes[-1][0] > likes[0][0] + 5.0 * np.hypot(likes[0][1], likes[-1][1])


def test_many_images_on_a_device_hide_each_other() -> None:
    one, many = attack(), attack(samples_per_device=16)
    assert many.metrics["mean_correlation"] < one.metrics["mean_correlation"] - 0.1
    assert many.metrics["membership_auc"] < 1.0
    assert many.metrics["membership_auc_low"] > 0.5


def test_the_same_seed_gives_the_same_attack_and_another_trial_another() -> None:
    link = LinkConfig.model_validate({"channel": {"model": "flat", "fading": "rayleigh"}})
    noisy = GaussianConfig(mechanism="gaussian", epsilon=100.0)
    both = run_trials(config(rounds=1), link=link, privacy=noisy, seed=2, trials=[0, 1])
    again = run_trials(config(rounds=1), link=link, privacy=noisy, seed=2, trials=[1])[0]
    assert both[1].metrics == again.metrics
    assert (both[1].devices["membership_score"] == again.devices["membership_score"]).all()
    assert both[0].metrics != both[1].metrics
    assert both[0].pictures
    assert not both[1].pictures


def test_packets_that_never_came_are_nothing_to_the_attacker() -> None:
    link = LinkConfig.model_validate(
        {"packets": {"policy": "drop"}, "packet_size_bytes": 900, "power": {"policy": "fixed", "snr_max_db": -30}}
    )
    for changes in ({"codec": FRACTION_BITS}, {"aggregation": {"name": "mvu"}}):
        found = attack(link, rounds=1, num_devices=12, **changes)
        assert found.link["dropped"].sum() == found.link["packets"].sum()
        assert found.metrics["mean_correlation"] == 0.0
        assert found.metrics["membership_auc"] == 0.5


# --- what uploads released --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "privacy", "kind", "parameter"),
    [
        ({}, None, "unprotected", 0.0),
        # Calibrated to (1, 1e-5): Balle and Wang 2018, Algorithm 1, gives sigma = 3.730632 for sensitivity 1.
        ({}, {"epsilon": 1.0, "delta": 1e-5, "calibration": "dp-accounting"}, "gaussian", 3.730632),
        ({"aggregation": {"name": "sign", "epsilon": 1.0}}, None, "flipped-bits", 1.0 / (1.0 + np.e)),
        (
            {"aggregation": {"name": "probit", "bound": "clip", "clip": 0.05, "l1_clip": 1.0, "epsilon": 2.0}},
            None,
            "pure",
            # b' = D + (1 + 1 / eps) 2 C of Theorem 2.
            privacy_loss(0.05 + 1.5 * 2.0, l1_clip=1.0, clip=0.05, num_values=650),
        ),
    ],
)
def test_every_upload_is_a_device_of_one_round_in_the_ledger(
    changes: dict[str, Any], privacy: dict[str, Any] | None, kind: str, parameter: float
) -> None:
    noise = None if privacy is None else GaussianConfig(mechanism="gaussian", **privacy)
    settings = config(num_devices=6, rounds=3, **changes)
    (result,) = run_trials(settings, link=NO_RADIO, privacy=noise, seed=1, trials=[0])
    assert result.account is not None
    ledger = result.account.ledger
    assert (ledger.kind, ledger.parameter.shape) == (kind, (1, 18))
    assert ledger.parameter == pytest.approx(np.full((1, 18), parameter), rel=1e-4)
    # One upload is all of the run, so that three rounds come to no more than one.
    found = {one.scope: one.epsilon for one in account_claims(ledger, delta=1e-5, accountant="renyi")}
    assert found["run"] == found["round"]


# --- one device's bits ------------------------------------------------------------------------------

MODEL = FederatedModel(
    pieces=(Piece(name="w", shape=(37,), offset=0),),
    initial=np.zeros(37, np.float32),
    outputs=1,
    make_network=lambda: None,
)


@pytest.mark.parametrize(
    "scheme",
    [
        {"name": "cpa", "gamma": 0.1, "decode": "unbiased"},
        {"name": "cpa", "gamma": 0.1, "stages": 2, "dither": True, "negative_bins": "zero"},
        {"name": "cpa", "gamma": 0.1, "dimension": 2, "rate_bits": 2, "form": "printed", "decode": "printed"},
        {"name": "probit", "epsilon": 2.0, "l1_clip": 1.0, "bound": "clip", "clip": 0.1},
        {"name": "sign", "epsilon": 0.5, "vote": "mean", "decode": "unbiased", "step": 0.3},
        {"name": "laplace"},
        {"name": "jopeq", "dimension": 2},
        {"name": "mvu"},
    ],
    ids=lambda one: f"{one['name']}{len(one)}",
)
@pytest.mark.parametrize("gaps", [False, True])
def test_every_update_is_read_as_the_server_would_aggregate_it_alone(scheme: dict[str, Any], gaps: bool) -> None:
    settings = config(aggregation=scheme).played
    rng = np.random.default_rng(8)
    updates = (0.1 * rng.standard_normal((3, 37))).astype(np.float32)
    context, devices = UplinkContext(seed=1, trials=(0,), round_index=0), np.arange(3)
    one = settings.aggregation.build(pieces=MODEL.pieces)
    payload = one.encode(updates, devices=devices, context=context)
    factor = np.array([0.9, 0.5, 0.7])
    known = rng.random((3, settings.upload_bits(37))) < 0.8 if gaps else None
    together = Senders(devices=devices, context=context, weights=np.full(3, 1 / 3), factor=factor, known=known)
    found = one.read(payload, together)
    assert found is not None
    for row in range(3):
        alone = Senders(
            devices=devices[row : row + 1],
            context=context,
            weights=np.ones(1),
            factor=factor[row : row + 1],
            known=None if known is None else known[row : row + 1],
        )
        wanted = one.aggregate(payload[:, row : row + 1], alone)
        assert found[row] == pytest.approx(wanted, rel=2e-5, abs=2e-6)


# --- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"local": {"steps": 2}}, "Input should be 1"),
        ({"local": {"optimizer": "sgd", "batch_size": 1}}, "inverts gradient descent"),
        ({"aggregation": "median"}, "before aggregation median acts"),
        ({"aggregation": {"name": "cpa", "radius": "scaled"}}, "write aggregation.radius: fixed"),
        ({"num_devices": 1}, "greater than or equal to 2"),
    ],
)
def test_what_cannot_be_attacked_is_refused_in_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        config(**changes)


def test_a_budget_for_a_run_and_numbers_beyond_the_codec_are_told() -> None:
    budget = SchemeBudget.model_validate({"mechanism": "scheme", "budget": {"epsilon": 1.0}})
    refused = config().privacy_conflict(budget)
    assert refused is not None
    assert "attacks one upload" in refused.problem
    failed = attack(codec={"name": "fixed-point", "bound": 0.01})
    assert failed.failure is not None
    assert "beyond the codec's bound" in failed.failure
    assert not failed.metrics
