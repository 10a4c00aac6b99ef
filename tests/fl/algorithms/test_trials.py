"""A trial's numbers are its own: not of its batch, its neighbours' failures, or the names of the devices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from flmc_setting import SEED, assert_same_bits, metric, paper_config, paper_link, standard_error, trajectory

import phy.engines.sionna.flat
import phy.fading.block_taps
import phy.links.orthogonal
from fl.algorithms.flmc import one_bit
from fl.algorithms.flmc.tasks.regression import GaussianLinear
from fl.algorithms.run import run_trials
from fl.base.results import TrialResult
from phy.config import CsiError
from privacy.config import PrivacyConfig

TRIALS = (0, 1, 2, 5, 6, 11, 40)
SCHEMES = ("digital", "analog", "digital-orthogonal", "noiseless", "exact")
RADIO = ("digital", "analog", "digital-orthogonal")
HARSH = {
    "channel": {"gain": 1.0, "fading": "rayleigh"},
    "power": {"policy": "truncated-inversion", "cutoff_db": -6.0},
    "csi": CsiError(error_variance=0.05),
    "probe_bits": 64,
}
"""Rayleigh, imperfect CSI and truncated inversion: everything that is drawn anew in a round is in play."""


def run(
    scheme: str,
    trials: Sequence[int],
    *,
    seed: int = SEED,
    epsilon: float | None = None,
    learning: dict | None = None,
    **link: object,
) -> list[TrialResult]:
    changes = {"rounds": 12, "burn_in": 4} | (learning or {})
    return run_trials(
        paper_config(scheme, **changes),
        link=paper_link(scheme, **link),
        privacy=None if epsilon is None else PrivacyConfig(epsilon=epsilon),
        seed=seed,
        trials=trials,
    )


class TestBatches:
    """Same seed, same numbers, to the last bit."""

    @pytest.mark.parametrize("cuts", [(3,), (1, 6)], ids=str)
    @pytest.mark.parametrize("link", ["paper", "harsh"])
    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_a_trial_has_the_numbers_that_it_has_alone(self, scheme: str, link: str, cuts: tuple) -> None:
        options = HARSH if link == "harsh" else {"epsilon": 5.0}
        whole = run(scheme, TRIALS, **options)
        parts = [TRIALS[a:b] for a, b in zip((0, *cuts), (*cuts, len(TRIALS)), strict=True)]
        in_parts = [result for part in parts for result in run(scheme, part, **options)]
        for one, other in zip(whole, in_parts, strict=True):
            assert_same_bits(one, other)

    @pytest.mark.parametrize("scheme", ["digital", "digital-orthogonal"])
    def test_the_delta_spent_is_that_of_the_trial_alone(self, scheme: str) -> None:
        options = HARSH | {"epsilon": 5.0, "learning": {"lmc_cap": "none"}}
        whole = run(scheme, TRIALS, **options)
        alone = [result for trial in TRIALS for result in run(scheme, (trial,), **options)]
        for one, other in zip(whole, alone, strict=True):
            assert_same_bits(one, other)

    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_the_order_of_the_trials_does_not_matter(self, scheme: str) -> None:
        forward = run(scheme, TRIALS, **HARSH)
        backward = run(scheme, TRIALS[::-1], **HARSH)
        for one, other in zip(forward, reversed(backward), strict=True):
            assert_same_bits(one, other)

    @pytest.mark.parametrize("scheme", ["digital", "analog", "digital-orthogonal", "noiseless"])
    def test_large_batches_are_no_exception(self, scheme: str) -> None:
        # More trials than one padded block of server noise (256) or one chunk of the air holds.
        short = {"rounds": 3, "burn_in": 1}
        whole = run(scheme, range(301), learning=short, **HARSH)
        parts = [
            *run(scheme, range(150), learning=short, **HARSH),
            *run(scheme, range(150, 301), learning=short, **HARSH),
        ]
        for one, other in zip(whole, parts, strict=True):
            assert_same_bits(one, other)

    @pytest.mark.parametrize("error_model", ["measured", "iid", "analytic"])
    def test_error_models_and_debiasing_are_no_exception(self, error_model: str) -> None:
        options = HARSH | {"error_model": error_model, "learning": {"debias": True}}
        whole = run("digital-orthogonal", TRIALS, **options)
        parts = [
            *run("digital-orthogonal", TRIALS[:2], **options),
            *run("digital-orthogonal", TRIALS[2:], **options),
        ]
        for one, other in zip(whole, parts, strict=True):
            assert_same_bits(one, other)

    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_another_seed_gives_other_numbers(self, scheme: str) -> None:
        one, other = metric(run(scheme, TRIALS), "mse"), metric(run(scheme, TRIALS, seed=SEED + 1), "mse")
        assert (one != other).all()
        assert len(set(one)) == len(TRIALS)


class TestFailure:
    """A trial that meets a value that is not finite ends there, and takes nobody along."""

    @pytest.mark.parametrize("poison", [np.nan, "all"], ids=["one entry of one device", "every entry"])
    @pytest.mark.parametrize("scheme", ["digital", "analog", "digital-orthogonal", "noiseless"])
    def test_it_keeps_its_rounds_and_the_others_are_unchanged(
        self, scheme: str, poison: float | str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        healthy = run(scheme, TRIALS, epsilon=5.0)
        calls = []
        true_gradients = GaussianLinear.gradients

        def gradients(self: GaussianLinear, theta: np.ndarray) -> np.ndarray:
            found = true_gradients(self, theta)
            calls.append(None)
            if len(calls) == 7:
                where = (2,) if poison == "all" else (2, 4, 1)
                found[where] = np.nan
            return found

        monkeypatch.setattr(GaussianLinear, "gradients", gradients)
        results = run(scheme, TRIALS, epsilon=5.0)
        assert len(calls) == 12
        for row, (one, other) in enumerate(zip(healthy, results, strict=True)):
            if row != 2:
                assert_same_bits(one, other)
        failed = results[2]
        assert failed.trial == TRIALS[2]
        assert failed.failure is not None
        assert "round 7" in failed.failure
        assert failed.metrics == {}
        for part in ("rounds", "link", "privacy"):
            kept, whole = getattr(failed, part), getattr(healthy[2], part)
            assert kept.keys() == whole.keys()
            for name in kept:
                np.testing.assert_array_equal(kept[name], whole[name][:6], err_msg=f"{part}.{name}")

    def test_a_gradient_beyond_all_bounds_is_clipped_and_fails_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(GaussianLinear, "gradients", lambda *_: np.full((2, 20, 5), np.inf))
        states = trajectory(paper_config("noiseless", rounds=2, burn_in=0), link=paper_link("digital"), trials=(0, 1))
        # eta K l = 1.28e-4 * 20 * 30, besides a noise of sqrt(2 eta) = 0.016, never 7 times that.
        np.testing.assert_allclose(states[0], -0.0768, atol=7 * np.sqrt(2 * 1.28e-4))


class TestRenaming:
    """Devices in another order, with their data, channels and dice, are the same devices.

    The sum over devices is what the update depends on, and a sum has no order: sums of detected signs are
    small integers and exact, sums in the air are float32 and equal up to their rounding.
    """

    ORDER = np.random.default_rng(8).permutation(20)
    GAINS = tuple(np.round(np.geomspace(0.4, 1.6, 20), 3))

    def rename(self, monkeypatch: pytest.MonkeyPatch) -> tuple[float, ...]:
        """Device j becomes what device ORDER[j] was, everywhere; returns the gains to configure."""
        order = self.ORDER
        rows, gradients = phy.fading.block_taps.FlatChannel.rows, GaussianLinear.gradients

        def renamed_rows(self: phy.fading.block_taps.FlatChannel, context: object, **block: int) -> tuple:
            channel_key, csi_key, device, gain = rows(self, context, **block)
            return channel_key, csi_key, device.reshape(-1, 20)[:, order].ravel(), gain

        monkeypatch.setattr(phy.fading.block_taps.FlatChannel, "rows", renamed_rows)
        monkeypatch.setattr(GaussianLinear, "gradients", lambda task, theta: gradients(task, theta)[:, order])
        signs, as_before = one_bit.stochastic_signs, np.argsort(order)
        monkeypatch.setattr(one_bit, "stochastic_signs", lambda values, **k: signs(values[:, as_before], **k)[:, order])
        for module in (phy.engines.sionna.flat, phy.links.orthogonal):
            draw = module.random_bits
            monkeypatch.setattr(module, "random_bits", lambda *a, draw=draw, **k: draw(*a, **k)[:, order])
        return tuple(np.array(self.GAINS)[order])

    def options(self, gains: tuple[float, ...], policy: str) -> dict:
        return HARSH | {
            "channel": {"gain": gains, "fading": "rayleigh"},
            "power": {"policy": policy, "cutoff_db": -6.0},
            "snr_max_db": 10.0,
        }

    @pytest.mark.parametrize(
        ("policy", "debias"), [("inversion", False), ("truncated-inversion", False), ("fixed", True)]
    )
    def test_detected_devices_keep_their_counts_and_the_samples_are_the_same(
        self, policy: str, debias: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        learning = {"debias": debias}
        before = run("digital-orthogonal", TRIALS, learning=learning, **self.options(self.GAINS, policy))
        gains = self.rename(monkeypatch)
        after = run("digital-orthogonal", TRIALS, learning=learning, **self.options(gains, policy))
        assert sum(result.link["bit_errors"].sum() for result in before) > 100
        for one, other in zip(before, after, strict=True):
            for name in ("bits", "bit_errors", "packets", "packet_errors"):
                np.testing.assert_array_equal(one.link[name][:, self.ORDER], other.link[name])
            np.testing.assert_allclose(one.rounds["squared_error"], other.rounds["squared_error"], rtol=1e-9)
            # The mean over devices is taken in another order.
            np.testing.assert_allclose(one.rounds["amplitude"], other.rounds["amplitude"], rtol=1e-12)

    @pytest.mark.parametrize(
        ("scheme", "policy"),
        [
            ("digital", "truncated-inversion"),
            ("digital", "fixed"),
            ("analog", "inversion"),
            # Which policy, and whether bits or amplitudes, are nothing to each other.
            pytest.param("digital", "inversion", marks=pytest.mark.slow),
            pytest.param("analog", "truncated-inversion", marks=pytest.mark.slow),
            pytest.param("analog", "fixed", marks=pytest.mark.slow),
        ],
    )
    def test_superposed_devices_give_the_same_samples(
        self, scheme: str, policy: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        changes = {"rounds": 6, "burn_in": 0, "lmc_cap": "none"}
        config = paper_config(scheme, **changes)
        link = paper_link(scheme, **self.options(self.GAINS, policy)).model_copy(update={"engine": "sionna"})
        before = trajectory(config, link=link, trials=TRIALS)
        gains = self.rename(monkeypatch)
        # Kernels number devices themselves; that both engines meet the same fades is a contract of its own.
        link = paper_link(scheme, **self.options(gains, policy)).model_copy(update={"engine": "sionna"})
        after = trajectory(config, link=link, trials=TRIALS)
        # float32 sums of 20 terms, 6 times over: 2^-23 * 20 * 6 of the largest update.
        size = np.abs(np.diff(before, axis=0)).max()
        np.testing.assert_allclose(after, before, rtol=0, atol=2**-23 * 120 * size)

    def test_renaming_the_channels_alone_does_change_something(self) -> None:
        # The negative control: without their data and dice, devices are others.
        gains = tuple(np.array(self.GAINS)[self.ORDER])
        before, after = (run("analog", TRIALS, **self.options(g, "fixed")) for g in (self.GAINS, gains))
        assert np.abs(metric(before, "mse") / metric(after, "mse") - 1).max() > 1e-3

    @pytest.mark.parametrize("scheme", RADIO)
    def test_under_inversion_only_the_weakest_gain_counts(self, scheme: str) -> None:
        # h is constant and inverted: the list of gains enters through its minimum, so its order is nothing.
        changes = {"rounds": 6, "burn_in": 0}
        config = paper_config(scheme, **changes)
        gains = tuple(np.array(self.GAINS)[self.ORDER])
        before, after = (
            trajectory(config, link=paper_link(scheme, channel={"gain": g}, snr_max_db=0.0), trials=TRIALS)
            for g in (self.GAINS, gains)
        )
        size = np.abs(np.diff(before, axis=0)).max()
        np.testing.assert_allclose(after, before, rtol=0, atol=2**-23 * 120 * size)


class TestPairs:
    """Schemes under one seed meet the same data and the same channels, so that they are compared in pairs."""

    def test_all_schemes_see_the_same_data(self) -> None:
        # Everybody starts at zero, so the error before the first round is that of the data alone; after a
        # round of a tiny step it still is.
        tiny = {"step_size": 1e-12, "rounds": 2, "burn_in": 0, "lmc_cap": "none"}
        errors = {
            scheme: np.stack([r.rounds["squared_error"] for r in run(scheme, TRIALS, learning=tiny, snr_max_db=60.0)])
            for scheme in ("digital", "analog", "digital-orthogonal")
        }
        for scheme in errors:
            np.testing.assert_allclose(errors[scheme], errors["digital"], rtol=1e-6)
        assert np.ptp(errors["digital"][:, 0]) > 0.01

    @pytest.mark.parametrize(
        ("policy", "csi"),
        [("inversion", "perfect"), ("truncated-inversion", CsiError(error_variance=0.1))],
        ids=["inversion", "truncated, imperfect"],
    )
    def test_all_schemes_see_the_same_channels(self, policy: str, csi: object) -> None:
        # Under the power constraint alone A = min_k |h^_k| sqrt(P0) / l, with l = 1 for bits.
        options = {
            "channel": {"gain": 1.0, "fading": "rayleigh"},
            "power": {"policy": policy},
            "csi": csi,
            "learning": {"lmc_cap": "none"},
        }
        results = {scheme: run(scheme, TRIALS, **options) for scheme in RADIO}
        for digital, analog, orthogonal in zip(*results.values(), strict=True):
            np.testing.assert_allclose(digital.rounds["amplitude"], 30.0 * analog.rounds["amplitude"], rtol=1e-9)
            # Detected devices go through another engine: the same fades but for the rounding of float32.
            np.testing.assert_allclose(digital.rounds["amplitude"], orthogonal.rounds["amplitude"], rtol=1e-6)
            np.testing.assert_array_equal(digital.rounds["num_active"], analog.rounds["num_active"])
            np.testing.assert_array_equal(digital.rounds["num_active"], orthogonal.rounds["num_active"])
        amplitudes = np.stack([r.rounds["amplitude"] for r in results["digital"]])
        assert len(np.unique(amplitudes)) == amplitudes.size

    def test_a_point_at_another_snr_sees_the_same_channels_and_noise(self) -> None:
        options = {
            "channel": {"gain": 1.0, "fading": "rayleigh"},
            "learning": {"lmc_cap": "none"},
        }
        low, high = (run("digital", TRIALS, snr_max_db=snr, **options) for snr in (0.0, 20.0))
        for one, other in zip(low, high, strict=True):
            np.testing.assert_allclose(10.0 * one.rounds["amplitude"], other.rounds["amplitude"], rtol=1e-9)


class TestFading:
    """Truncated inversion over Rayleigh fading, as counted."""

    def test_the_share_of_active_devices_is_that_of_the_cutoff(self) -> None:
        results = run("digital", range(60), **HARSH)
        active = np.stack([result.rounds["num_active"] for result in results])
        # |h^|^2 / gain^2 is exponential of mean 1.05, and must reach 10^-0.6.
        share = np.exp(-(10**-0.6) / 1.05)
        assert active.mean() / 20 == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / (20 * active.size)))

    def test_the_amplitude_of_a_run_is_the_mean_over_rounds_on_the_air(self) -> None:
        options = HARSH | {"power": {"policy": "truncated-inversion", "cutoff_db": 3.0}}
        results = run("digital", TRIALS, learning={"num_devices": 1, "task": "gaussian-linear"}, **options)
        silent = 0
        for result in results:
            amplitude = result.rounds["amplitude"]
            silent += int((amplitude == 0).sum())
            np.testing.assert_array_equal(result.rounds["num_active"] == 0, amplitude == 0)
            on_air = amplitude[amplitude > 0]
            if not len(on_air):
                assert result.failure is not None
                continue
            assert result.metrics["amplitude"] == pytest.approx(on_air.mean(), rel=1e-12)
        assert silent > 0

    def test_a_round_with_nobody_on_the_air_leaves_the_state_alone(self) -> None:
        options = HARSH | {"power": {"policy": "truncated-inversion", "cutoff_db": 30.0}}
        for scheme in RADIO:
            states = trajectory(
                paper_config(scheme, rounds=3, burn_in=0), link=paper_link(scheme, **options), trials=TRIALS
            )
            np.testing.assert_array_equal(states, 0.0)

    def test_a_trial_in_which_nobody_ever_transmits_fails_and_says_so(self) -> None:
        options = HARSH | {"power": {"policy": "truncated-inversion", "cutoff_db": 30.0}}
        for result in run("digital", TRIALS, **options):
            assert "no device transmitted" in (result.failure or "")
            assert result.metrics == {}

    @pytest.mark.parametrize("csi_error", [0.0, 0.3])
    def test_privacy_answers_for_the_strongest_device_as_it_arrives(self, csi_error: float) -> None:
        options: dict = {"channel": {"gain": tuple([0.01] * 19 + [1.0])}, "power": {"policy": "fixed"}}
        if csi_error:
            options["csi"] = CsiError(error_variance=csi_error)
        tiny = {"rounds": 6, "burn_in": 2, "lmc_cap": "none"}
        results = run("analog", TRIALS, learning=tiny, epsilon=5.0, snr_max_db=40.0, **options)
        spent = np.array([result.privacy["delta_spent"] for result in results])
        # The cap holds what the estimate says of the strongest device; its error lets it arrive beyond.
        if csi_error:
            assert (spent > 0.01 * (1 + 1e-3)).any()
        else:
            np.testing.assert_allclose(spent, 0.01, rtol=1e-3)


def test_on_round_hears_every_round_done() -> None:
    heard: list[int] = []
    run_trials(
        paper_config("noiseless", rounds=5, burn_in=1),
        link=paper_link("digital"),
        privacy=None,
        seed=SEED,
        trials=(0,),
        on_round=heard.append,
    )
    assert heard == [1, 2, 3, 4, 5]


def test_the_metrics_are_those_of_the_rounds_after_burn_in() -> None:
    for result in run("analog", TRIALS):
        assert result.metrics["mse"] == pytest.approx(result.rounds["squared_error"][4:].mean(), rel=1e-9)


def test_rayleigh_costs_accuracy_against_a_channel_that_never_fades() -> None:
    learning = {"rounds": 150, "burn_in": 60}
    fading = metric(run("analog", range(60), learning=learning, snr_max_db=30.0, **HARSH), "mse")
    steady = metric(run("analog", range(60), learning=learning, snr_max_db=30.0, channel={"gain": 1.0}), "mse")
    difference = fading - steady
    assert difference.mean() > 4 * standard_error(difference)
