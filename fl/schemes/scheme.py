"""Scheme: how devices turn updates into bits, and how the server turns received bits into one update."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from fl.base.arrays import F32, F64, Bools, Reals
from fl.base.fields import Frozen
from fl.base.measured import Measured
from phy.config.base import Modulation
from phy.config.conflict import Conflict, LeaveOut
from phy.config.registry import Registry, defines
from privacy.config.base import UNSETTLED
from privacy.errors import PlainRemedy
from privacy.events.claims import Claim
from privacy.events.events import Ledger
from privacy.events.published import CLEAR_SCALES, local_claim
from privacy.events.releases import Release, Uploads

if TYPE_CHECKING:
    from fl.models.federated import Piece
    from fl.schemes.coders.air import AirForm
    from fl.schemes.coders.coder import Coder
    from fl.schemes.coders.law import Law

Epsilon = Annotated[float, Field(gt=1e-6, le=1e6, allow_inf_nan=False)]
EpsilonOrNone = Annotated[
    Epsilon | None,
    BeforeValidator(lambda value: None if value == "none" else value),
    PlainSerializer(lambda value: "none" if value is None else value),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 1e-6, "maximum": 1e6}, {"const": "none"}]}),
    Field(
        description="of randomized response, per number and round; none: no randomized response; 0.5 as in "
        "Lang et al. 2023"
    ),
]
"""`none` is written for no randomized response: left out, there is the default."""

ChannelUse = Annotated[
    Literal["native", "debias", "agnostic"],
    Field(
        description="measured bit errors: native counts them for privacy and undoes them, debias undoes them, "
        "agnostic ignores them"
    ),
]
"""What is known of the channel's bit errors is credited and undone, undone only, or ignored."""

Confidence = Annotated[
    Annotated[float, Field(ge=0.5, lt=1.0)] | Literal["auto"],
    Field(
        description="of the lower limit of the measured bit error rate; higher counts fewer errors, lower costs more "
        "delta: 0.01 in each round at 0.99; auto: all rounds cost a tenth of the delta of the run, that of the budget "
        "or 1e-5, and 0.99 where no error counts"
    ),
]

SCHEME_KEYS = "learning.aggregation.name learning.aggregation"
SCHEME_EPSILON = f"learning.aggregation.epsilon {SCHEME_KEYS}"


def belongs(key: str, owner: str, found: str) -> Conflict:
    """Return the conflict of a `key` that belongs to `owner`, where the scenario has `found` in its place."""
    problem = f"{key} belongs to {owner}, {found}"
    return Conflict(f"learning.aggregation.{key} {SCHEME_KEYS}", problem, LeaveOut(key))


def keep_factor(epsilon: float | None) -> float:
    """2 p - 1 = tanh(epsilon / 2) of randomized response that keeps a bit with p = e^eps / (1 + e^eps); 1 for None."""
    return 1.0 if epsilon is None else math.tanh(epsilon / 2.0)


def flip_target(epsilon: float | None) -> float | None:
    """1 - p = 1 / (1 + e^epsilon), or None where no bit is flipped."""
    return None if epsilon is None else (1.0 - keep_factor(epsilon)) / 2.0


class Response(NamedTuple):
    """Randomized response on every bit, Warner 1965, and the use of the channel's bit errors.

    - `flip_target`: probability with which every bit must be wrong end to end; None: no bit is flipped on purpose;
    - `confidence` of the lower limit of the channel's bit error rate.
    """

    flip_target: float | None
    channel: ChannelUse
    confidence: float

    @classmethod
    def at(cls, epsilon: float | None, *, channel: ChannelUse, confidence: float | Literal["auto"]) -> Response:
        """Return the response at an epsilon, `auto` standing for `UNSETTLED`."""
        return cls(flip_target(epsilon), channel, UNSETTLED if confidence == "auto" else confidence)


