"""Power control of sums over the air: mean square errors on their closed form, and the smallest of all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from phy.compile import compile_air
from phy.config import LinkConfig
from phy.config.power import Sums
from phy.fading.block_taps import UplinkContext
from phy.fading.gains import BlockGains
from phy.links.conflicts import link_conflicts
from phy.links.link import Superposition
from phy.links.policies.mse_optimal import MseOptimal
from phy.links.power import AmplitudeDecision, decide_sum

POLICIES = ("fixed", "inversion", "truncated-inversion", "mse-optimal")
SYMBOLS = 2001
SEVERAL = "but this link has several (paths, pilots, or a coherence shorter than a round)"
ROUND = UplinkContext(seed=5, trials=(0, 1, 2), round_index=4)


def link(policy: str, *, scaling: str = "auto", snr_db: float = 5.0, **rest: Any) -> LinkConfig:
    return LinkConfig.model_validate(
        {
            "access": "superposition",
            "modulation": "analog",
            "channel": {"fading": "rayleigh"},
            "power": {"policy": policy, "snr_max_db": snr_db},
            "receiver": {"scaling": scaling},
            **rest,
        }
    )


def payload_of(num_devices: int, *, trials: int = 3) -> NDArray[np.complex64]:
    """Independent amplitudes, device k of mean power p_k in (0.2, 0.8)."""
    rng = np.random.default_rng(num_devices)
    x = rng.standard_normal((2, trials, num_devices, SYMBOLS)) * np.sqrt(np.linspace(0.1, 0.4, num_devices))[:, None]
    return (x[0] + 1j * x[1]).astype(np.complex64)


def sent(config: LinkConfig, payload: NDArray[Any], **more: Any) -> Superposition:
    uplink = compile_air(config, num_devices=payload.shape[1], num_symbols=SYMBOLS)
    return uplink.superpose(payload, context=ROUND, caps={}, **more)


def error_of(decision: AmplitudeDecision, payload: NDArray[Any], noise_power: float) -> NDArray[np.float64]:
    """sum_k p_k (a_k / c - 1)^2 + sigma^2 / c^2, `[num_trials]`."""
    assert decision.arrival is not None
    power = np.mean(np.abs(payload) ** 2, axis=2, dtype=np.float64)
    ratio = decision.arrival / decision.scale[:, None]
    return np.asarray((power * (ratio - 1.0) ** 2).sum(axis=1) + noise_power / decision.scale**2)


@pytest.mark.parametrize("snr_db", [-10.0, 0.0, 20.0])
@pytest.mark.parametrize("num_devices", [1, 5, 40])
@pytest.mark.parametrize("scaling", ["unbiased", "mmse"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_mean_square_error_of_a_sum_is_on_its_closed_form(
    policy: str, scaling: str, num_devices: int, snr_db: float
) -> None:
    """Squares of S independent complex Gaussian errors: relative standard error 1 / sqrt(S), four of them."""
    payload, config = payload_of(num_devices), link(policy, scaling=scaling, snr_db=snr_db)
    found = sent(config, payload)
    wrong = found.received / found.decision.scale[:, None] - payload.sum(axis=1)
    error = np.mean(np.abs(wrong) ** 2, axis=1, dtype=np.float64)
    np.testing.assert_allclose(error, error_of(found.decision, payload, 2.0), rtol=4.0 / np.sqrt(SYMBOLS))


@pytest.mark.parametrize("num_devices", [1, 5, 40])
def test_no_policy_has_a_smaller_error_than_the_optimal_one(num_devices: int) -> None:
    payload = payload_of(num_devices)
    for snr_db in (-20.0, -10.0, 0.0, 10.0, 30.0):
        least = error_of(sent(link("mse-optimal", snr_db=snr_db), payload).decision, payload, 2.0)
        for policy in POLICIES:
            for scaling in ("unbiased", "mmse"):
                decision = sent(link(policy, scaling=scaling, snr_db=snr_db), payload).decision
                assert (least <= error_of(decision, payload, 2.0)).all(), (policy, scaling, snr_db)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_mmse_divisor_has_a_smaller_error_than_any_other(policy: str) -> None:
    payload = payload_of(7)
    decision = sent(link(policy, scaling="mmse"), payload).decision
    least = error_of(decision, payload, 2.0)
    for factor in (0.5, 0.99, 1.01, 2.0):
        other = AmplitudeDecision(**{**vars(decision), "mmse_scale": factor * decision.scale})
        assert (least < error_of(other, payload, 2.0)).all()


def test_the_closed_form_of_the_threshold_is_the_numeric_optimum() -> None:
    """f(v) = sum_k p_k (1 - q_k v)^2_+ + sigma^2 v^2 of v = 1 / c is convex; Brent's method to 1e-9."""
    rng = np.random.default_rng(11)
    for _ in range(200):
        count = int(rng.integers(1, 30))
        reach, power = rng.exponential(size=count) ** 0.5 * 10.0 ** rng.uniform(-2, 2), rng.uniform(0.05, 1.0, count)
        noise = 10.0 ** rng.uniform(-3, 3)

        def error(v: float, q: Any = reach, p: Any = power, n: float = noise) -> float:
            return float((p * np.maximum(1.0 - q * v, 0.0) ** 2).sum() + n * v * v)

        level = float(MseOptimal().level(reach[None], Sums(payload_power=power[None], noise_power=noise))[0])
        numeric = minimize_scalar(error, bounds=(0.0, 1.0 / reach.min()), method="bounded", options={"xatol": 1e-12})
        assert error(1.0 / level) <= numeric.fun * (1.0 + 1e-9)


