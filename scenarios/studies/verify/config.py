"""The `card:` part of a scenario: what is claimed, who says so, and how the answer is known."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from phy.config import Frozen

Quantity = Literal["bit_error_rate", "packet_error_rate"]
Decibels = Annotated[float, Field(ge=0, le=20, allow_inf_nan=False)]


class ClosedForm(Frozen):
    """The closed form of `phyloop link`; with `as_if`, that of the link with these keys of `link:` replaced.

    `worse_db`: a loss that the model of the channel brings and its card explains.
    """

    kind: Literal["closed-form"]
    quantity: Quantity = "bit_error_rate"
    as_if: dict[str, Any] = Field(default_factory=dict)
    worse_db: Decibels = 0.0


class DiversityOrder(Frozen):
    """Slope of BPSK over L independent Rayleigh antennas between the first and the last value, as in the closed form.

    Measured against log(1 + SNR) per antenna, where it is L and a little: the order without going to high SNR.
    """

    kind: Literal["diversity-order"]


class PublishedPoint(Frozen):
    """One point of a published curve, `errors` among `observations` at `value_db` on the axis of `measure.over`."""

    value_db: float
    errors: Annotated[int, Field(ge=1)]
    observations: Annotated[int, Field(ge=1)]


class Published(Frozen):
    """A published curve, straight lines of log(rate) over decibels between its points.

    `tolerance_db` allows for the counts behind it and for details that its source leaves open.
    """

    kind: Literal["published"]
    quantity: Quantity = "packet_error_rate"
    tolerance_db: Decibels
    points: Annotated[tuple[PublishedPoint, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _falls(self) -> Published:
        for one, other in zip(self.points, self.points[1:], strict=False):
            falls = one.errors / one.observations > other.errors / other.observations
            if not (one.value_db < other.value_db and falls):
                raise ValueError("points must go up in value_db and down in rate; sort them")
        return self


class FiniteLength(Frozen):
    """The normal approximation to the best code of this length: not better, and at most `within_db` worse."""

    kind: Literal["finite-length"]
    within_db: Decibels


class UnionBound(Frozen):
    """Union bound of Viterbi decoding on the bit error rate: not worse, and at most `within_db` better.

    `bit_weights`: information bits on all paths of weight `free_distance`, `free_distance + 2`, and so on.
    """

    kind: Literal["union-bound"]
    within_db: Decibels
    free_distance: Annotated[int, Field(ge=1)]
    bit_weights: Annotated[tuple[int, ...], Field(min_length=1)]


class Cancellation(Frozen):
    """Exact error rates of both users under successive cancellation over AWGN."""

    kind: Literal["successive-cancellation"]


class Retransmission(Frozen):
    """Residual packet error rate PER^(n+1) of uncoded packets sent up to n times again over AWGN."""

    kind: Literal["retransmission"]


class InterferenceFloor(Frozen):
    """Rayleigh fading with the interference that `phyloop check` predicts for a prefix too short, as noise.

    An approximation, hence `tolerance_db`: the interference is not Gaussian and fades partly with the signal.
    """

    kind: Literal["interference-floor"]
    tolerance_db: Decibels


class SumError(Frozen):
    """Mean square error N0 / A^2 of a sum in the air, A = h sqrt(P0) over the largest magnitude that is sent."""

    kind: Literal["sum-error"]
    num_symbols: Annotated[int, Field(ge=1000)]


class PowerDelayProfile(Frozen):
    """Delays, in units of the delay spread, and powers [dB] of the taps as the standard prints them."""

    kind: Literal["power-delay-profile"]
    delays: tuple[float, ...]
    powers_db: tuple[float, ...]


class DopplerCorrelation(Frozen):
    """Clarke's J0(2 pi f_D tau) between instants `turns` = f_D tau apart."""

    kind: Literal["doppler-correlation"]
    turns: Annotated[tuple[float, ...], Field(min_length=1)]


class AmplitudeCaps(Frozen):
    """Caps on the receive amplitude of a learning scenario, each `[value, half a unit of its last digit]`.

    `binds` is the cap at which a short run really sends.
    """

    kind: Literal["amplitude-caps"]
    power: tuple[float, float]
    lmc: tuple[float, float]
    privacy: tuple[float, float]
    binds: Literal["power", "lmc", "privacy"]


Expectation = Annotated[
    ClosedForm
    | DiversityOrder
    | Published
    | FiniteLength
    | UnionBound
    | Cancellation
    | Retransmission
    | InterferenceFloor
    | SumError
    | PowerDelayProfile
    | DopplerCorrelation
    | AmplitudeCaps,
    Field(discriminator="kind"),
]


class CardConfig(Frozen):
    """What `phyloop verify` makes of a scenario.

    A statistical check is measured until its whole interval is no wider than a shift of the link by `resolves_db`
    (twice that under `--fast`), so that such a shift would surely be seen, and fails where it does not come to that: no
    card passes for want of data.
    """

    claim: Annotated[str, Field(min_length=10)]
    source: Annotated[str, Field(min_length=10)]
    resolves_db: Annotated[float, Field(gt=0, le=5)] = 0.25
    fast: bool = Field(default=True, description="whether --fast runs it too")
    expect: Annotated[tuple[Expectation, ...], Field(min_length=1)]
