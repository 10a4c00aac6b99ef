"""The budget of a run, and what every privacy mechanism is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privacy.errors import PlainRemedy, PrivacyError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from privacy.accounting.calibration import RunBudget
    from privacy.config.amplitude import AmplitudeMechanism
    from privacy.events.claims import Claim
    from privacy.events.events import Ledger
    from privacy.events.releases import Release, Uploads

Epsilon = Annotated[float, Field(gt=1e-7, le=1e6, allow_inf_nan=False, examples=[5])]
RenyiOrder = Annotated[float, Field(gt=1.0, le=1000.0, allow_inf_nan=False)]
Decibels = Annotated[float, Field(ge=0.0, le=60.0, allow_inf_nan=False)]
Confidence = Annotated[float, Field(ge=0.5, le=1.0 - 1e-12)] | Literal["auto"]

BOUNDED = "what a device sends has a bounded norm, whatever the device holds, and numbers of samples are public"
"""Assumption of every mechanism that clips updates."""

UNSETTLED = 0.99
"""Confidence that `auto` stands for where no error counts towards privacy, and before the number of rounds is known."""


class PrivacySection(BaseModel):
    """Base of every part of `privacy:`: unknown keys are errors, values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BudgetConfig(PrivacySection):
    """The privacy budget of a whole run, over all rounds and numbers, and the action when it is spent."""

    epsilon: Epsilon = Field(description="epsilon of the whole run [nats]")
    delta: Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)] = Field(
        default=1e-5, description="delta of the whole run; 1e-5 is usual, below one over the 60,000 samples of MNIST"
    )
    accountant: Literal["pld", "exact", "renyi", "advanced", "basic"] = Field(
        default="pld",
        description="method that composes rounds; pld uses closed forms where they exist; pld is the tightest of "
        "those that take every mechanism",
    )
    calibrate: bool = Field(
        default=True,
        description="set the protection of every round from the budget; false: the budget only watches; true: all "
        "rounds fit into it",
    )
    schedule: Literal["uniform", "increasing", "decreasing"] = Field(
        default="uniform",
        description="share of each round: equal, or geometric from the first to the last; uniform is usual",
    )
    ratio: Annotated[float, Field(ge=1.0, le=1000.0, allow_inf_nan=False)] = Field(
        default=4.0,
        description="largest share over the smallest one, under schedule increasing or decreasing; 4 is a convention",
    )
    action: Literal["stop", "silent"] = Field(
        default="stop",
        description="before a round that exceeds the budget: end the trial, or continue without sending; stop: "
        "further rounds would change nothing",
    )

    @model_validator(mode="after")
    def _schedule_needs_calibration(self) -> BudgetConfig:
        if self.schedule != "uniform" and not self.calibrate:
            problem = f"schedule {self.schedule} needs calibrate: true, and calibrate is false"
            raise PrivacyError(problem, ("schedule",), {"calibrate": True}, keys="schedule calibrate")
        return self

    def parameters(self, release: Release, *, num_rounds: int) -> NDArray[np.float64]:
        """Return the ledger parameter of every round `[num_rounds]` that spends the budget.

        Raises PrivacyError as `privacy.accounting.calibration.calibrated` does.
        """
        from privacy.accounting.calibration import calibrated, schedule_weights

        return calibrated(
            release.kind,
            budget=self._of_run(release),
            coordinates=release.coordinates,
            weights=schedule_weights(self.schedule, num_rounds=num_rounds, ratio=self.ratio),
            facts=release.facts,
        )

    def rounds_within(self, release: Release, *, most: int) -> int:
        """Return the number of rounds that fit into the budget, from 0 to `most`.

        Raises PrivacyError if the evidence for channel errors costs more than delta, and as `account` does.
        """
        from privacy.accounting.calibration import rounds_that_fit

        budget = self._of_run(release)
        if budget.left(1) < 0.0:
            raise PrivacyError(
                f"channel native pays {release.evidence:.2g} of delta {budget.delta:g} for evidence in every round, "
                "which leaves nothing",
                {"channel": "agnostic"},
                keys="confidence budget.delta channel",
            )
        return rounds_that_fit(release.event(), coordinates=release.coordinates, most=most, budget=budget)

    @property
    def too_small(self) -> PrivacyError:
        """The error of a budget below the cost of one round."""
        return PrivacyError(
            f"one round alone spends more than epsilon {self.epsilon:g} at delta {self.delta:g} (accountant "
            f"{self.accountant})",
            {"calibrate": True},
            "a larger epsilon",
        )

    def _of_run(self, release: Release) -> RunBudget:
        from privacy.accounting.calibration import RunBudget

        return RunBudget(epsilon=self.epsilon, delta=self.delta, accountant=self.accountant, evidence=release.evidence)


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a mechanism for uploads needs to know of learning.

    Bits per number under `codec`, which is `bounded` or lets a bit error change a number without limit, and may send
    `fractions` alone; K rounds; local `steps` of `optimizer` at `learning_rate`, with the gradients of samples clipped
    to `clip` (None: not clipped).
    """

    codec: str
    bits_per_value: int
    bounded: bool
    fractions: bool
    num_rounds: int
    steps: int
    optimizer: str
    learning_rate: float
    clip: float | None


class Mechanism(PrivacySection):
    """Everything that `privacy:` may be.

    `protects`: the amplitude of superposed symbols, sums of updates in the air, numbers before they become bits, bits
    of numbers, or nothing beside what the aggregation scheme protects itself. `gaussian_noise`: noise that gives
    approximate privacy only, if any.
    """

    protects: ClassVar[Literal["amplitude", "sum", "numbers", "bits", "scheme"]]
    gaussian_noise: ClassVar[str | None] = None

    if TYPE_CHECKING:  # the word of every class but those for amplitudes
        mechanism: str

    budget: BudgetConfig | None = Field(
        default=None,
        description="epsilon and delta of the whole run, which set the protection of every round in place of "
        "epsilon and kappa; left out: epsilon as written",
    )

    @property
    def calibrated(self) -> bool:
        """True if a budget for the run sets the protection of every round."""
        return self.budget is not None and self.budget.calibrate

    @property
    def stated_delta(self) -> float | None:
        """delta of the guarantee that `epsilon` is stated for; None without one."""
        return None

    def settled(self, *, num_rounds: int, counts: bool) -> Self:
        """Return the mechanism with `auto` written out; `counts`: errors of the channel may count towards privacy."""
        return self

    @property
    def asked(self) -> str | None:
        """The epsilon that is asked for uploads, and the accountant that it comes from; None without one."""
        return None

    @property
    def for_amplitudes(self) -> AmplitudeMechanism | None:
        """The mechanism itself if it bounds the amplitude of superposed symbols, else None."""
        return None

    @property
    def for_uploads(self) -> UploadMechanism | None:
        """The mechanism itself if it protects single uploads, else None."""
        return None


class Calibrated(Mechanism):
    """Base of mechanisms whose rounds are calibrated from a budget for the whole run."""

    budget: BudgetConfig = Field(description="budget for the whole run, which sets the protection of every round")

    @model_validator(mode="before")
    @classmethod
    def _calibrated_is_not_written(cls, value: Any) -> Any:
        found = [
            key
            for key in ("epsilon", "delta", "kappa", "order", "calibration")
            if isinstance(value, dict) and key in value
        ]
        if found:
            words = f"{', '.join(found[:-1])} and {found[-1]}" if len(found) > 1 else found[0]
            raise PrivacyError(
                f"{words} of a round {'is' if len(found) == 1 else 'are'} written, but the budget for the run sets "
                f"{'it' if len(found) == 1 else 'them'}",
                tuple(found),
                "write budget.calibrate: false for a budget that only watches",
                keys=" ".join((*found, "budget")),
            )
        return value


class SchemeBudget(Mechanism):
    """A budget for a private scheme of `learning.aggregation`: it sets the scheme's `epsilon`, or watches it."""

    protects = "scheme"

    mechanism: Literal["scheme"] = Field(description="the aggregation scheme protects")
    budget: BudgetConfig = Field(
        description="budget for the whole run, which sets or watches the epsilon of the aggregation scheme"
    )


