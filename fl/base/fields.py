"""What all parts of the `learning:` section share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from phy.config.base import Frozen as Frozen

PositiveFloat = Annotated[float, Field(gt=1e-15, le=1e9, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, strict=True)]
Probability = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


def whole(default: int, description: str, *, least: int = 1, most: int | None = None) -> Any:
    """Return a field of whole numbers from `least` to `most`; 20.0 and "20" are none."""
    return Field(default=default, ge=least, le=most, strict=True, description=description)
