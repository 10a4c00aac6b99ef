"""Federated Langevin Monte Carlo as the user writes it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from fl.config.base import Frozen, PositiveFloat
from fl.config.scheme import AttackConfig

Scheme = Literal["digital", "digital-orthogonal", "analog", "noiseless", "exact"]
LmcCap = Literal["printed", "quantization-aware", "none"]


class GaussianLinearConfig(Frozen):
    """Bayesian linear regression on synthetic data, Zhang et al. 2022 (22)."""

    name: Literal["gaussian-linear"] = "gaussian-linear"
    num_samples: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] = 1200
    dimension: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 5


class LogisticConfig(Frozen):
    """Bayesian logistic regression on scikit-learn's breast-cancer data (569 samples, 30 features)."""

    name: Literal["logistic"] = "logistic"
    prior_variance: Annotated[float, Field(ge=1e-3, le=100, allow_inf_nan=False)] = Field(
        default=1.0, description="beyond 100 the reference chain no longer knows the truth well enough"
    )

    @property
    def dimension(self) -> int:
        """m: the 30 features of the data set and a constant."""
        return 31


TaskConfig = Annotated[GaussianLinearConfig | LogisticConfig, Field(discriminator="name")]


class FlmcConfig(Frozen):
    """Federated Langevin Monte Carlo, Zhang et al. 2022; the defaults are the paper's analog setting.

    Schemes: `digital` (one-bit gradients, BPSK, superposed in the air), `digital-orthogonal` (the
    same bits, each device detected on its own resource, then summed), `analog` (gradients as
    amplitudes, superposed), and two references without a radio: `noiseless` (the server adds the
    Langevin noise itself) and `exact` (independent samples of the exact posterior).
    """

    algorithm: Literal["flmc"] = "flmc"
    scheme: Scheme = "digital"
    task: TaskConfig = GaussianLinearConfig()
    num_devices: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 20
    rounds: Annotated[int, Field(ge=2, le=10_000_000, strict=True)] = 300
    burn_in: Annotated[int, Field(ge=0, strict=True)] = 200
    step_size: PositiveFloat | Literal["auto"] = Field(default="auto", description="eta of (6)")
    gradient_bound: PositiveFloat = Field(default=30.0, description="l of (13), clipping per entry")
    quantizer_slope: PositiveFloat = Field(default=0.05, description="a of the sigmoid below (8)")
    lmc_cap: LmcCap | None = Field(
        default=None, description="left out: printed where receiver noise enters the update, else none"
    )
    debias: bool = Field(
        default=False,
        description="digital-orthogonal only: divide each device's bits by 1 - 2 BER, BER as probed",
    )
    attack: AttackConfig | None = None

    @field_validator("task", mode="before")
    @classmethod
    def _a_bare_word_names_the_task(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _samples_remain_after_burn_in(self) -> FlmcConfig:
        if self.rounds - self.burn_in < 2:
            raise ValueError(
                f"burn_in {self.burn_in} leaves {self.rounds - self.burn_in} of {self.rounds} rounds to evaluate; "
                "leave at least 2"
            )
        return self

    @property
    def superposes(self) -> bool:
        """Whether devices add up in the air, so that receiver noise enters the update."""
        return self.scheme in ("digital", "analog")

    @property
    def uses_radio(self) -> bool:
        """Whether anything is transmitted at all."""
        return self.superposes or self.scheme == "digital-orthogonal"

    @property
    def resolved_lmc_cap(self) -> LmcCap:
        """The LMC cap in force: as written, else `printed` where receiver noise enters the update."""
        if self.lmc_cap is not None:
            return self.lmc_cap
        return "printed" if self.superposes else "none"
