"""The `privacy:` part of a scenario, checked once, immutable."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

AnalogTail = Literal["corrected", "as-printed"]


Epsilon = Annotated[float, Field(gt=1e-7, le=1e6, allow_inf_nan=False)]
RenyiOrder = Annotated[float, Field(gt=1.0, le=1000.0, allow_inf_nan=False)]


class BudgetConfig(BaseModel):
    """What the whole run may spend, all rounds and numbers together, and what happens when it is spent.

    - `epsilon`, `delta`: at most that, as `accountant` adds up; `pld` uses closed forms where there are any;
    - `calibrate`: what protects a round (flip probability, noise, amplitude, the epsilon of a scheme) is found from the
      budget before the run; without it that stays as written, and the budget only watches;
    - `schedule`: the same for every round, or geometric from the first to the last, whose shares are `ratio` to 1;
    - `action`: before a round that would break the budget the trial stops, or goes on without sending (`silent`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: Epsilon
    delta: Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)] = 1e-5
    accountant: Literal["pld", "exact", "renyi", "advanced", "basic"] = "pld"
    calibrate: bool = True
    schedule: Literal["uniform", "increasing", "decreasing"] = "uniform"
    ratio: Annotated[float, Field(ge=1.0, le=1000.0, allow_inf_nan=False)] = 4.0
    action: Literal["stop", "silent"] = "stop"

    @model_validator(mode="after")
    def _a_schedule_is_of_what_is_found(self) -> BudgetConfig:
        if self.schedule != "uniform" and not self.calibrate:
            raise ValueError(
                f"schedule {self.schedule} shares out what calibrate finds, and calibrate is false; leave schedule "
                "out, or calibrate"
            )
        return self


Decibels = Annotated[float, Field(ge=0.0, le=60.0, allow_inf_nan=False)]


class PrivacyConfig(BaseModel):
    """An (epsilon, delta) bound on what each round of each device may leak.

    - `analog_tail` chooses T(x) of Zhang et al. 2022 (21): `corrected` carries the factor 1/2 that the printed equation
      lacks;
    - `noise_tolerance_db`: how far the receiver's noise may lie below its nominal power, `listener_advantage_db`: how
      much better than the server whoever listens may hear the devices; caps and accounts count on what is left.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: Epsilon
    delta: Annotated[float, Field(ge=1e-12, lt=1, allow_inf_nan=False)] = 0.01
    analog_tail: AnalogTail = "corrected"
    noise_tolerance_db: Decibels = 0.0
    listener_advantage_db: Decibels = 0.0
    budget: BudgetConfig | None = None


class BitFlippingConfig(BaseModel):
    """Bit-flipping DP, Li et al. 2025: the bits of every upload are flipped with the probability that Theorem 1 asks.

    - `epsilon`: of Renyi DP of order `order`, for the whole run;
    - `kappa`: expected bit-level distance (15), given, or `measured` by (26) over `kappa_pairs` pairs;
    - `channel`: `native` credits the bit errors that the channel surely makes, the lower confidence limit of the probed
      rate at level `confidence`; `agnostic` ignores them, so that they come on top;
    - `debias`: divide what is received by 1 - 2 p;
    - `cipher`: what the bits go through before they are flipped, Remark 3: `none`, a `stream` cipher, or `aes` blocks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mechanism: Literal["bit-flipping"]
    epsilon: Epsilon
    order: RenyiOrder = 2.0
    kappa: Annotated[float, Field(gt=0.0, le=1e12, allow_inf_nan=False)] | Literal["measured"]
    kappa_pairs: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 20
    channel: Literal["native", "agnostic"] = "native"
    confidence: Annotated[float, Field(ge=0.5, le=1.0 - 1e-12)] = 0.99
    debias: bool = False
    cipher: Literal["none", "stream", "aes"] = "none"
    budget: BudgetConfig | None = None


