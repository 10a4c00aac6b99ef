"""Gaussian noise on clipped updates, which protects all data of a device: from the receiver, or from every device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from privacy.config.amplitude import ReceiverMechanism
from privacy.config.base import BOUNDED, BudgetConfig, Epsilon, Training, UploadMechanism
from privacy.errors import PlainRemedy, PrivacyError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from privacy.events.events import Ledger
    from privacy.events.releases import Release, Uploads

    Floats = NDArray[np.float64]


class ClippedUpdate(UploadMechanism):
    """Base of mechanisms with the sensitivity of a whole update, clipped to an l2 norm: neighbours replace a device.

    Every round is (`epsilon`, `delta`) private, or a calibrating budget for the run sets its noise multiplier z, the
    standard deviation of the noise over the distance of what a device may send.
    """

    words = "noise multiplier"

    epsilon: Epsilon | None = Field(default=None, description="epsilon of each round of each device [nats]")
    delta: Annotated[float, Field(ge=1e-12, lt=1.0, allow_inf_nan=False)] = Field(
        default=1e-5, description="delta of each round of each device; 1e-5 as for a budget"
    )
    # Within the limits of learning.local.clip, whose squares single precision holds.
    clip: Annotated[float, Field(gt=1e-15, le=1e9, allow_inf_nan=False)] | None = Field(
        default=None,
        examples=[1.0],
        description="largest l2 norm of an update that is sent as numbers; longer ones are scaled to it",
    )

    @model_validator(mode="after")
    def _epsilon_comes_from_one_place(self) -> ClippedUpdate:
        if (self.epsilon is None) != self.calibrated:
            if self.calibrated:
                problem = "epsilon of a round is written, but the budget for the run sets it"
                watches = "write budget.calibrate: false for a budget that only watches"
                raise PrivacyError(problem, ("epsilon",), watches, keys="epsilon budget")
            problem = "epsilon of a round is missing, and no budget for the run sets it"
            raise PrivacyError(problem, {"epsilon": 5}, {"budget": {"epsilon": 8}}, keys="epsilon budget")
        return self

    @property
    def stated_delta(self) -> float | None:
        """See `Mechanism.stated_delta`."""
        return None if self.calibrated else self.delta

    @property
    def asked(self) -> str:
        """See `Mechanism.asked`."""
        return super().asked if self.calibrated else f"{self.epsilon:g} per round"

    def release(self, num_values: int, training: Training, *, target: float | None = None) -> Release:
        """Return the whole upload as one Gaussian release of a device."""
        from privacy.events.releases import Release

        release = Release(kind="gaussian", unit="device", assumptions=(BOUNDED,))
        if self.epsilon is None:
            return release
        each = BudgetConfig(epsilon=self.epsilon, delta=self.delta)
        parameter = float(each.parameters(release, num_rounds=1)[0])
        return Release(kind="gaussian", unit="device", assumptions=(BOUNDED,), parameter=parameter)

    def distance(self, training: Training, *, num_samples: ArrayLike) -> Floats:
        """Return the distance 2 `clip` of clipped updates of every device."""
        import numpy as np

        return np.full(np.shape(num_samples), 2.0 * (self.clip or 0.0))

    def cells(self, training: Training, *, num_samples: int) -> tuple[str, str, str, str, str]:
        """See `UploadMechanism.cells`."""
        if self.calibrated:
            return super().cells(training, num_samples=num_samples)
        return self.mechanism, f"{self.epsilon:g} per round, delta {self.delta:.3g}", "", "", ""

    def conflicts(self, training: Training, *, lost: str | None) -> Iterator[tuple[str, str, *tuple[PlainRemedy, ...]]]:
        """See `UploadMechanism.conflicts`: of the mean, which alone has updates to clip."""
        if self.clip is None:
            yield (
                "privacy.clip privacy.mechanism privacy",
                f"mechanism {self.mechanism} needs a bound on the norm of an update, and privacy.clip is missing",
                {"privacy.clip": 1},
            )

    def warnings(self, training: Training) -> Iterator[str]:
        """See `UploadMechanism.warnings`: any local training has this sensitivity."""
        yield from ()


class ReceiverNoise(ReceiverMechanism, ClippedUpdate):
    """The receiver's noise as the Gaussian mechanism on what adds up in the air, which caps the receive amplitude."""

    protects = "sum"

    mechanism: Literal["receiver-noise"] = Field(description="the receiver's noise protects updates that add up")

    def ledger(self, uploads: Uploads, training: Training, *, num_values: int, by_round: Floats | None) -> Ledger:
        """See `UploadMechanism.ledger`: at the amplitudes that arrived, in noise that alone protects a sum."""
        import numpy as np

        z = uploads.where_sent(uploads.devices["noise_multiplier"])
        nothing = np.where(np.isfinite(z), 0.0, z)
        release = self.release(num_values, training)
        return release.ledger(z, uncredited=nothing, credit_assumptions=(self.listener,))


class DeviceNoise(ClippedUpdate):
    """The Gaussian mechanism on every device, which clips its update and adds noise to each number of it."""

    protects = "numbers"
    gaussian_noise: ClassVar[str | None] = "Gaussian noise"

    mechanism: Literal["device-noise"] = Field(description="every device clips its update and adds Gaussian noise")

    def sigma(self, multipliers: Floats) -> tuple[Floats, dict[str, float]]:
        """Return sigma of `multipliers` z `[num_rounds]`, and the numbers of the trial."""
        distance = 2.0 * (self.clip or 0.0)
        sigma: Any = distance * multipliers
        return sigma, {"sensitivity": distance, "sigma": float(sigma.max())}
