"""Step sizes, and the noise that Langevin sampling needs in every update."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl.algorithms.flmc.amplitude_caps import lmc_amplitude_cap, step_size
from fl.algorithms.flmc.config import FlmcConfig

PAPER = {"noise_power": 1.0, "quantizer_slope": 0.05, "gradient_bound": 30.0, "num_devices": 20}
positive = st.floats(1e-6, 1e3)


def cap_of(kind: str, eta: Any, *, one_bit: bool, noise_power: float, **settings: Any) -> Any:
    scheme = "digital" if one_bit else "analog"
    config = FlmcConfig.model_validate({"scheme": scheme, "lmc_cap": kind, **settings})
    return lmc_amplitude_cap(config, eta, noise_power=noise_power)


@pytest.mark.parametrize(("one_bit", "eta", "cap"), [(False, 1.28e-4, 0.0080), (True, 8.28e-3, 0.0643)])
def test_the_printed_cap_is_that_of_the_closed_form(one_bit: bool, eta: float, cap: float) -> None:
    found = cap_of("printed", eta, one_bit=one_bit, **PAPER)
    assert found == pytest.approx(np.sqrt(eta / 2.0), rel=1e-12)
    assert found == pytest.approx(cap, abs=5e-5)


@given(eta=positive, noise_power=positive)
def test_at_the_printed_cap_the_update_has_exactly_the_langevin_noise(eta: float, noise_power: float) -> None:
    cap = cap_of("printed", eta, one_bit=True, **(PAPER | {"noise_power": noise_power}))
    assert eta**2 * noise_power / cap**2 == pytest.approx(2.0 * eta, rel=1e-9)


@given(
    eta=positive,
    noise_power=positive,
    slope=st.floats(1e-3, 1.0),
    bound=st.floats(0.1, 100.0),
    num_devices=st.integers(1, 100),
)
def test_the_quantization_aware_cap_leaves_just_enough_noise(
    eta: float, noise_power: float, slope: float, bound: float, num_devices: int
) -> None:
    cap = cap_of(
        "quantization-aware",
        eta,
        noise_power=noise_power,
        one_bit=True,
        quantizer_slope=slope,
        gradient_bound=bound,
        num_devices=num_devices,
    )
    own = eta**2 * num_devices * (1.0 - np.tanh(slope * bound / 2.0) ** 2)
    needed = eta * slope
    if np.isinf(cap):
        assert own >= needed * (1 - 1e-9)
    else:
        total = eta**2 * noise_power / cap**2 + own
        assert total == pytest.approx(needed, rel=1e-6)


@given(eta=positive, slope=st.floats(1e-3, 2.0), bound=st.floats(0.1, 100.0))
def test_where_a_bit_carries_less_than_the_gradient_the_aware_cap_is_never_stricter(
    eta: float, slope: float, bound: float
) -> None:
    # a / eta - K V <= a / eta <= 2 / eta for a <= 2: less noise is asked for, and some is credited.
    settings = PAPER | {"quantizer_slope": slope, "gradient_bound": bound}
    aware = cap_of("quantization-aware", eta, one_bit=True, **settings)
    assert aware >= cap_of("printed", eta, one_bit=True, **settings) * (1 - 1e-12)


def test_a_steep_quantiser_needs_more_noise_than_printed() -> None:
    # a = 3 > 2 amplifies small gradients, and at a l / 2 = 45 a bit has no noise to credit.
    settings = PAPER | {"quantizer_slope": 3.0}
    aware = cap_of("quantization-aware", 1e-3, one_bit=True, **settings)
    assert aware == pytest.approx(np.sqrt(1e-3 / 3.0), rel=1e-9)
    assert aware < cap_of("printed", 1e-3, one_bit=True, **settings)


def test_in_the_papers_setting_the_bits_bring_enough_noise_of_their_own() -> None:
    # K V eta = 20 * 0.597 * 8.28e-3 = 0.099 >= a = 0.05.
    assert cap_of("quantization-aware", 8.28e-3, one_bit=True, **PAPER) == np.inf


def test_for_amplitudes_the_aware_cap_is_the_printed_one() -> None:
    eta = np.geomspace(1e-5, 1.0, 7)
    np.testing.assert_array_equal(
        cap_of("quantization-aware", eta, one_bit=False, **PAPER),
        cap_of("printed", eta, one_bit=False, **PAPER),
    )


@pytest.mark.parametrize("one_bit", [True, False])
def test_none_is_no_cap_and_every_cap_has_the_shape_of_the_step(one_bit: bool) -> None:
    eta = np.geomspace(1e-5, 1.0, 6)
    np.testing.assert_array_equal(cap_of("none", eta, one_bit=one_bit, **PAPER), np.full(6, np.inf))
    for kind in ("printed", "quantization-aware", "none"):
        found = cap_of(kind, eta, one_bit=one_bit, **PAPER)
        alone = [float(cap_of(kind, value, one_bit=one_bit, **PAPER)) for value in eta]
        np.testing.assert_array_equal(found, alone)


CURVATURE = {"strong_convexity": np.array([1000.0, 900.0]), "smoothness": np.array([1400.0, 1500.0])}


def test_a_step_that_is_written_is_the_step_of_every_trial() -> None:
    np.testing.assert_array_equal(step_size(FlmcConfig(step_size=1.28e-4), **CURVATURE), [1.28e-4, 1.28e-4])


@pytest.mark.parametrize("scheme", ["analog", "noiseless", "exact"])
def test_auto_is_a_share_of_the_stable_step(scheme: str) -> None:
    config = FlmcConfig(scheme=scheme, step_size="auto", quantizer_slope=0.1)
    np.testing.assert_allclose(step_size(config, **CURVATURE), 0.15 * 2.0 / 2400.0, rtol=1e-12)


@pytest.mark.parametrize("scheme", ["digital", "digital-orthogonal"])
@pytest.mark.parametrize(
    ("slope", "devices", "step"),
    [
        (0.5, 20, 0.15 * 2.0 / 2400.0 * 4.0),  # the share, of gradients a / 2 as large
        (0.1, 20, 2.0 / 2400.0),  # no longer than contracts
        (0.01, 20, 0.01 / 20),  # one-bit noise is no more than sampling needs
        (0.1, 1000, 0.1 / 1000),
    ],
)
def test_auto_for_bits_contracts_and_leaves_room_for_their_noise(
    scheme: str, slope: float, devices: int, step: float
) -> None:
    config = FlmcConfig(scheme=scheme, step_size="auto", quantizer_slope=slope, num_devices=devices)
    found = step_size(config, **CURVATURE)
    np.testing.assert_allclose(found, step, rtol=1e-12)
    # eta^2 K, the variance of K signs at the mode, against eta a.
    assert (found**2 * devices <= found * slope * (1 + 1e-12)).all()


@pytest.mark.parametrize(("step", "excess"), [(8.28e-3, 3.312), (2.6e-3, 1.04), (2.5e-3, None), ("auto", None)])
def test_one_bit_noise_beyond_what_sampling_needs_is_told_with_its_factor(step: Any, excess: float | None) -> None:
    config = FlmcConfig(scheme="digital", step_size=step)
    told = list(config.warnings())
    if excess is None:
        assert config.one_bit_excess is None
        assert not told
    else:
        assert config.one_bit_excess == pytest.approx(excess, rel=1e-12)
        (sentence,) = told
        assert f"{excess:.2g} times the variance that Langevin sampling needs" in sentence
        assert "write learning.step_size: 0.0025 or less, or auto" in sentence
    assert FlmcConfig(scheme="analog", step_size=step).one_bit_excess is None


def test_on_the_papers_data_auto_is_near_the_papers_analog_step() -> None:
    from fl.algorithms.flmc.tasks import build_task
    from fl.algorithms.flmc.tasks.config import GaussianLinearConfig

    task = build_task(GaussianLinearConfig(), num_devices=20, seed=2022, trials=tuple(range(40)))
    found = step_size(
        FlmcConfig(scheme="analog", step_size="auto"),
        strong_convexity=task.strong_convexity,
        smoothness=task.smoothness,
    )
    # 0.15 against the paper's 0.155 of 2 / (mu + L); the data differ from ours.
    assert found.mean() == pytest.approx(1.28e-4, rel=0.05)
    # Stable with room to spare in every trial: the contraction |1 - eta lambda| is below 1.
    assert (found * task.smoothness < 0.5).all()
