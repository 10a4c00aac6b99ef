"""Noise of a law of one's own on clipped updates: what a plug-in defines to add a privacy mechanism."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field

from privacy.config.base import BOUNDED, Training, UploadMechanism
from privacy.errors import PlainRemedy
from privacy.events.stated import STATING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from privacy.events.events import Event
    from privacy.events.releases import Release

    Floats32 = NDArray[np.float32]


class StatedNoise(UploadMechanism):
    """Base of mechanisms in a file of one's own: noise on clipped updates, with the privacy loss that the class states.

    What a device sends is scaled to the norm `clip` first, so that two neighbours, which replace all data of a device,
    are at most 2 `clip` apart. `norm`: by which the class bounds it, l2, l1 or the largest number. Without an `event`
    nothing is proved: ε = ∞, and no budget holds.
    """

    protects = "numbers"
    words = "strength"
    norm: ClassVar[Literal["l2", "l1", "linf"]] = "l2"

    clip: Annotated[float, Field(gt=1e-15, le=1e9, allow_inf_nan=False)] = Field(
        default=1.0, description="largest norm of an update that is sent as numbers; longer ones are scaled to it"
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Let ledgers find the events of the class."""
        super().__pydantic_init_subclass__(**kwargs)
        STATING.update(dict.fromkeys(get_args(cls.model_fields["mechanism"].annotation), cls))

    @abstractmethod
    def perturb(self, updates: Floats32, *, strength: float, generator: np.random.Generator) -> Floats32:
        """Return float32 `[devices, M]`: clipped `updates` with noise, every random number by `generator`.

        `strength` 1: the parameters as written; a budget for the run sets another one, and more of it is less noise.
        """

    def event(self, *, strength: float, num_values: int) -> Event | None:
        """Return the loss of one upload of `num_values` numbers at `strength`, for the worst pair of neighbours.

        `privacy.events.noise_events` has Gaussian and Laplace noise and pure ε; a frozen dataclass with the methods of
        `privacy.events.events.Event` states any other law. More strength must be more loss. None: nothing is known.
        """
        return None

    @property
    def asked(self) -> str:
        """See `Mechanism.asked`."""
        return super().asked if self.calibrated else "that of its noise"

    def cells(self, training: Training, *, num_samples: int) -> tuple[str, str, str, str, str]:
        """See `UploadMechanism.cells`."""
        if self.calibrated:
            return super().cells(training, num_samples=num_samples)
        return self.mechanism, "that of its noise", "", "", ""

    def release(self, num_values: int, training: Training, *, target: float | None = None) -> Release:
        """Return the whole upload as one release of a device, with the event that the class states."""
        from privacy.events.releases import Release

        if not self.states_events:
            problem, remedy = self._nothing_stated
            assumptions = (f"mechanism {self.mechanism} states no event, so that nothing is known of its noise",)
            return Release(
                kind="unprotected", unit="device", assumptions=assumptions, problem=problem, remedies=(remedy,)
            )
        law = f"the noise of mechanism {self.mechanism} has the loss that its plug-in states"
        return Release(
            kind="stated",
            unit="device",
            facts={"mechanism": self.mechanism, "parameters": self._parameters, "num_values": num_values},
            parameter=None if self.calibrated else 1.0,
            assumptions=(BOUNDED, law),
        )

    @property
    def states_events(self) -> bool:
        """True if the class states the loss of its releases."""
        return type(self).event is not StatedNoise.event

    @property
    def _parameters(self) -> str:
        return self.model_dump_json(exclude={"budget"})

    @property
    def _nothing_stated(self) -> tuple[str, str]:
        problem = f"mechanism {self.mechanism} states no event, and no budget holds that"
        return problem, "define event, or leave budget out"

    def conflicts(self, training: Training, *, lost: str | None) -> Iterator[tuple[str, str, *tuple[PlainRemedy, ...]]]:
        """See `UploadMechanism.conflicts`: any local training has the sensitivity of a clipped update."""
        if self.budget is not None and not self.states_events:
            problem, remedy = self._nothing_stated
            yield "privacy.budget privacy.mechanism", problem, remedy

    def warnings(self, training: Training) -> Iterator[str]:
        """See `UploadMechanism.warnings`."""
        if not self.states_events:
            yield f"privacy.mechanism: {self.mechanism} states no event, so that the run has ε = ∞"
