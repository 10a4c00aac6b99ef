"""PRoBit, one-bit probabilistic aggregation, as the user writes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from fl.base.fields import PositiveFloat
from fl.base.measured import Measured
from fl.schemes.coders.air import AirForm, Votes
from fl.schemes.probit.probit import SMALLEST_SHARE, Probit
from fl.schemes.scheme import SCHEME_KEYS, ChannelUse, Confidence, Epsilon, Response, Scheme, belongs, schemes
from phy.config.base import Modulation
from phy.config.conflict import Conflict, ConflictError, LeaveOut, Say, Write, rounded
from privacy.events.events import Ledger
from privacy.events.releases import Release, Uploads
from privacy.mechanisms.probit import dp_bound, privacy_loss

if TYPE_CHECKING:
    from fl.models.federated import Piece
    from fl.schemes.coders.law import Law

_MOST_ENTRIES = 4096


@schemes.register
class ProbitScheme(Scheme):
    """PRoBit, one stochastic bit per number and the maximum-likelihood mean.

    A fixed b below what `epsilon` asks for is refused; other bounds are raised to it.
    """

    in_blocks: ClassVar[bool] = True
    label: ClassVar[str] = "PRoBit"
    epsilon_source: ClassVar[str] = "Lan et al., Theorem 2"
    measured: ClassVar[Measured] = Measured(per_round=("b",))
    epsilon_per: ClassVar[Literal["number", "round"]] = "round"
    unbiased: ClassVar[bool] = True  # for updates within b and the clips
    air_modulations: ClassVar[tuple[Modulation, ...]] = ("bpsk", "qpsk")

    name: Literal["probit"]
    bound: Literal["fixed", "clip", "adaptive"] = Field(
        default="fixed",
        description="fixed: b; clip: updates are clipped to clip, and b is that; adaptive: our rule, see "
        "adapted_bound; the known part of Lan et al. prints no rule for b",
    )
    b: PositiveFloat = Field(
        default=0.05,
        description="bound b on every number; larger is more noise, smaller clips more; 0.05 lets 20 devices learn "
        "with 5 local steps",
    )
    clip: PositiveFloat | None = Field(default=None, description="limit of every number of an update, for bound clip")
    epsilon: Epsilon | None = Field(
        default=None, description="per upload and round, by b >= max |delta| + (1 + 1/eps) Delta_1; needs l1_clip"
    )
    l1_clip: PositiveFloat | None = Field(default=None, description="Delta_1 / 2, limit of the l1 norm of an update")
    form: Literal["printed", "exact"] = Field(
        default="printed",
        description="bound that epsilon asks for: as printed, or the smaller one whose exact loss is epsilon; "
        "printed as in Lan et al.",
    )
    channel: ChannelUse = "native"
    confidence: Confidence = "auto"

    @model_validator(mode="after")
    def _bounds_have_their_numbers(self) -> ProbitScheme:
        if (self.bound == "clip") != (self.clip is not None):
            remedy = Write({"bound": "clip"}) if self.bound != "clip" else Write({"clip": 0.05}, example=True)
            raise ConflictError("bound clip", "bound clip needs clip, and no other bound has one", remedy)
        if self.epsilon is not None and self.l1_clip is None:
            raise ConflictError(
                "epsilon l1_clip",
                "epsilon needs l1_clip",
                Write({"l1_clip": 1.0, "bound": "adaptive"}),
                LeaveOut("epsilon"),
            )
        return self

    def upload_bits(self, num_values: int) -> int:
        return num_values

    def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> Probit:
        return Probit(self, num_values=sum(piece.size for piece in pieces))

    def over_air(self, num_values: int) -> AirForm:
        return Votes(Probit(self, num_values=num_values), num_values=num_values)

    def needed_bound(self, num_values: int | None) -> float:
        """Return the b that epsilon asks for without a channel; `num_values` M (None: any) matters to `exact`."""
        if self.epsilon is None or self.l1_clip is None:
            return 0.0
        bound = dp_bound(
            epsilon=self.epsilon, l1_clip=self.l1_clip, clip=self.clip, form=self.form, num_values=num_values
        )
        return float(bound)

    def first_bound(self, num_values: int | None) -> float:
        """Return b of the first round: as given (`fixed`), or `clip` or the adaptive rule's, raised to epsilon's b."""
        start = self.b if self.clip is None else self.clip
        return start if self.bound == "fixed" else max(start, self.needed_bound(num_values))

    @property
    def response(self) -> Response:
        return Response.at(None, channel=self.channel, confidence=self.confidence)

    def conflicts(self, *, num_rounds: int, num_values: int | None, calibrated: bool) -> Iterator[Conflict]:
        if self.epsilon is None and self.l1_clip is not None and not calibrated:
            yield Conflict(
                f"learning.aggregation.l1_clip {SCHEME_KEYS}",
                "l1_clip limits updates for an epsilon, and there is neither an epsilon nor a budget that sets it",
                LeaveOut("l1_clip"),
                Say("write an epsilon"),
            )
        needed = self.needed_bound(num_values)
        if not calibrated and self.bound == "fixed" and self.b < needed * (1.0 - 1e-9):
            yield Conflict(
                f"learning.aggregation.b learning.aggregation.epsilon {SCHEME_KEYS}",
                f"b {self.b:g} is below {needed:.6g}, which (epsilon, 0)-DP asks for",
                Write({"b": rounded(1.001 * needed, 4)}),
                Say("a smaller l1_clip"),
                Write({"bound": "adaptive"}, note=", which raises b itself"),
            )
        if self.bound == "clip" and self.b != type(self).model_fields["b"].default:
            yield belongs("b", "bound fixed or adaptive", "the bound is clip")
        if self.form != "printed" and self.epsilon is None and not calibrated:
            yield belongs("form", "a bound that an epsilon asks for", "and there is no epsilon")

    def describe(self, num_values: int | None) -> list[str]:
        """See `Scheme.describe`: b, and the influence of attackers that it limits."""
        first = self.first_bound(num_values)
        how = "at first and at most, then adaptive" if self.bound == "adaptive" else "throughout"
        text = (
            f"bound b = {first:.4g} {how}; a share beta of attackers moves a parameter by at most {2 * first:.4g} beta"
        )
        if self.epsilon is None:
            return [text]
        loss, share = self.privacy_loss(first, num_values=num_values), ""
        least = self.model_copy(update={"form": "exact"}).needed_bound(num_values)
        if self.form == "printed" and least < first:
            share = f", {loss / self.epsilon:.0%} of that; form: exact spends all of it, with b = {least:.4g}"
        return [
            f"epsilon {self.epsilon:.4g} for a whole upload in each round, by the bound b",
            text,
            f"an upload spends {loss:.4g} of epsilon {self.epsilon:.4g}{share}",
        ]

    def law(self, *, num_values: int | None) -> Law:
        """See `Scheme.law`: at the smallest b of any round, to which data and attackers can bring the adaptive rule."""
        from fl.schemes.coders.law import FAR, Law

        first = b = self.first_bound(num_values)
        note = f", b {b:.4g}"
        if self.bound == "adaptive":
            b = max(SMALLEST_SHARE * first, self.needed_bound(num_values))
            note = f", b at {b:.4g}, the smallest that the adaptive rule may take (it starts at {first:.4g})"
        upload = exact = None
        if self.l1_clip is not None:
            largest = min(self.clip or self.l1_clip, self.l1_clip)
            upload = min(int(self.l1_clip / largest * (1.0 + 1e-12)), _MOST_ENTRIES, num_values or _MOST_ENTRIES)
            exact = self.privacy_loss(b, num_values=num_values)
        steady = self.model_copy(update={"bound": "fixed"})
        return Law(
            coder=lambda size: Probit(steady, num_values=size, b=b),
            epsilon=self.epsilon,
            source=self.epsilon_source,
            proved=False,
            exact_epsilon=exact,
            channel_credited=self.channel == "native",
            upload=upload,
            far=self.l1_clip or FAR,
            note=note,
        )

    def release(self, num_values: int) -> Release:
        """See `Scheme.release`: the upload as a whole, at the exact loss of the smallest b that any round may take."""
        if self.l1_clip is None:
            problem = "without a limit of the l1 norm protects nothing, and no budget holds that"
            return self.unprotected(problem, {"aggregation": {"name": "probit", "l1_clip": 1.0}})
        if self.epsilon is None:  # until a budget sets it
            confidence = self.response.confidence if self.channel == "native" else None
            return Release(kind="pure", unit="device", confidence=confidence)
        least = self.needed_bound(num_values) if self.bound == "adaptive" else self.first_bound(num_values)
        loss = self.privacy_loss(least, num_values=num_values)
        return Release(kind="pure", unit="device", parameter=loss, confidence=self.credited)

    def privacy_loss(self, b: float, *, num_values: int | None) -> float:
        """Return the exact loss of an upload at the bound b [nats]; needs `l1_clip`."""
        assert self.l1_clip is not None
        return privacy_loss(b, l1_clip=self.l1_clip, clip=self.clip, num_values=num_values)

    def ledger(self, uploads: Uploads, *, num_values: int) -> Ledger:
        """See `Scheme.ledger`: by the b of every round; a credited channel lets the device's own b be smaller."""
        release = self.release(num_values)
        if self.epsilon is None or self.l1_clip is None:
            return release.recorded(uploads)

        def spent(bounds: np.ndarray) -> np.ndarray:
            values, place = np.unique(bounds, return_inverse=True)
            losses = np.asarray([self.privacy_loss(float(b), num_values=num_values) for b in values])
            return uploads.where_sent(losses[place].reshape(bounds.shape))

        first = [self.first_bound(num_values)]
        met = np.array(np.broadcast_to(np.asarray(uploads.rounds.get("b", first))[:, None], uploads.sent.shape))
        low = np.nan_to_num(np.asarray(uploads.devices.get("probed_low", np.zeros(met.shape)), np.float64))
        if release.confidence is None or not low[uploads.sent].any():
            return release.recorded(uploads, by_round=spent(met))
        smallest = float(dp_bound(epsilon=self.epsilon, l1_clip=self.l1_clip, clip=self.clip, flip_rate=0.5))
        own = spent(np.maximum(smallest, (1.0 - 2.0 * low) * met))
        if uploads.independent:
            return release.credited(spent(met), uploads, uncredited=own)
        return release.ledger(own, assumptions=uploads.reasons)

    def with_epsilon(self, epsilon: float, *, num_values: int | None) -> ProbitScheme:
        """See `Scheme.with_epsilon`; a fixed b is then what that epsilon asks for."""
        scheme = self.model_copy(update={"epsilon": epsilon})
        if self.bound != "fixed" or self.l1_clip is None:
            return scheme
        return scheme.model_copy(update={"b": scheme.needed_bound(num_values)})