class GaussianConfig(BaseModel):
    """The Gaussian mechanism on the numbers before they become bits, the baseline of Li et al. 2025.

    - `delta` left out: what turns (`order`, epsilon) Renyi DP into (epsilon, delta) DP, 0.25 at order 2;
    - `calibration`: sigma as the paper prints it, or by `dp-accounting` for the same budget over all rounds;
    - `sensitivity`: `printed` 2 eta G / |D_n| (13), which holds for one local step, or `all-steps`, E times that.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mechanism: Literal["gaussian"]
    epsilon: Epsilon
    order: RenyiOrder = 2.0
    delta: Annotated[float, Field(ge=1e-12, lt=1.0)] | None = None
    calibration: Literal["printed", "dp-accounting"] = "printed"
    sensitivity: Literal["printed", "all-steps"] = "printed"
    budget: BudgetConfig | None = None


class _Calibrated(BaseModel):
    """What all have whose rounds are given what a budget for the whole run admits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    budget: BudgetConfig

    @model_validator(mode="before")
    @classmethod
    def _found_is_not_written(cls, value: Any) -> Any:
        found = [key for key in ("epsilon", "delta", "kappa", "order") if isinstance(value, dict) and key in value]
        if found:
            raise ValueError(
                f"{found[0]} of a round is written, but the budget for the run sets what a round releases; leave "
                f"{found[0]} out here, or write budget.calibrate: false for a budget that only watches"
            )
        return value


class AmplitudeBudget(_Calibrated):
    """The received amplitude of every round of FLMC, found from a budget for the whole run; see `PrivacyConfig`."""

    noise_tolerance_db: Decibels = 0.0
    listener_advantage_db: Decibels = 0.0


class BitFlippingBudget(_Calibrated):
    """Bits flipped as a budget for the whole run asks, every bit of every upload counted; see `BitFlippingConfig`.

    `channel: native` pays for the evidence in `delta`: 1 - `confidence` for every round.
    """

    mechanism: Literal["bit-flipping"]
    channel: Literal["native", "agnostic"] = "agnostic"
    confidence: Annotated[float, Field(ge=0.5, le=1.0 - 1e-12)] = 0.99
    debias: bool = False
    cipher: Literal["none", "stream"] = "none"


class GaussianBudget(_Calibrated):
    """The Gaussian mechanism with the noise that a budget for the whole run asks; see `GaussianConfig`."""

    mechanism: Literal["gaussian"]
    sensitivity: Literal["printed", "all-steps"] = "printed"


class SchemeBudget(BaseModel):
    """A budget for a scheme that protects on its own (`learning.aggregation`): its `epsilon` is found, or watched."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mechanism: Literal["scheme"]
    budget: BudgetConfig


_WITH_A_BUDGET = ("amplitude", "bit-flipping", "gaussian")


def _mechanism(value: Any) -> str:
    """`amplitude` where none is named: the bound of FLMC was there first and has no such key."""

    def of(one: Any, key: str, default: Any) -> Any:
        return one.get(key, default) if isinstance(one, dict) else getattr(one, key, default)

    named, budget = of(value, "mechanism", None), of(value, "budget", None)
    word = "amplitude" if named is None else str(named)
    found = budget is not None and of(budget, "calibrate", True) is not False
    return f"{word} from a budget" if found and word in _WITH_A_BUDGET else word


AnyPrivacyConfig = Annotated[
    Annotated[PrivacyConfig, Tag("amplitude")]
    | Annotated[BitFlippingConfig, Tag("bit-flipping")]
    | Annotated[GaussianConfig, Tag("gaussian")]
    | Annotated[SchemeBudget, Tag("scheme")]
    | Annotated[AmplitudeBudget, Tag("amplitude from a budget")]
    | Annotated[BitFlippingBudget, Tag("bit-flipping from a budget")]
    | Annotated[GaussianBudget, Tag("gaussian from a budget")],
    Discriminator(_mechanism),
]
"""One class per mechanism, told apart by `mechanism`, and by whether a budget says how much of it there is."""

UploadPrivacy = BitFlippingConfig | GaussianConfig | BitFlippingBudget | GaussianBudget | SchemeBudget
"""What protects uploads of federated averaging."""
