"""What every device does between two uploads."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fl.config.base import Count, Frozen, PositiveFloat

NonNegative = Annotated[float, Field(ge=0.0, le=1e6, allow_inf_nan=False)]
Decay = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]


class LocalConfig(Frozen):
    """E = `steps` local iterations per round, from the global model.

    - `optimizer`: `gd` (full batch, Li et al. 2025 (3)), `sgd` (mini-batches, momentum), `adam`;
    - `clip` G: every sample's gradient is clipped to this l2 norm before the mean, Li et al. 2025 (3);
    - `l2` mu: mu/2 ||w||^2 in the loss of every sample (strongly convex softmax regression), inside the clipping;
    - `proximal`: this/2 ||w - w_global||^2 (FedProx), outside the clipping;
    - `keep_state`: momentum and Adam's moments of a device last from round to round.
    """

    optimizer: Literal["gd", "sgd", "adam"] = "gd"
    learning_rate: PositiveFloat = 0.1
    steps: Annotated[int, Field(ge=1, le=100_000, strict=True)] = Field(default=1, description="E")
    batch_size: Count | None = None
    momentum: Decay = 0.0
    beta1: Decay = 0.9
    beta2: Decay = 0.999
    clip: PositiveFloat | None = Field(default=None, description="G, per sample; left out: no clipping")
    l2: NonNegative = 0.0
    proximal: NonNegative = 0.0
    keep_state: bool = True

    @model_validator(mode="after")
    def _batches_and_momentum_fit_the_optimizer(self) -> LocalConfig:
        if self.optimizer == "gd" and self.batch_size is not None:
            raise ValueError("gd takes the full batch; leave batch_size out, or write optimizer: sgd")
        if self.optimizer != "gd" and self.batch_size is None:
            raise ValueError(f"{self.optimizer} needs batch_size; write for example batch_size: 32")
        if self.optimizer != "sgd" and self.momentum > 0.0:
            raise ValueError(f"momentum belongs to sgd, the optimizer is {self.optimizer}; leave it out")
        return self


class PersonalConfig(Frozen):
    """Personalised learning, PRoBit: h_m(w; w_t) = f_m(w) + lam/2 ||w - w_t||^2, a model of its own on every device.

    `test_share` of every device's samples is kept out of training to measure the personal model on.
    """

    lam: PositiveFloat = 0.1
    test_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2
