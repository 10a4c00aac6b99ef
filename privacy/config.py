"""The `privacy:` part of a scenario, checked once, immutable."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

AnalogTail = Literal["corrected", "as-printed"]


Epsilon = Annotated[float, Field(gt=1e-7, le=1e6, allow_inf_nan=False)]
RenyiOrder = Annotated[float, Field(gt=1.0, le=1000.0, allow_inf_nan=False)]


class PrivacyConfig(BaseModel):
    """An (epsilon, delta) bound on what each round of each device may leak.

    `analog_tail` chooses T(x) of Zhang et al. 2022 (21): `corrected` carries the factor 1/2 that the
    printed equation lacks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: Epsilon
    delta: Annotated[float, Field(ge=1e-12, lt=1, allow_inf_nan=False)] = 0.01
    analog_tail: AnalogTail = "corrected"


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
    confidence: Annotated[float, Field(ge=0.5, lt=1.0)] = 0.99
    debias: bool = False
    cipher: Literal["none", "stream", "aes"] = "none"


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


def _mechanism(value: Any) -> str:
    """`amplitude` where none is named: the bound of FLMC was there first and has no such key."""
    named = value.get("mechanism") if isinstance(value, dict) else getattr(value, "mechanism", None)
    return "amplitude" if named is None else str(named)


AnyPrivacyConfig = Annotated[
    Annotated[PrivacyConfig, Tag("amplitude")]
    | Annotated[BitFlippingConfig, Tag("bit-flipping")]
    | Annotated[GaussianConfig, Tag("gaussian")],
    Discriminator(_mechanism),
]
"""One class per mechanism, told apart by `mechanism`."""
