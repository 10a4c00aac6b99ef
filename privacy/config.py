"""The `privacy:` part of a scenario, checked once, immutable."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

AnalogTail = Literal["corrected", "as-printed"]


class PrivacyConfig(BaseModel):
    """An (epsilon, delta) bound on what each round of each device may leak.

    `analog_tail` chooses T(x) of Zhang et al. 2022 (21): `corrected` carries the factor 1/2 that the
    printed equation lacks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: Annotated[float, Field(gt=1e-7, le=1e6, allow_inf_nan=False)]
    delta: Annotated[float, Field(ge=1e-12, lt=1, allow_inf_nan=False)] = 0.01
    analog_tail: AnalogTail = "corrected"
