"""Numbers through a codec, and the weighted mean or a robust one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fl.base.arrays import F32, F64, Bools, Reals
from fl.base.fields import PositiveFloat
from fl.schemes.aggregation import estimates
from fl.schemes.aggregation.estimates import by_columns
from fl.schemes.coders.air import AirForm, Amplitudes
from fl.schemes.scheme import Scheme, belongs, schemes
from phy.config.base import Modulation
from phy.config.conflict import Conflict

if TYPE_CHECKING:
    from privacy.events.releases import Release


@schemes.register
class MeanScheme(Scheme):
    """Numbers through `codec`: weighted mean (FedAvg), medians, trimmed mean, or a step by signs (RSA)."""

    uses_codec: ClassVar[bool] = True

    name: Literal["mean", "median", "trimmed-mean", "geometric-median", "rsa"] = "mean"
    trim: Annotated[float, Field(ge=0.0, lt=0.5)] = Field(
        default=0.1, description="share beta cut off at each end of a trimmed-mean; 0.1 cuts off one attacker in ten"
    )
    step: PositiveFloat = Field(
        default=0.01,
        description="of rsa: change of a parameter towards the majority of signs; 0.01 is near one number of an update",
    )

    def aggregate(self, values: Reals, *, weights: F64, known: Bools | None, otherwise: F32) -> F32:
        """See `Scheme.aggregate`; RSA takes `otherwise` for the server's own value."""
        rules: dict[str, Callable[..., F32]] = {
            "mean": partial(by_columns, estimates.weighted_mean),
            "median": partial(by_columns, estimates.coordinate_median),
            "trimmed-mean": partial(by_columns, partial(estimates.trimmed_mean, trim=self.trim)),
            "geometric-median": estimates.geometric_median,
            "rsa": partial(by_columns, partial(estimates.rsa_step, step=self.step)),
        }
        return rules[self.name](values, weights=weights, known=known, otherwise=otherwise)

    def over_air(self, num_values: int) -> AirForm | None:
        return Amplitudes(num_values) if self.name == "mean" else None

    @property
    def air_modulations(self) -> tuple[Modulation, ...]:
        return ("analog",) if self.name == "mean" else ()

    @property
    def unbiased(self) -> bool:
        return self.name == "mean"

    @property
    def cut_off(self) -> float | None:
        return self.trim if self.name == "trimmed-mean" else None

    @property
    def overwhelmed(self) -> bool:
        return self.name in ("mean", "geometric-median")

    def conflicts(self, *, num_rounds: int, num_values: int | None, calibrated: bool) -> Iterator[Conflict]:
        for key, name in (("trim", "trimmed-mean"), ("step", "rsa")):
            if getattr(self, key) != type(self).model_fields[key].default and self.name != name:
                yield belongs(key, f"aggregation {name}", f"the aggregation is {self.name}")

    def release(self, num_values: int) -> Release:
        return self.unprotected(
            "sends numbers as they are, which nothing protects and no budget holds",
            {"privacy.mechanism": "gaussian", "learning.local.clip": 1},
            "an aggregation with an epsilon",
        )
