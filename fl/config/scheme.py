"""What devices make of their updates before they send them, and what the server makes of what it hears."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from fl.config.base import Frozen, PositiveFloat, Probability

Epsilon = Annotated[float, Field(gt=1e-6, le=1e6, allow_inf_nan=False)]
EpsilonOrNone = Annotated[
    Epsilon | None,
    BeforeValidator(lambda value: None if value == "none" else value),
    PlainSerializer(lambda value: "none" if value is None else value),
]
"""`none` is written for no randomized response: left out, there is the default."""

ChannelUse = Literal["native", "debias", "agnostic"]
"""What is known of the channel's bit errors is credited and undone, undone only, or ignored."""


class CpaScheme(Frozen):
    """Compressed private aggregation, Lang et al. 2023: one bit per block, a histogram at the server.

    - `epsilon` per coordinate and round; `none`: no randomized response;
    - `form`: `coded` (2^R + 1 levels, codeword of (n-1)/2 entries -1), or `printed` (2^R levels, balanced codeword);
    - `decode`: as the authors coded it (no 1/(2p-1)), as printed, or exactly `unbiased`;
    - `rate_bits` R; `gamma` radius, `fixed`, `scaled` per tensor to gamma standard deviations, or `decaying` by
      `gamma_decay` every round; `dimension` L of the lattice (2: hexagonal); `dither`: subtractive, of the shared seed;
    - `stages`: 1 is CPA, 2 nested CPA, each further stage quantises the residual of the last;
    - `codewords`: `balanced` (fixed weight) or `independent` fair coins;
    - `negative_bins`: kept or set to zero at the server.
    """

    name: Literal["cpa"]
    epsilon: EpsilonOrNone = 0.5
    form: Literal["coded", "printed"] = "coded"
    decode: Literal["coded", "printed", "unbiased"] = "coded"
    rate_bits: Annotated[int, Field(ge=1, le=6, strict=True)] = 1
    gamma: PositiveFloat = 0.05
    radius: Literal["fixed", "scaled", "decaying"] = "fixed"
    gamma_decay: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    dimension: Literal[1, 2] = 1
    dither: bool = False
    stages: Annotated[int, Field(ge=1, le=8, strict=True)] = 1
    codewords: Literal["balanced", "independent"] = "balanced"
    negative_bins: Literal["keep", "zero"] = "keep"
    channel: ChannelUse = "native"
    confidence: Annotated[float, Field(ge=0.5, lt=1.0)] = 0.99


class ProbitScheme(Frozen):
    """PRoBit, one stochastic bit per entry and the maximum-likelihood mean.

    `bound` b: `fixed` at `b`; `clip`: updates are clipped to `clip` in every entry and b is that; `adaptive`: our own
    rule, see `probit.probit_bound`. `epsilon` asks for b >= max |delta| + (1 + 1/eps) Delta_1, the l1 norm of
    updates being clipped to `l1_clip` = Delta_1 / 2: a fixed b below that is refused, the others are raised to it.
    `form` of that bound: as `printed`, or the smaller one whose `exact` loss is eps.
    """

    name: Literal["probit"]
    bound: Literal["fixed", "clip", "adaptive"] = "fixed"
    b: PositiveFloat = 0.05
    clip: PositiveFloat | None = None
    epsilon: Epsilon | None = None
    l1_clip: PositiveFloat | None = None
    form: Literal["printed", "exact"] = "printed"
    channel: ChannelUse = "native"
    confidence: Annotated[float, Field(ge=0.5, lt=1.0)] = 0.99

    @model_validator(mode="after")
    def _bounds_have_their_numbers(self) -> ProbitScheme:
        if (self.bound == "clip") != (self.clip is not None):
            raise ValueError("bound clip needs clip, and no other bound has one; write for example clip: 0.05")
        if (self.epsilon is None) != (self.l1_clip is None):
            raise ValueError("epsilon needs l1_clip, which bounds the sensitivity, and the other way round")
        return self


class SignScheme(Frozen):
    """signSGD: one sign per entry, randomized response at `epsilon`, then the `mean` of +-1 or the `majority`.

    `decode` of the mean: as `coded`, without dividing by what randomized response leaves, tanh(eps/2), or `unbiased`.
    """

    name: Literal["sign"]
    epsilon: EpsilonOrNone = 0.5
    vote: Literal["mean", "majority"] = "majority"
    decode: Literal["coded", "unbiased"] = "coded"
    step: PositiveFloat = 1.0
    channel: ChannelUse = "agnostic"
    confidence: Annotated[float, Field(ge=0.5, lt=1.0)] = 0.99


