"""The `privacy:` part of a scenario, validated and immutable."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

AnalogTail = Literal["corrected", "as-printed"]


Epsilon = Annotated[float, Field(gt=1e-7, le=1e6, allow_inf_nan=False)]
RenyiOrder = Annotated[float, Field(gt=1.0, le=1000.0, allow_inf_nan=False)]


class BudgetConfig(BaseModel):
    """The privacy budget of a whole run, over all rounds and numbers, and the action when it is spent.

    - `epsilon`, `delta`: the most that `accountant` may count; `pld` uses closed forms where they exist;
    - `calibrate`: set the protection of every round (flip probability, noise, amplitude, epsilon of a scheme) from the
      budget before the run; without it the protection stays as written, and the budget only watches;
    - `schedule`: the same share for every round, or geometric shares from the first to the last, `ratio` to 1;
    - `action`: before a round that exceeds the budget, the trial stops, or it continues without sending (`silent`).
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
    def _schedule_needs_calibration(self) -> BudgetConfig:
        if self.schedule != "uniform" and not self.calibrate:
            raise ValueError(
                f"schedule {self.schedule} needs calibrate: true, and calibrate is false; leave schedule out, or "
                "write calibrate: true"
            )
        return self


Decibels = Annotated[float, Field(ge=0.0, le=60.0, allow_inf_nan=False)]


class PrivacyConfig(BaseModel):
    """An (epsilon, delta) bound on the privacy loss of each round of each device.

    - `analog_tail` selects T(x) of Zhang et al. 2022 (21): `corrected` has the factor 1/2 that the printed equation
      lacks;
    - `noise_tolerance_db`: the receiver's noise may be this much below its nominal power; `listener_advantage_db`: a
      listener may receive the devices this much better than the server. Caps and accounts allow for both.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: Epsilon
    delta: Annotated[float, Field(ge=1e-12, lt=1, allow_inf_nan=False)] = 0.01
    analog_tail: AnalogTail = "corrected"
    noise_tolerance_db: Decibels = 0.0
    listener_advantage_db: Decibels = 0.0
    budget: BudgetConfig | None = None


class BitFlippingConfig(BaseModel):
    """Bit-flipping DP, Li et al. 2025: the bits of every upload are flipped with the probability of Theorem 1.

    - `epsilon`: of Renyi DP of order `order`, for the whole run;
    - `kappa`: expected bit-level distance (15), given, or `measured` by (26) over `kappa_pairs` pairs;
    - `channel`: `native` counts bit errors of the channel towards privacy, namely the lower confidence limit of the
      probed rate at level `confidence`; `agnostic` ignores them, so that they add to the flips;
    - `debias`: divide received numbers by 1 - 2 p;
    - `cipher` of the bits before they are flipped, Remark 3: `none`, a `stream` cipher, or `aes` blocks.
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
    """The Gaussian mechanism on numbers before they become bits, the baseline of Li et al. 2025.

    - `delta` left out: the delta that turns (`order`, epsilon) Renyi DP into (epsilon, delta) DP, 0.25 at order 2;
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
    """Base of mechanisms whose rounds are calibrated from a budget for the whole run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    budget: BudgetConfig

    @model_validator(mode="before")
    @classmethod
    def _calibrated_is_not_written(cls, value: Any) -> Any:
        found = [key for key in ("epsilon", "delta", "kappa", "order") if isinstance(value, dict) and key in value]
        if found:
            raise ValueError(
                f"{found[0]} of a round is written, but the budget for the run sets it; leave {found[0]} out here, or "
                "write budget.calibrate: false for a budget that only watches"
            )
        return value


class AmplitudeBudget(_Calibrated):
    """The received amplitude of every round of FLMC, from a budget for the whole run; see `PrivacyConfig`."""

    noise_tolerance_db: Decibels = 0.0
    listener_advantage_db: Decibels = 0.0


class BitFlippingBudget(_Calibrated):
    """Bit flipping from a budget for the whole run that counts every bit of every upload; see `BitFlippingConfig`.

    The evidence for `channel: native` costs delta: 1 - `confidence` for every round.
    """

    mechanism: Literal["bit-flipping"]
    channel: Literal["native", "agnostic"] = "agnostic"
    confidence: Annotated[float, Field(ge=0.5, le=1.0 - 1e-12)] = 0.99
    debias: bool = False
    cipher: Literal["none", "stream"] = "none"


class GaussianBudget(_Calibrated):
    """The Gaussian mechanism with noise from a budget for the whole run; see `GaussianConfig`."""

    mechanism: Literal["gaussian"]
    sensitivity: Literal["printed", "all-steps"] = "printed"


class SchemeBudget(BaseModel):
    """A budget for a private scheme of `learning.aggregation`: it sets the scheme's `epsilon`, or watches it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mechanism: Literal["scheme"]
    budget: BudgetConfig


_WITH_A_BUDGET = ("amplitude", "bit-flipping", "gaussian")


def _mechanism(value: Any) -> str:
    """The tag of a privacy section; `amplitude`, the bound of FLMC, has no key `mechanism`."""

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
"""One class per mechanism, selected by `mechanism` and by a calibrating budget."""

UploadPrivacy = BitFlippingConfig | GaussianConfig | BitFlippingBudget | GaussianBudget | SchemeBudget
"""Mechanisms for uploads of federated averaging."""
