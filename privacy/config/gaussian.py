"""The Gaussian mechanism on numbers before they become bits."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from privacy.config.base import Calibrated, Epsilon, RenyiOrder, Training, UploadMechanism

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from privacy.events.claims import Claim
    from privacy.events.releases import Release

    Floats = NDArray[np.float64]


class NoisyNumbers(UploadMechanism):
    """Gaussian noise on every number."""

    protects = "numbers"
    gaussian_noise = "Gaussian noise"
    words = "noise multiplier"
    remedy_of_steps = "write sensitivity: all-steps, which counts all steps and is no proof either, or local.steps: 1"

    mechanism: Literal["gaussian"] = Field(description="Gaussian noise on numbers before they become bits")
    sensitivity: Literal["printed", "all-steps"] = Field(
        default="printed",
        description="printed: 2 eta G / |D_n|, Li et al. 2025 (13), for one local step; all-steps: E times that",
    )

    @property
    def counts_all_steps(self) -> bool:
        """See `UploadMechanism.counts_all_steps`."""
        return self.sensitivity == "all-steps"

    @abstractmethod
    def noise(self, training: Training, *, distance: Floats, found: Floats | None) -> tuple[Floats, dict[str, float]]:
        """Return sigma `[num_devices]`, and the numbers of the trial.

        `distance` `[num_devices]`: the sensitivity; `found` `[num_rounds]`: noise multipliers that a budget for the run
        leaves, by which sigma is then multiplied in every round.
        """

    def release(self, num_values: int, training: Training, *, target: float | None = None) -> Release:
        """Return the whole upload as one Gaussian release; the multiplier is sigma over the sensitivity."""
        from privacy.events.releases import Release

        return Release(
            kind="gaussian",
            unit="sample",
            parameter=self._multiplier(training),
            assumptions=one_step(training),
        )

    def _multiplier(self, training: Training) -> float | None:
        return None


class GaussianConfig(NoisyNumbers):
    """The Gaussian mechanism on numbers before they become bits, the baseline of Li et al. 2025."""

    epsilon: Epsilon = Field(description="epsilon of Renyi DP of this order for the whole run [nats]")
    order: RenyiOrder = Field(default=2.0, description="order of Renyi DP, lambda of Li et al. 2025; 2 as there")
    delta: Annotated[float, Field(ge=1e-12, lt=1.0)] | None = Field(
        default=None,
        description="delta; left out: what turns (order, epsilon) Renyi DP into (epsilon, delta) DP, 0.25 at order 2",
    )
    calibration: Literal["printed", "dp-accounting"] = Field(
        default="printed",
        description="noise as the paper prints it, or by dp-accounting for the same budget over all rounds; "
        "printed, to reproduce it",
    )

    @property
    def stated_delta(self) -> float:
        """delta as written, or what turns (order, epsilon) Renyi DP into (epsilon, delta) DP."""
        from privacy.mechanisms.gaussian_mechanism import delta_from_renyi

        if self.delta is not None:
            return self.delta
        return delta_from_renyi(order=self.order, epsilon=self.epsilon, epsilon_prime=self.epsilon)

    def noise(self, training: Training, *, distance: Floats, found: Floats | None) -> tuple[Floats, dict[str, float]]:
        """See `NoisyNumbers.noise`."""
        from privacy.mechanisms.gaussian_mechanism import calibrated_sigma, printed_sigma, spent_epsilon

        delta, rounds = self.stated_delta, training.num_rounds
        printed = printed_sigma(sensitivity=distance, num_rounds=rounds, epsilon=self.epsilon, delta=delta)
        calibrated = calibrated_sigma(sensitivity=distance, num_rounds=rounds, epsilon=self.epsilon, delta=delta)
        sigma = printed if self.calibration == "printed" else calibrated
        spent = spent_epsilon(sigma=sigma, sensitivity=distance, num_rounds=rounds, delta=delta)
        numbers = {
            "sigma": float(sigma.max()),
            "sigma_printed": float(printed.max()),
            "sigma_calibrated": float(calibrated.max()),
            "epsilon_accounted": float(spent.max()),
            "delta": delta,
            "sensitivity": float(distance.max()),
        }
        return sigma, numbers

    def noise_std(self, training: Training, *, num_samples: int, value_range: float) -> float | None:
        """See `UploadMechanism.noise_std`."""
        if self.calibration != "printed" or training.clip is None:
            return None
        from privacy.mechanisms.gaussian_mechanism import printed_sigma

        distance = self.distance(training, num_samples=num_samples)
        rounds, delta = training.num_rounds, self.stated_delta
        return float(printed_sigma(sensitivity=distance, num_rounds=rounds, epsilon=self.epsilon, delta=delta))

    def published(self, training: Training) -> tuple[Claim, ...]:
        """See `UploadMechanism.published`."""
        from privacy.events.published import gaussian_claim

        return (
            gaussian_claim(
                epsilon=self.epsilon,
                delta=self.stated_delta,
                printed=self.calibration == "printed",
                assumptions=one_step(training),
            ),
        )

    @property
    def asked(self) -> str:
        """See `Mechanism.asked`."""
        by = "dp-accounting" if self.calibration == "dp-accounting" else "as printed"
        return f"{self.epsilon:g} ({by})"

    def cells(self, training: Training, *, num_samples: int) -> tuple[str, str, str, str, str]:
        """See `UploadMechanism.cells`: printed noise alone, for calibrated noise needs a library that loads slowly."""
        noise = self.noise_std(training, num_samples=num_samples, value_range=0.0)
        sigma = "" if noise is None else f"{noise:.4g}"
        whose = f"{self.epsilon:g} per run, delta {self.stated_delta:.3g}"
        return f"gaussian, {self.calibration}", whose, "", "", sigma

    def _multiplier(self, training: Training) -> float:
        from privacy.mechanisms.gaussian_mechanism import calibrated_sigma, printed_sigma

        make = printed_sigma if self.calibration == "printed" else calibrated_sigma
        found = make(sensitivity=1.0, num_rounds=training.num_rounds, epsilon=self.epsilon, delta=self.stated_delta)
        return float(found)


class GaussianBudget(Calibrated, NoisyNumbers):
    """The Gaussian mechanism with noise from a budget for the whole run; see `GaussianConfig`."""

    def noise(self, training: Training, *, distance: Floats, found: Floats | None) -> tuple[Floats, dict[str, float]]:
        """See `NoisyNumbers.noise`."""
        assert found is not None
        farthest, sigma = float(distance.max()), float(distance.max() * found.max())
        return distance, {"sensitivity": farthest, "delta": self.budget.delta, "sigma": sigma}


def one_step(training: Training) -> tuple[str, ...]:
    """Return the assumption of a sensitivity that several local steps rest on."""
    from privacy.events.published import ONE_STEP

    return (ONE_STEP,) if training.steps > 1 else ()