class LaplaceScheme(Frozen):
    """Laplace mechanism on x = (h - mean) / (3 std) per tensor, clipped to [-1, 1] (not so `as_coded`); binary32."""

    name: Literal["laplace"]
    epsilon: Epsilon = 0.5
    as_coded: bool = False


class JopeqScheme(Frozen):
    """JoPEQ: noise and subtractively dithered quantisation that together are Laplace (scalar) or t (lattice) noise.

    Of x = (h - mean) / (3 std) per tensor, clipped to [-1, 1] (not so `as_coded`).
    """

    name: Literal["jopeq"]
    epsilon: Epsilon = 0.5
    rate_bits: Annotated[int, Field(ge=1, le=6, strict=True)] = 1
    dimension: Literal[1, 2] = 1
    as_coded: bool = False


class MvuScheme(Frozen):
    """Minimum-variance unbiased mechanism: `input_bits` to `output_bits` through an optimised private table."""

    name: Literal["mvu"]
    epsilon: Epsilon = 0.5
    clip: PositiveFloat = 0.05
    input_bits: Annotated[int, Field(ge=1, le=4, strict=True)] = 1
    output_bits: Annotated[int, Field(ge=1, le=4, strict=True)] = 1


class AggregatorConfig(Frozen):
    """Numbers through `codec`, made one by the weighted `mean` or robustly; coordinate by coordinate but the
    `geometric-median`.

    `trim`: share cut off at each end of a trimmed mean; `step`: how far RSA moves towards the majority of signs.
    """

    name: Literal["mean", "median", "trimmed-mean", "geometric-median", "rsa"] = "mean"
    trim: Annotated[float, Field(ge=0.0, lt=0.5)] = 0.1
    step: PositiveFloat = 0.01


AggregationConfig = Annotated[
    AggregatorConfig | CpaScheme | ProbitScheme | SignScheme | LaplaceScheme | JopeqScheme | MvuScheme,
    Field(discriminator="name"),
]


class AttackConfig(Frozen):
    """Who attacks and how.

    - `share` of the devices, or `devices` by number; `drawn` without replacement, or with, as the CPA reference has it;
    - on the update: `gaussian` N(0, `std`^2), `sign-flip` (`factor` times the honest one), `zero-gradient` (minus the
      sum of the honest ones over the number of attackers), `duplicate` (a copy of the first honest one), `scale`;
    - on the bits, after privacy: `ones`, `invert`, `random`;
    - on the air: `jam` (full power over superposition; `signal`: signs at random, constant ones, or Gaussian noise);
    - on the data: `labels` (every label y becomes num_classes - 1 - y).
    """

    kind: Literal[
        "gaussian", "sign-flip", "zero-gradient", "duplicate", "scale", "ones", "invert", "random", "jam", "labels"
    ]
    share: Probability | None = None
    devices: tuple[Annotated[int, Field(ge=0, strict=True)], ...] | None = None
    drawn: Literal["without-replacement", "with-replacement"] = "without-replacement"
    factor: Annotated[float, Field(allow_inf_nan=False, ge=-1e6, le=1e6)] = -4.0
    std: PositiveFloat = 1e4
    signal: Literal["random", "ones", "noise"] = "random"

    @model_validator(mode="after")
    def _attackers_are_named_one_way(self) -> AttackConfig:
        if (self.share is None) == (self.devices is None):
            raise ValueError("name the attackers by share or by devices, one of both")
        return self

    @property
    def uses_honest_updates(self) -> bool:
        """Whether what attackers send is made of what honest devices would send in the same round."""
        return self.kind in ("zero-gradient", "duplicate")


class PersonalConfig(Frozen):
    """Personalised learning, PRoBit: h_m(w; w_t) = f_m(w) + lam/2 ||w - w_t||^2, a model of its own on every device.

    `test_share` of every device's samples is kept out of training to measure the personal model on.
    """

    lam: PositiveFloat = 0.1
    test_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.2


def named(value: Any) -> Any:
    """A bare word as a mapping with that name."""
    return {"name": value} if isinstance(value, str) else value
