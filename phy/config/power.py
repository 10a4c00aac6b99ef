"""Transmit power control, under the average power P0 of each device per block."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from phy.config.base import Decibels, Frozen

PowerPolicy = Literal["fixed", "inversion", "truncated-inversion", "closed-loop"]


class LoopConfig(Frozen):
    """Closed loop on the error rate measured in the last round.

    With r the rate measured and r0 the target, a device's power moves by

        clip(db_per_decade * log10(r / r0), -max_step_db, +max_step_db)

    and stays between `min_snr_db` and `snr_max_db`. Without errors, r is (0 + 1/2) / (n + 1).
    """

    target: Literal["ber", "bler"] = "ber"
    target_rate: Annotated[float, Field(gt=0, lt=0.5, allow_inf_nan=False)] = 1e-2
    db_per_decade: Annotated[float, Field(gt=0, le=30, allow_inf_nan=False)] = 3.0
    max_step_db: Annotated[float, Field(gt=0, le=30, allow_inf_nan=False)] = 3.0
    initial_snr_db: Decibels | None = Field(default=None, description="start; left out: at snr_max_db [dB]")
    min_snr_db: Decibels = Field(default=-30.0, description="lowest transmit power over N0 [dB]")


class PowerConfig(Frozen):
    """Power control.

    - `fixed`: every device at full power, phase compensated;
    - `inversion`: every device arrives with one common amplitude A, the largest that the weakest
      device and the caps allow (`flmc` is another name for it: it is the policy of that paper);
    - `truncated-inversion`: the same, but a device whose estimated power gain is more than
      `cutoff_db` below its mean stays silent for that coherence block;
    - `closed-loop`: each device's power follows the error rate measured on it in the last round (`loop`).
    """

    policy: PowerPolicy = "inversion"
    snr_max_db: Decibels = Field(default=20.0, description="10 log10(P0 / N0) [dB]")
    cutoff_db: Annotated[float, Field(ge=-100, le=30, allow_inf_nan=False)] = Field(
        default=-10.0, description="truncation threshold on |h^|^2 relative to gain^2 [dB]"
    )
    loop: LoopConfig = LoopConfig()

    @field_validator("policy", mode="before")
    @classmethod
    def _read_flmc_as_inversion(cls, value: object) -> object:
        return "inversion" if value == "flmc" else value

    @model_validator(mode="after")
    def _loop_has_room(self) -> PowerConfig:
        loop = self.loop
        if self.policy != "closed-loop":
            if loop != LoopConfig():
                raise ValueError(f"loop belongs to policy closed-loop, the policy is {self.policy}; leave loop out")
            return self
        for name in ("min_snr_db", "initial_snr_db"):
            value = getattr(loop, name)
            if value is not None and value > self.snr_max_db:
                raise ValueError(f"loop.{name} {value:g} is above snr_max_db {self.snr_max_db:g}; lower it")
        return self

    @property
    def snr_max(self) -> float:
        """P0 / N0, linear."""
        return float(10.0 ** (self.snr_max_db / 10.0))
