"""What federated Langevin Monte Carlo samples from."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fl.config.base import Frozen, whole

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

    dimension: ClassVar[int] = 31  # m: the 30 features of the data set and a constant
    num_samples: ClassVar[int] = 569

    def bytes_per_trial(self, num_devices: int) -> int:
        """Return the memory of the data of one trial [B]."""
        return 2 * 8 * self.num_samples * (self.dimension + 2)


TaskConfig = Annotated[GaussianLinearConfig | LogisticConfig, Field(discriminator="name")]