class UploadMechanism(Mechanism):
    """Base of mechanisms that protect single uploads, by the sensitivity of local training; Li et al. 2025 (13).

    `words`: name of the parameter that a budget sets; `remedy_of_steps`: what to do about several local steps.
    """

    words: ClassVar[str]
    remedy_of_steps: ClassVar[str] = "write local.steps: 1 for a bound that holds"

    mechanism: str = Field(description="the mechanism by its name")

    @property
    def for_uploads(self) -> UploadMechanism:
        """See `Mechanism.for_uploads`."""
        return self

    @property
    def counts_all_steps(self) -> bool:
        """True if the sensitivity is that of one step times the number of steps."""
        return False

    @property
    def credited(self) -> float | None:
        """Level of the limit at which channel errors count towards privacy; None if they do not count."""
        return None

    @abstractmethod
    def release(self, num_values: int, training: Training, *, target: float | None = None) -> Release:
        """Return the release of `num_values` numbers; `target`: the bit error rate if only the trial tells it."""

    def ledger(
        self, uploads: Uploads, training: Training, *, num_values: int, by_round: NDArray[np.float64] | None
    ) -> Ledger:
        """Return the ledger of recorded uploads; `by_round` `[num_rounds, 1]`: parameters that a budget set, if any."""
        return self.release(num_values, training).recorded(uploads, by_round=by_round)

    def published(self, training: Training) -> tuple[Claim, ...]:
        """Return what the paper claims of the whole run."""
        return ()

    @property
    def asked(self) -> str:
        """See `Mechanism.asked`."""
        assert self.budget is not None
        return f"{self.budget.epsilon:g} for the run ({self.budget.accountant})"

    def cells(self, training: Training, *, num_samples: int) -> tuple[str, str, str, str, str]:
        """Return mechanism, epsilon, kappa, bit error rate of Theorem 1 and noise for `phyloop check`."""
        assert self.budget is not None
        return f"{self.mechanism}, from the budget", f"{self.budget.epsilon:g} per run", "", "", ""

    def noise_std(self, training: Training, *, num_samples: int, value_range: float) -> float | None:
        """Return the standard deviation of the noise in one number within `value_range`; None before a run knows it."""
        return None

    def distance(self, training: Training, *, num_samples: ArrayLike) -> NDArray[np.float64]:
        """Return the l2 sensitivity of every device, of the shape of `num_samples`; Li et al. 2025 (13)."""
        from privacy.mechanisms.gaussian_mechanism import sensitivity

        assert training.clip is not None
        return sensitivity(
            learning_rate=training.learning_rate,
            clip=training.clip,
            num_samples=num_samples,
            steps=training.steps if self.counts_all_steps else 1,
        )

    def conflicts(self, training: Training, *, lost: str | None) -> Iterator[tuple[str, str, *tuple[PlainRemedy, ...]]]:
        """Yield keys, problem and remedies of what cannot be; `lost`: the policy by which wrong packets are lost."""
        if training.clip is None:
            yield (
                "privacy.mechanism privacy",
                f"mechanism {self.mechanism} needs the gradient of every sample clipped, and learning.local.clip is "
                "missing: one sample can change a model without limit",
                {"learning.local.clip": 1},
            )
        if training.optimizer != "gd":
            yield (
                "learning.local.optimizer privacy.mechanism",
                "the sensitivity 2 eta G / |D_n| holds for full-batch gradient descent, the optimizer is "
                f"{training.optimizer}",
                {"optimizer": "gd", "batch_size": None, "momentum": None},
                {"privacy": "none"},
            )

    def warnings(self, training: Training) -> Iterator[str]:
        """Yield what is allowed and spoils a guarantee, without full stops."""
        if training.steps > 1 and not self.counts_all_steps:
            yield (
                f"learning.local.steps: the sensitivity (13) of {self.mechanism} in Li et al. 2025 holds for one local "
                f"step, there are {training.steps}; {self.remedy_of_steps}"
            )