class Scheme(Frozen):
    """An aggregation scheme, `learning.aggregation` of a scenario. A scheme is a class in the registry `schemes`.

    - `uses_codec`: numbers go through `learning.codec`; else the scheme has bits of its own;
    - `in_blocks`: updates may be encoded in blocks of devices; else all updates of a round are in memory at once;
    - `binary32`: numbers go on the air as binary32, in which one wrong bit makes a number of up to 1e38;
    - `label`: name in legends and tables; empty: the word in `name`;
    - `epsilon_per`: what the scheme's own epsilon protects, a `number` or a whole `round`;
    - `epsilon_source`: the publication that claims this epsilon; empty: no claim is made;
    - `step_key`: key below `learning` to lower where steps are too long;
    - `sends_scales`: the scales of a device's numbers are sent beside them, without noise;
    - `largest_epsilon` that a budget may give to the scheme;
    - `measured`: names of the numbers that only this scheme records, see `Coder.facts` and `Coder.metrics`.

    A scheme with bits of its own defines `upload_bits` and `build`, one that `uses_codec` defines `aggregate`; every
    other method has a default.
    """

    name: str

    uses_codec: ClassVar[bool] = False
    in_blocks: ClassVar[bool] = False
    binary32: ClassVar[bool] = False
    label: ClassVar[str] = ""
    epsilon_per: ClassVar[Literal["number", "round"]] = "number"
    epsilon_source: ClassVar[str] = ""
    sends_scales: ClassVar[bool] = False
    step_key: ClassVar[str] = "local.learning_rate"
    largest_epsilon: ClassVar[float] = 1e6
    measured: ClassVar[Measured] = Measured()

    if TYPE_CHECKING:  # absent unless a scheme defines them

        def upload_bits(self, num_values: int) -> int:
            """Return the bits per device and round for `num_values` numbers M, before ciphers and channel coding."""

        def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> Coder:
            """Return the coder for a model of `pieces`.

            `receiver_limit`: larger received numbers count as missing. Raises LearningError or PrivacyError for
            settings that cannot be simulated.
            """

        def aggregate(self, values: Reals, *, weights: F64, known: Bools | None, otherwise: F32) -> F32:
            """Return one vector `[M]` of the numbers `[K, M]` that the codec decoded.

            `weights` `[K]` count among the devices of which a number arrived, `known` `[K, M]` (None: all arrived);
            `otherwise` `[M]` is the result where nothing arrived.
            """

    @classmethod
    def undefined(cls) -> tuple[str, ...]:
        """Return what a scheme must define and this one does not, for its registry."""
        asked = ("aggregate",) if cls.uses_codec else ("upload_bits", "build")
        return tuple(name for name in asked if not defines(cls, Scheme, name))

    @classmethod
    def variant(cls, settings: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Return the word or the name of written `settings` in a legend, and the keys that the name stands for."""
        return settings["name"], ()

    def over_air(self, num_values: int) -> AirForm | None:
        """Return the symbols that stand for updates of `num_values` numbers under access superposition.

        None for a scheme that needs what every device sends on its own.
        """
        return None

    @property
    def air_modulations(self) -> tuple[Modulation, ...]:
        """Modulations of these symbols, the usual one first; empty where there are none."""
        return ()

    @property
    def response(self) -> Response | None:
        """Randomized response of the scheme; None: bits go on the air as they are."""
        return None

    @property
    def as_published(self) -> bool:
        """True if the scheme's epsilon is published without a proof that holds for these settings."""
        return False

    def conflicts(self, *, num_rounds: int, num_values: int | None, calibrated: bool) -> Iterator[Conflict]:
        """Yield settings that cannot be simulated, or that the scheme never reads.

        `num_rounds` of the run; `num_values` of the model, where its layers determine it; `calibrated`: a budget of
        the run sets epsilon.
        """
        yield from ()

    def describe(self, num_values: int | None) -> list[str]:
        """Return lines for `phyloop check`: what the scheme guarantees, and its bounds."""
        if self.own_epsilon is None:
            return []
        return [f"epsilon {self.own_epsilon:g} for every parameter in each round"]

    @property
    def unbiased(self) -> bool:
        """True if the expected update over an error-free link is the mean of the updates."""
        return False

    @property
    def joint(self) -> bool:
        """True if the server makes one update of the bits of all devices, and none of those of one device."""
        return False

    @property
    def cut_off(self) -> float | None:
        """Share of the devices that is cut off at either end of a mean; None for other schemes."""
        return None

    @property
    def overwhelmed(self) -> bool:
        """True if one number of 1e38 makes the aggregate useless."""
        return self.binary32

    @property
    def own_epsilon(self) -> float | None:
        """Epsilon of the scheme's own randomness; None without any."""
        return getattr(self, "epsilon", None)

    def law(self, *, num_values: int | None) -> Law | None:
        """Return the law of one upload of a model of `num_values` numbers (None: any number), for audits.

        None: an attacker learns it from games, see `fl.schemes.coders.law.LearntLaw`.
        """
        return None

    @property
    def credited(self) -> float | None:
        """Level of the limit at which channel errors count towards privacy; None if they do not count."""
        response = self.response
        if response is None or response.channel != "native" or self.own_epsilon is None:
            return None
        return response.confidence

    @property
    def published(self) -> tuple[Claim, ...]:
        """The claims that the paper of the scheme makes for it; none without an epsilon or an `epsilon_source`."""
        if self.own_epsilon is None or not self.epsilon_source:
            return ()
        claim = local_claim(
            epsilon=self.own_epsilon,
            per_upload=self.epsilon_per == "round",
            source=self.epsilon_source,
            credited=self.credited is not None,
            assumptions=(CLEAR_SCALES,) if self.sends_scales else (),
        )
        return (claim,)

    def release(self, num_values: int) -> Release:
        """Return the release of an upload of `num_values` numbers M: bits of randomized response, or unprotected."""
        response = self.response
        if response is None or response.flip_target is None:
            if self.own_epsilon is not None:
                return self.unprotected("declares no release, and no budget holds without it", "define `release`")
            problem = "without an epsilon protects nothing, and no budget holds that"
            if hasattr(self, "epsilon"):
                return self.unprotected(problem, {"learning.aggregation.epsilon": 0.5})
            return self.unprotected(problem, {"learning.aggregation": "cpa"})
        return Release(
            kind="flipped-bits",
            unit="device",
            coordinates=self.upload_bits(num_values),
            parameter=response.flip_target,
            confidence=self.credited,
        )

    def unprotected(self, problem: str, *remedies: PlainRemedy, assumptions: tuple[str, ...] = ()) -> Release:
        """Return the release of numbers for which no epsilon holds; `problem` says why, `remedies` as PrivacyError."""
        sentence = f"aggregation {self.name} {problem}"
        return Release(kind="unprotected", unit="device", problem=sentence, remedies=remedies, assumptions=assumptions)

    def ledger(self, uploads: Uploads, *, num_values: int) -> Ledger:
        """Return the ledger of recorded uploads."""
        return self.release(num_values).recorded(uploads)

    def with_epsilon(self, epsilon: float, *, num_values: int | None) -> Scheme:
        """Return the scheme at an `epsilon` that a budget leaves. Raises PrivacyError if no budget can set it."""
        return self.model_copy(update={"epsilon": epsilon})


schemes: Registry[Scheme] = Registry("scheme", Scheme, package="fl.schemes")
"""All aggregation schemes, by the word in `learning.aggregation.name`."""

AggregationConfig = Annotated[Scheme, schemes]
