"""What federated Langevin Monte Carlo samples from."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fl.base.fields import Frozen, whole

LmcCap = Literal["printed", "quantization-aware", "none"]


class GaussianLinearConfig(Frozen):
    """Bayesian linear regression on synthetic data, Zhang et al. 2022 (22)."""

    name: Literal["gaussian-linear"] = Field(
        default="gaussian-linear", description="Bayesian linear regression, Zhang et al. 2022 (22)"
    )
    num_samples: int = whole(1200, "samples of all devices; 1200 as in Zhang et al. 2022", most=10_000_000)
    dimension: int = whole(5, "m, entries of the parameter; 5 as in Zhang et al. 2022", most=10_000)

    def bytes_per_trial(self, num_devices: int) -> int:
        """Return the memory of the data of one trial [B]."""
        return 2 * 8 * num_devices * self.dimension * (self.dimension + 1)


class LogisticConfig(Frozen):
    """Bayesian logistic regression on scikit-learn's breast-cancer data (569 samples, 30 features)."""

    name: Literal["logistic"] = Field(
        default="logistic", description="Bayesian logistic regression on the breast-cancer data"
    )
    prior_variance: Annotated[float, Field(ge=1e-3, le=100, allow_inf_nan=False)] = Field(
        default=1.0,
        description="beyond 100 the reference chain no longer knows the truth well enough; 1: the prior of "
        "Zhang et al. 2022",
    )

    preconditioned: bool = Field(
        default=True,
        description="sample in coordinates in which the curvature at the mode is 1, which every device is taken to "
        "know; false: in the parameters themselves, where 5,000 rounds and more are needed",
    )

    dimension: ClassVar[int] = 31  # m: the 30 features of the data set and a constant
    num_samples: ClassVar[int] = 569
    inputs_curvature: ClassVar[float] = 1889.31  # largest eigenvalue of X^T X / 4, tested against the data

    def rounds_to_mix(self) -> int:
        """Rounds in which a chain in theta itself forgets its start, at the largest stable step: 5 L / (2 mu)."""
        mu = 1.0 / self.prior_variance
        return math.ceil(5.0 * (self.inputs_curvature + mu) / (2.0 * mu))

    def bytes_per_trial(self, num_devices: int) -> int:
        """Return the memory of the data of one trial [B]."""
        return 2 * 8 * self.num_samples * (self.dimension + 2)


TaskConfig = Annotated[GaussianLinearConfig | LogisticConfig, Field(discriminator="name")]