def test_strong_devices_invert_to_the_divisor_and_weak_ones_send_at_full_power() -> None:
    payload = payload_of(40)
    config = link("mse-optimal", snr_db=-5.0)
    decision = sent(config, payload).decision
    assert decision.clipped is not None
    assert decision.arrival is not None
    weak = decision.clipped > 0.0
    assert weak.any(axis=1).all()
    assert (~weak).any(axis=1).all()
    aligned = np.broadcast_to(decision.scale[:, None], weak.shape)
    np.testing.assert_allclose(decision.arrival[~weak], aligned[~weak], rtol=1e-5)  # float32 gains
    assert (decision.arrival[weak] < aligned[weak]).all()
    power = np.mean(np.abs(payload) ** 2, axis=2, dtype=np.float64)
    np.testing.assert_allclose((decision.clipped**2 * power)[weak], config.max_power, rtol=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_exceeds_the_power_that_a_round_allows(policy: str) -> None:
    """And the weakest uses all of it under mse-optimal, everybody what P0 at payload power 1 leaves under fixed."""
    payload, config = payload_of(5), link(policy)
    allowed = config.max_power * np.array([[1.0, 0.1, 0.5, 2.0, 0.01]] * 3)
    found = sent(config, payload, max_power=allowed)
    assert found.energy_j is not None
    power = found.energy_j / (SYMBOLS * config.symbol_s)
    assert (power <= np.minimum(allowed, config.max_power) * (1.0 + 1e-5)).all()  # float32 sums
    if policy == "mse-optimal":
        np.testing.assert_allclose(power[:, 4], allowed[:, 4], rtol=1e-5)
    if policy == "fixed":
        of_payload = np.mean(np.abs(payload) ** 2, axis=2, dtype=np.float64)
        np.testing.assert_allclose(power, np.minimum(allowed, config.max_power * of_payload), rtol=1e-5)


@pytest.mark.parametrize("policy", ["fixed", "mse-optimal"])
@pytest.mark.parametrize("kind", ["amplitudes", "bits"])
def test_both_engines_clip_the_same_devices(policy: str, kind: str) -> None:
    bits = np.random.default_rng(2).integers(0, 256, (3, 6, -(-SYMBOLS // 8)), dtype=np.uint8)
    payload = payload_of(6) if kind == "amplitudes" else bits
    modulation, allowed = "analog" if kind == "amplitudes" else "bpsk", np.array([[1.0, 0.1, 3.0, 2.0, 0.3, 1.0]] * 3)
    fused, sionna = (
        sent(link(policy, snr_db=0.0, modulation=modulation, engine=engine), payload, max_power=allowed)
        for engine in ("fused", "sionna")
    )
    scale = np.abs(sionna.received).max()
    assert np.abs(fused.received - sionna.received).max() < 3e-6 * scale
    np.testing.assert_allclose(fused.decision.scale, sionna.decision.scale, rtol=1e-5)
    np.testing.assert_allclose(fused.energy_j, sionna.energy_j, rtol=1e-4)
    np.testing.assert_allclose(fused.decision.arrival, sionna.decision.arrival, rtol=1e-5)


def test_over_ofdm_on_a_flat_channel_the_error_is_on_the_same_closed_form() -> None:
    payload = payload_of(5)
    for policy in ("fixed", "mse-optimal"):
        found = sent(link(policy, scaling="mmse", ofdm={"num_subcarriers": 64}), payload)
        wrong = found.received / found.decision.scale[:, None] - payload.sum(axis=1)
        error = np.mean(np.abs(wrong) ** 2, axis=1, dtype=np.float64)
        np.testing.assert_allclose(error, error_of(found.decision, payload, 2.0), rtol=4.0 / np.sqrt(SYMBOLS))


def test_devices_that_change_places_with_their_channels_leave_error_and_divisor_as_they_are() -> None:
    """Sums of doubles in another order: a few 2^-52 each."""
    rng = np.random.default_rng(3)
    payload, weights, order = payload_of(9, trials=1), rng.exponential(size=(1, 9)), rng.permutation(9)

    def decided(which: Any) -> AmplitudeDecision:
        ones = np.full((1, 9), float(SYMBOLS))
        gains = BlockGains(
            weight_power=weights[:, which],
            gain_sum=ones,
            gain_peak=ones / SYMBOLS,
            arrival_peak=ones / SYMBOLS,
            active_symbols=ones,
        )
        config = link("mse-optimal")
        return decide_sum(config, gains, payload[:, which], payload_power=1.0, caps={}, max_power=None)

    here, there = decided(np.arange(9)), decided(order)
    assert here.clipped is not None
    assert there.clipped is not None
    np.testing.assert_allclose(here.scale, there.scale, rtol=1e-13)
    np.testing.assert_allclose(here.clipped[:, order], there.clipped, rtol=1e-13)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"power": {"policy": "mse-optimal"}, "channel": {"fading": "rayleigh", "coherence": "symbol"}},
            f"mse-optimal takes one channel gain per device and round, {SEVERAL}",
        ),
        (
            {"receiver": {"scaling": "mmse"}, "ofdm": {}, "channel": {"model": "tdl-a"}},
            f"scaling mmse takes one channel gain per device and round, {SEVERAL}",
        ),
        (
            {"access": "orthogonal", "power": {"policy": "mse-optimal"}},
            "mse-optimal minimises the error of a sum over the air, the access is orthogonal",
        ),
        (
            {"access": "orthogonal", "receiver": {"scaling": "unbiased"}},
            "receiver.scaling divides a sum over the air, the access is orthogonal",
        ),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_sentence(settings: dict[str, Any], problem: str) -> None:
    config = LinkConfig.model_validate({"access": "superposition", "modulation": "bpsk", **settings})
    found = [conflict.problem for conflict in link_conflicts(config, num_devices=3, payload_bits=64)]
    assert found == [problem]
