"""What every learning algorithm is, and the registry of all algorithms."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from fl.base.fields import Frozen
from fl.base.measured import Measured
from phy.config.base import Access, Modulation
from phy.config.conflict import Conflict, Say, Write
from phy.config.link import LinkConfig
from phy.config.mcs import entries_of, is_by_device
from phy.config.registry import Registry
from phy.engines.choice import loads_tensorflow
from privacy.config import Mechanism

if TYPE_CHECKING:
    from fl.algorithms.flmc.amplitude_caps import Caps
    from fl.base.checkpoints import Trials
    from fl.schemes.scheme import Scheme

UNNAMED = "flmc"
"""The algorithm of a `learning:` section that names none."""

_COMPILED_LINK_BYTES = 220 << 20
"""Memory of the code that XLA compiles for a link."""


Label = Callable[[str, Any], str]
"""Dotted path of a key and its value -> the value in words."""


@dataclass(frozen=True, kw_only=True)
class PointFacts:
    """Results of one sweep point: means over whole trials.

    - `metrics`, `rates`: by the names of the results;
    - `growth`: last over first squared error of what is sampled; 1 where there is none.
    """

    link: LinkConfig
    mechanism: Mechanism | None
    metrics: Mapping[str, float]
    rates: Mapping[str, float]
    growth: float = 1.0


class Learning(Frozen):
    """A learning algorithm, `learning` of a scenario. An algorithm is a class in the registry `algorithms`.

    `side_by_side`: trials share their work, and are computed in batches; others are computed one by one. `sums`: the
    server can work with the sum of all devices, under access superposition. `sends_by_mcs`: devices may have a
    modulation and coding scheme each.
    `sends_amplitudes`: devices send at a receive amplitude that caps limit. `takes_budget`: a privacy budget may limit
    the run. `compiled_bytes`: memory of the compiled code of a round, without the link.
    """

    compiled_bytes: ClassVar[int] = 0
    side_by_side: ClassVar[bool] = False
    sends_amplitudes: ClassVar[bool] = False
    takes_budget: ClassVar[bool] = False
    sums: ClassVar[bool] = False
    sends_by_mcs: ClassVar[bool] = False

    algorithm: str

    if TYPE_CHECKING:  # every class declares these, in its own order
        num_devices: int
        rounds: int

    @classmethod
    def measured(cls) -> Measured:
        """Return the names of the numbers that trials record, for figures and tables of a report."""
        return Measured()

    @property
    def num_drawn(self) -> int | None:
        """Devices that are drawn in each round; None where all take part."""
        return None

    @property
    def access(self) -> Access | None:
        """Access that `auto` stands for; None for an algorithm without a radio."""
        return "orthogonal"

    def modulation_over(self, access: Access) -> Modulation:
        """Return the modulation that `auto` stands for over a link of this `access`."""
        return "qpsk"

    @property
    def uses_radio(self) -> bool:
        """True if anything is transmitted."""
        return self.access is not None

    @property
    def superposes(self) -> bool:
        """True if devices add up in the air, so that receiver noise enters the update."""
        return self.access == "superposition"

    @property
    def detects(self) -> bool:
        """True if the server detects the bits of every device on its own."""
        return self.uses_radio and not self.superposes

    @property
    def played(self) -> Learning:
        """The rounds that are computed: those of the algorithm itself, or those that it attacks."""
        return self

    @property
    def upload_scheme(self) -> Scheme | None:
        """The aggregation scheme of uploads; None for an algorithm without one."""
        return None

    def resolved(self) -> Self:
        """Return the algorithm with every `auto` and every derived default written out."""
        return self

    def depends_on(self, path: str) -> bool:
        """Return whether results depend on a setting of the scenario that the sweep leaves alone."""
        return self.uses_radio

    @abstractmethod
    def num_values(self) -> int | None:
        """Return how many numbers a device sends per round; None for a model of the user.

        Raises LearningError for a model that does not fit its images.
        """

    @abstractmethod
    def payload_bits(self) -> int | None:
        """Return how many bits a device sends per round, before channel coding; None where `num_values` is."""

    @abstractmethod
    def bytes_per_trial(self, link: LinkConfig) -> int:
        """Return the memory that one more trial in a batch takes: data, radio and records together [B]."""

    def loads_tensorflow(self, link: LinkConfig) -> bool:
        """Return True if a link, or training, is not computed in fused kernels."""
        return self.uses_radio and any(map(loads_tensorflow, (link, *self.links().values())))

    def bytes_compiled(self, link: LinkConfig) -> int:
        """Return the memory of compiled code [B]."""
        return self.compiled_bytes + (_COMPILED_LINK_BYTES if self.detects and loads_tensorflow(link) else 0)

    def numbers_stored_per_round(self) -> int:
        """Return how many numbers a stored trial has per round."""
        return 10 + 8 * self.num_devices if self.uses_radio else 0

    def conflicts(self, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
        """Yield every combination of keys of the algorithm that cannot be simulated, the link and privacy included.

        Here: links on which the server cannot detect the bits of every device.
        """
        for path, one in {"link": link, **self.links()}.items() if self.uses_radio else ():
            if one.access == "superposition" and path == "link" and self.sums:
                continue
            if one.access == "superposition":
                problem = "detects the bits of every device on its own, but access superposition adds them up"
                yield Conflict(
                    f"{path}.access learning.algorithm",
                    f"{self.algorithm} {problem}",
                    Write({"access": "orthogonal"}),
                    Write({"access": "noma"}),
                    Write({"access": "auto"}),
                )
            if not self.sends_by_mcs:
                yield from several_mcs(one, path=path, algorithm=self.algorithm)
            if one.modulation == "analog":
                problem = f"{self.algorithm} sends bits, which modulation analog cannot carry"
                yield Conflict(
                    f"{path}.modulation learning.algorithm",
                    problem,
                    Write({"modulation": "auto"}),
                    Say("one from bpsk to 256qam"),
                )

    def links(self) -> Mapping[str, LinkConfig]:
        """Return the links of the algorithm beside the uplink, by their dotted path."""
        return {}

    def superposed(self, link: LinkConfig) -> tuple[int, float | None] | None:
        """Return the symbols of an upload that adds up in the air, and their airtime [s], None without a radio.

        None: the server detects every device on its own, or the size of an upload is not known.
        """
        return None

    def downlink_bits(self) -> int | None:
        """Return how many bits the server sends per round over a downlink; None if not known."""
        return None

    def privacy_conflict(self, privacy: Mechanism | None) -> Conflict | None:
        """Return the conflict with a privacy mechanism that the algorithm does not have; None for one that it has."""
        if privacy is None:
            return None
        problem = f"{self.algorithm} studies a codec on random numbers, which need no privacy"
        return Conflict("privacy learning.algorithm", problem, Write({"privacy": "none"}))

    def budget_conflicts(self, *, link: LinkConfig, privacy: Any) -> Iterator[Conflict]:
        """Yield why the budget of `privacy` for the run cannot be kept; `link` names access and modulation.

        Raises PrivacyError for a budget that holds nothing.
        """
        yield from ()

    def settled(self, *, link: LinkConfig, privacy: Mechanism | None) -> Self:
        """Return the algorithm with the parameters that a budget for the run leaves to its scheme.

        `link` names its modulation. Raises PrivacyError for a budget that holds nothing.
        """
        return self

    @abstractmethod
    def build(self, *, link: LinkConfig, privacy: Mechanism | None, seed: int, trials: tuple[int, ...]) -> Trials:
        """Return the trials, ready for their first round: one, or any number where they run `side_by_side`.

        Raises LearningError for data or a model that cannot be had.
        """

    def why_not_audited(self, privacy: Mechanism | None, *, link: LinkConfig) -> str | None:
        """Return why no game can be played against an honest device; None where one can."""
        return f"algorithm {self.algorithm} studies bits, and no device's data are uploaded"

    def caps(self, *, link: LinkConfig, privacy: Mechanism | None, seed: int | None = None) -> Caps | None:
        """Return the caps on the receive amplitude that are known before a run; None if no amplitude is sent.

        With a `seed`, caps that depend on the data are those of the first trial.
        """
        return None

    def rounds_within(self, *, link: LinkConfig, privacy: Mechanism) -> int | None:
        """Return how many rounds fit a budget that only watches; None if only the trials can tell.

        Raises PrivacyError if no account can be made.
        """
        return None

    @abstractmethod
    def describe(self, label: Label, *, link: LinkConfig) -> list[str]:
        """Return lines for `phyloop check` on the task and the size of a round; `label` names a setting in words."""

    def warnings(self) -> Iterator[str]:
        """Yield a sentence, without its full stop, for settings that are allowed and spoil a result."""
        yield from ()

    def findings(self, facts: PointFacts) -> Iterator[str]:
        """Yield a sentence, without its full stop, for all that went wrong: what, why, and the key to change."""
        yield from ()


def several_mcs(link: LinkConfig, *, path: str, algorithm: str) -> Iterator[Conflict]:
    """Yield the conflict of an algorithm with devices that have an MCS each, if the link at `path` has them."""
    if is_by_device(link.mcs):
        problem = f"{algorithm} sends with one MCS, and mcs is for each device"
        one = Write({f"{path}.mcs": entries_of(link.mcs)[0].number}, example=True)
        yield Conflict(f"{path}.mcs learning.algorithm", problem, one, Write({"learning.algorithm": "fedavg"}))


algorithms: Registry[Learning] = Registry(
    "algorithm", Learning, package="fl.algorithms", tag="algorithm", default=UNNAMED
)
"""All learning algorithms, by the word in `learning.algorithm`."""

LearningConfig = Annotated[Learning, algorithms]
