"""Studies of the codec alone, without training: what flipped bits do to numbers, and how far apart bits lie."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from fl.config.base import Frozen, PositiveFloat, Probability
from fl.config.codec import CodecConfig, FixedPointConfig


class FlipMomentsConfig(Frozen):
    """Mean and variance of numbers whose bits were flipped, Li et al. 2025 Lemma 1 and Fig. 8.

    Round r sends the r-th of `rounds` values spread evenly over [-`largest`, `largest`], `draws` copies from every
    device; devices flip bits at `flip_probability` before the link does.
    """

    algorithm: Literal["flip-moments"] = "flip-moments"
    codec: CodecConfig = FixedPointConfig()
    num_devices: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 10
    rounds: Annotated[int, Field(ge=2, le=10_000, strict=True)] = Field(default=41, description="values looked at")
    largest: PositiveFloat = 1.0
    draws: Annotated[int, Field(ge=2, le=1_000_000, strict=True)] = 2000
    flip_probability: Annotated[Probability, Field(le=0.5)] = 0.0

    @field_validator("codec", mode="before")
    @classmethod
    def _a_bare_word_names_it(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def uses_radio(self) -> bool:
        """Copies go over the link."""
        return True

    @property
    def superposes(self) -> bool:
        """Every device is detected on its own."""
        return False


class BitDistanceConfig(Frozen):
    """The expected bit-level distance kappa of Li et al. 2025 (15), estimated by (26), Fig. 3.

    `num_pairs` times: weights w, uniform over the codec's range or normal of `weight_std`, and x uniform on the sphere
    ||x||_2 = `sensitivity`; no radio is used.
    """

    algorithm: Literal["bit-distance"] = "bit-distance"
    codec: FixedPointConfig = FixedPointConfig()
    dimension: Annotated[int, Field(ge=1, le=1_000_000_000, strict=True)] = Field(default=1_206_590, description="M")
    sensitivity: PositiveFloat = 1e-4
    weights: Literal["uniform", "normal"] = "uniform"
    weight_std: PositiveFloat = 0.05
    num_pairs: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = 20
    num_devices: Literal[1] = 1
    rounds: Literal[1] = 1

    @property
    def uses_radio(self) -> bool:
        """Nothing is transmitted."""
        return False

    @property
    def superposes(self) -> bool:
        """Nothing is transmitted."""
        return False
