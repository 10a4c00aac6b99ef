"""What every device does between two uploads."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fl.base.fields import Count, Frozen, PositiveFloat, whole
from phy.config.conflict import ConflictError, LeaveOut, Say, Write

NonNegative = Annotated[float, Field(ge=0.0, le=1e6, allow_inf_nan=False)]
Decay = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]


class LocalConfig(Frozen):
    """E = `steps` local iterations per round, from the global model; Li et al. 2025 (3) with clipped gradients."""

    optimizer: Literal["gd", "sgd", "adam"] = Field(
        default="gd", description="gd: full batch; sgd: mini-batches with momentum; adam; gd as in Li et al. 2025"
    )
    learning_rate: PositiveFloat = Field(
        default=0.1,
        description="step size eta; softmax regression and the MLP train on MNIST with 0.1; also that of the CNN of "
        "Li et al. 2025",
    )
    decay_steps: PositiveFloat | None = Field(
        default=None,
        description="phi in eta_t = eta phi / (t + phi) at step t of a device, as in Theorem 4.2 of Lang et al. 2023; "
        "left out: the same eta in all steps",
    )
    steps: int = whole(
        5,
        "E, local iterations per round, samples / batch_size in an epoch; 5 steps of 0.1 learn about as fast as one of "
        "0.5, 1 is FedSGD",
        most=100_000,
    )
    batch_size: Count | None = Field(default=None, examples=[32], description="samples of one mini-batch (sgd, adam)")
    momentum: Decay = Field(default=0.0, examples=[0.9], description="momentum (sgd); 0: none")
    beta1: Decay = Field(default=0.9, description="decay of Adam's first moment; 0.9 as in Kingma and Ba 2015")
    beta2: Decay = Field(default=0.999, description="decay of Adam's second moment; 0.999 as in Kingma and Ba 2015")
    clip: PositiveFloat | None = Field(
        default=None,
        examples=[1.0],
        description="G, largest l2 norm of the gradient of one sample; left out: no clipping",
    )
    l2: NonNegative = Field(
        default=0.0,
        description="mu in mu/2 ||w||^2, part of the loss of every sample, inside the clipping; 0: no regularisation",
    )
    proximal: NonNegative = Field(
        default=0.0,
        description="factor in factor/2 ||w - w_global||^2 (FedProx), outside the clipping; 0: plain federated "
        "averaging",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        default="float32",
        description="number format of what convolutions and dense layers multiply; bfloat16 is faster where the "
        "processor has it, with weights, clipping and updates in float32; float32 as usual",
    )
    keep_state: bool = Field(
        default=True,
        description="momentum, Adam's moments and the step t of a device last from round to round; true: a device is "
        "the same machine in all rounds",
    )

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the vectors that the optimizer keeps per device."""
        momentum = ("momentum",) if self.momentum > 0.0 else ()
        return {"gd": (), "sgd": momentum, "adam": ("first_moment", "second_moment")}[self.optimizer]

    @model_validator(mode="after")
    def _keys_fit_each_other(self) -> LocalConfig:
        if self.optimizer == "gd" and self.batch_size is not None:
            momentum = ["momentum"] if self.momentum > 0.0 else []
            raise ConflictError(
                "", "gd takes the full batch", LeaveOut("batch_size", *momentum), Write({"optimizer": "sgd"})
            )
        if self.optimizer != "gd" and self.batch_size is None:
            raise ConflictError(
                "batch_size", f"{self.optimizer} needs batch_size", Write({"batch_size": 32}, example=True)
            )
        if self.optimizer != "sgd" and self.momentum > 0.0:
            raise ConflictError(
                "momentum optimizer", f"momentum belongs to sgd, the optimizer is {self.optimizer}", LeaveOut()
            )
        if self.precision != "float32" and self.clip is not None and self.l2 > 0.0:
            raise ConflictError(
                "l2 clip", "bfloat16 rounds what l2 adds, so that clip would not hold", Say("leave precision or l2 out")
            )
        return self

    @property
    def in_kernels(self) -> bool:
        """True if the kernel of softmax regression has these steps."""
        return self.optimizer != "adam" and self.decay_steps is None and self.precision == "float32"

    @property
    def in_layer_kernel(self) -> bool:
        """True if the kernel of stacks of layers has these steps."""
        return self.precision == "float32"


class PersonalConfig(Frozen):
    """Personalised learning, PRoBit: h_m(w; w_t) = f_m(w) + lam/2 ||w - w_t||^2, a model of its own on every device."""

    lam: PositiveFloat = Field(
        default=0.1,
        description="lambda in lambda/2 ||w - w_t||^2; 0.1 is our choice, the known part of Lan et al. prints none",
    )
    test_share: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        default=0.2, description="share of a device's samples that test its personal model; 0.2 is usual"
    )
