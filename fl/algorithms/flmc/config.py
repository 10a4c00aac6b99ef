"""Federated Langevin Monte Carlo as the user writes it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from fl.algorithms.flmc.account import hides_alone, slope_within
from fl.algorithms.flmc.conflicts import all_conflicts, budget_conflicts
from fl.algorithms.flmc.levels import Levels, levels_of
from fl.algorithms.flmc.mixing import blocking
from fl.algorithms.flmc.schemes import SCHEME, FlmcScheme, Sending
from fl.algorithms.flmc.tasks.config import GaussianLinearConfig, LmcCap, TaskConfig
from fl.algorithms.learning import Label, Learning, PointFacts, algorithms
from fl.attacks.attack import AttackConfig
from fl.attacks.attacks import attack_in_words, nobody_honest
from fl.base.checkpoints import Trials
from fl.base.fields import PositiveFloat, whole
from fl.base.measured import ALONG, ENSEMBLE_W2, LINK, LINK_RATES, MIXING, RADIO, SPENT, Measured
from fl.base.results import CAP_NAMES
from fl.base.words import plural
from fl.uplink.channel_credit import sure_noise_power
from phy.config.base import Access, Modulation
from phy.config.conflict import Conflict, ConflictError, LeaveOut, Say, Write
from phy.config.levels import listed_gains
from phy.config.link import LinkConfig
from privacy.config import AmplitudeMechanism, Mechanism

if TYPE_CHECKING:
    from fl.algorithms.flmc.amplitude_caps import Caps

_SERIES = 12
_LINK_SERIES = 12
MOST_RECORDED = 32
"""Entries of a sample that may be kept per round, each a column."""
"""Numbers recorded per round, and per round and device that is detected on its own."""


@algorithms.register
class FlmcConfig(Learning):
    """Federated Langevin Monte Carlo, Zhang et al. 2022; the defaults are the paper's analog setting."""

    side_by_side: ClassVar[bool] = True
    sends_amplitudes: ClassVar[bool] = True
    takes_budget: ClassVar[bool] = True

    algorithm: Literal["flmc"] = "flmc"
    scheme: Annotated[str, SCHEME] = Field(
        default="digital",
        description="one-bit gradients that add up in the air without codes (digital), or from each device alone, with "
        "codes and OFDM (digital-orthogonal); amplitudes that add up (analog); no radio (noiseless, exact); digital: "
        "the proposal of Zhang et al. 2022",
    )
    task: TaskConfig = Field(default=GaussianLinearConfig(), description="posterior to sample")
    num_devices: int = whole(20, "number of devices; 20 as in Zhang et al. 2022", most=100_000)
    rounds: int = whole(300, "number of rounds; 300 as in Zhang et al. 2022", least=2, most=10_000_000)
    burn_in: int = whole(200, "first rounds, left out of the metrics; 200 as in Zhang et al. 2022", least=0)
    step_size: PositiveFloat | Literal["auto"] = Field(
        default="auto",
        description="step size eta, Zhang et al. 2022 (6); auto: from the data, short enough to contract and for the "
        "noise of one-bit gradients, 2 / (mu + L) and a / K at most",
    )
    gradient_bound: PositiveFloat = Field(
        default=30.0, description="l of (13), clipping per entry; 30 as in Zhang et al. 2022"
    )
    quantizer_slope: PositiveFloat = Field(
        default=0.05, description="a of the sigmoid below (8); 0.05 as in Zhang et al. 2022"
    )
    quantizer_bits: int = whole(
        1,
        "bits of a gradient entry; from 2 on stochastic rounding to 2^bits levels without a bias; 1 as in Zhang et al. "
        "2022 (8)",
        most=8,
    )
    quantizer_range: PositiveFloat | None = Field(
        default=None, description="r of levels over [-r, r], 2 bits or more; left out: gradient_bound, the smallest"
    )
    quantizer_symbols: Literal["pam", "planes"] = Field(
        default="pam",
        description="scheme digital with 2 bits or more: one amplitude per entry, or a bpsk symbol per bit; pam: the "
        "same noise at the same energy in one channel use",
    )
    plane_amplitudes: Literal["significance", "equal"] = Field(
        default="significance",
        description="amplitudes of the symbols of planes: squares in proportion to the weights of bits, or all equal; "
        "significance: the least noise at an energy",
    )
    lmc_cap: LmcCap | None = Field(
        default=None, description="left out: printed where receiver noise enters the update, else none"
    )
    debias: bool = Field(
        default=False,
        description="digital-orthogonal only: divide each device's bits by 1 - 2 BER, BER as probed; false as in "
        "Zhang et al. 2022",
    )
    record_samples: bool = Field(
        default=False,
        description="keep every sample, from which figures of ensemble_wasserstein2 over the rounds are drawn; false: "
        "they take more room than all else that is kept",
    )
    attack: AttackConfig | None = Field(default=None, description="devices that attack")

    @field_validator("task", mode="before")
    @classmethod
    def _a_bare_word_names_the_task(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _few_entries_to_keep(self) -> FlmcConfig:
        if self.record_samples and self.task.dimension > MOST_RECORDED:
            raise ConflictError(
                "record_samples task",
                f"record_samples keeps samples of at most {MOST_RECORDED} entries, and the task has "
                f"{self.task.dimension}",
                LeaveOut("record_samples"),
                Say("lower task.dimension"),
            )
        return self

    @model_validator(mode="after")
    def _samples_remain_after_burn_in(self) -> FlmcConfig:
        if self.rounds - self.burn_in < 2:
            raise ConflictError(
                "burn_in rounds",
                f"burn_in {self.burn_in} of {plural(self.rounds, 'round')} leaves fewer than 2 to evaluate",
                Write({"burn_in": max(self.rounds // 5, 0)}),
                Write({"rounds": self.burn_in + 2}, note="or more"),
            )
        return self

    @classmethod
    def measured(cls) -> Measured:
        return Measured(
            per_trial=(
                "mse",
                "wasserstein2",
                "variance_ratio",
                *MIXING,
                "amplitude",
                "active_cap",
                *SPENT,
                "rounds_sent",
            ),
            per_round=(
                *("squared_error", "amplitude", "peak_amplitude", "num_active", *RADIO, "num_attackers", ENSEMBLE_W2),
            ),
            per_device=LINK,
            rates=LINK_RATES,
            axes=ALONG,
        )

    @property
    def resolved_lmc_cap(self) -> LmcCap:
        """The LMC cap in force: as written, else `printed` where receiver noise enters the update."""
        if self.lmc_cap is not None:
            return self.lmc_cap
        return "printed" if self.superposes else "none"

    @property
    def sends(self) -> FlmcScheme:
        """The scheme."""
        return SCHEME.thing(self, self.scheme)

    @property
    def sending(self) -> Sending:
        """The scheme, which must be one with a radio."""
        scheme = self.sends
        assert isinstance(scheme, Sending)
        return scheme

    @property
    def levels(self) -> Levels | None:
        """What carries an entry of 2 bits or more; None for one bit, amplitudes and no radio."""
        if not self.sends.one_bit or self.quantizer_bits == 1:
            return None
        return levels_of(
            bits=self.quantizer_bits,
            reach=self.quantizer_range or self.gradient_bound,
            bound=self.gradient_bound,
            dimension=self.task.dimension,
            planes=self.quantizer_symbols == "planes" or not self.superposes,
            by_significance=self.plane_amplitudes == "significance" and self.superposes,
        )

    @property
    def sends_signs(self) -> bool:
        """Tell if an entry is one sign, of about a/2 of the gradient's size."""
        return self.sends.one_bit and self.levels is None

    @property
    def hiding_devices(self) -> int:
        """Devices in the sum that hides one of them; on a resource of its own, its one unknown symbol of (16)."""
        return self.num_devices if self.superposes else 2

    @property
    def longest_sampling_step(self) -> float:
        """a / (K V), from which on one-bit noise alone exceeds what Langevin sampling needs; math.inf for amplitudes.

        Signs carry a / 2 of the gradient, so that a step eta needs noise of variance 2 eta (a / 2) = eta a, while they
        bring eta^2 K V, with V = 1 - tanh^2(a g / 2) nearly 1 where gradients are small, as around the mode.
        """
        return self.quantizer_slope / self.num_devices if self.sends_signs else math.inf

    @property
    def one_bit_excess(self) -> float | None:
        """Variance of one-bit noise over what sampling needs, where it is more at the written step; None otherwise."""
        ratio = 0.0 if self.step_size == "auto" else self.step_size / self.longest_sampling_step
        return ratio if ratio > 1.0 + 1e-9 else None

    @property
    def access(self) -> Access | None:
        return self.sends.access

    def modulation_over(self, access: Access) -> Modulation:
        return "analog" if self.levels is not None and self.superposes else self.sends.modulation

    def resolved(self) -> Self:
        return self if self.lmc_cap is not None else self.model_copy(update={"lmc_cap": self.resolved_lmc_cap})

    def conflicts(self, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
        return all_conflicts(self, link=link, privacy=privacy)

    def privacy_conflict(self, privacy: Mechanism | None) -> Conflict | None:
        if privacy is None or isinstance(privacy, AmplitudeMechanism):
            return None
        what = "protects the uploads of fedavg; flmc bounds the amplitude of every round instead"
        return Conflict(
            "privacy.mechanism privacy learning.algorithm",
            f"mechanism {privacy.mechanism} {what}",
            Write({"privacy": {"epsilon": 5, "delta": 0.01}}),
            Write({"algorithm": "fedavg"}),
        )

    def budget_conflicts(self, *, link: LinkConfig, privacy: Any) -> Iterator[Conflict]:
        """See `Learning`: a budget relies on the noise of the receiver, or on the draws of one-bit gradients."""
        return budget_conflicts(self, link=link, privacy=privacy)

    def settled(self, *, link: LinkConfig, privacy: Mechanism | None) -> Self:
        """See `Learning`: behind a code the slope of the one-bit quantizer is what a budget leaves."""
        budget = None if privacy is None else privacy.budget
        if budget is None or not budget.calibrate or not hides_alone(self, link=link):
            return self
        return self.model_copy(update={"quantizer_slope": slope_within(self, budget=budget)})

    def build(self, *, link: LinkConfig, privacy: Any, seed: int, trials: tuple[int, ...]) -> Trials:
        from fl.algorithms.flmc.trials import FlmcTrials

        return FlmcTrials(self, link=link, privacy=privacy, seed=seed, trials=trials)

    def caps(self, *, link: LinkConfig, privacy: Mechanism | None, seed: int | None = None) -> Caps | None:
        from fl.algorithms.flmc.amplitude_caps import caps_of

        return caps_of(self, link=link, privacy=privacy, seed=seed)

    def rounds_within(self, *, link: LinkConfig, privacy: Any) -> int | None:
        """See `Learning`; `link` names access and modulation."""
        caps, gains = self.caps(link=link, privacy=privacy), listed_gains(link, self.num_devices).tolist()
        if caps is None or caps.power is None or caps.lmc is None or len(set(gains)) > 1:
            return None
        strongest = min(caps.power, caps.lmc, caps.privacy) / sure_noise_power(link, privacy=privacy) ** 0.5
        release = self.sending.release(self, relative_amplitude=strongest)
        return int(privacy.budget.rounds_within(release, most=self.rounds))

    def describe(self, label: Label, *, link: LinkConfig) -> list[str]:
        return [
            f"{self.task.name}, {plural(self.task.num_samples, 'sample')}, {plural(self.num_values(), 'parameter')}, "
            f"{plural(self.num_devices, 'device')}, {plural(self.rounds, 'round')}",
            *attack_in_words(self.attack, self.num_devices, label),
        ]

    def why_not_audited(self, privacy: Mechanism | None, *, link: LinkConfig) -> str | None:
        if not self.uses_radio:
            return f"scheme {self.scheme} sends nothing over a radio"
        return nobody_honest(self.attack, num_devices=self.num_devices)

    def depends_on(self, path: str) -> bool:
        key, unread = path.removeprefix("learning."), set[str]()
        if not self.sends_signs:
            unread |= {"quantizer_slope"}
        if self.levels is None:
            unread |= {"quantizer_range", "quantizer_symbols"}
        if self.levels is None or not self.levels.planes or not self.superposes:
            unread |= {"plane_amplitudes"}
        if not self.sends.one_bit:
            unread |= {"quantizer_bits"}
        return super().depends_on(path) and (not path.startswith("learning.") or key not in unread)

    def findings(self, facts: PointFacts) -> Iterator[str]:
        if (excess := self.one_bit_excess) is not None:
            yield f"{one_bit_noise(excess)}, and no SNR lowers it; {self._shorter_step()}"
        if math.isfinite(facts.metrics.get("mse", 0.0)) and not facts.growth > 2.0:
            return
        far = f"samples are {facts.growth:.3g} times as far from the truth as at the start"
        if self.attack is not None:
            yield f"{far}: devices attack with kind {self.attack.kind}; lower their number, or remove learning.attack"
            return
        cap = CAP_NAMES[round(facts.metrics.get("active_cap", 0.0))]
        shorter = (
            f"write learning.step_size: {0.1 * self.step_size:.2g}"
            if self.step_size != "auto"
            else "write learning.step_size: 1e-4"
        )
        remedy = {
            "power": f"raise link.power.{facts.link.power.written[0]}, or ",
            "privacy": "raise privacy.epsilon, or ",
            "budget": "raise privacy.budget.epsilon, or ",
            "lmc": "write learning.lmc_cap: quantization-aware, or ",
        }.get(cap, "")
        held = "" if cap == "none" else f" and the amplitude is held down by the cap of {cap}"
        yield f"{far}{held}: {remedy}{shorter}"

    def warnings(self) -> Iterator[str]:
        if (excess := self.one_bit_excess) is not None:
            yield f"learning.step_size: {one_bit_noise(excess)} at {self.step_size:g}; {self._shorter_step()}"

    def _shorter_step(self) -> str:
        return f"write learning.step_size: {self.longest_sampling_step:.3g} or less, or auto"

    def num_values(self) -> int:
        """Return the number of parameters m."""
        return self.task.dimension

    def payload_bits(self) -> int:
        return self.task.dimension * (1 if self.levels is None else self.levels.uses)

    def bytes_per_trial(self, link: LinkConfig) -> int:
        m, devices = self.task.dimension, self.num_devices
        records = 8 * self.rounds * (_SERIES + (_LINK_SERIES * devices if self.detects else 0))
        symbols = self.payload_bits() if self.uses_radio else m
        radio = devices * symbols * (64 * self.uses_radio + 48 * (self.attack is not None))
        probed = link.error_model in ("iid", "iid-mean") or (link.error_model != "error_free" and self.debias)
        probe = devices * link.probe_bits // 2 if self.detects and probed else 0
        samples = 0 if self.uses_radio else 8 * self.rounds * m  # drawn at once by scheme exact
        kept = 2 * 8 * self.rounds * m * self.record_samples
        blocks, _ = blocking(self.rounds - self.burn_in, dimension=m)
        return self.task.bytes_per_trial(devices) + 2 * records + radio + probe + samples + kept + 6 * 8 * blocks * m

    def numbers_stored_per_round(self) -> int:
        samples = self.task.dimension if self.record_samples else 0
        return 4 + samples + (5 * self.num_devices if self.detects else 0)


def one_bit_noise(excess: float) -> str:
    """Say by how much one-bit noise exceeds the noise that Langevin sampling needs."""
    return f"one-bit noise alone has {excess:.2g} times the variance that Langevin sampling needs"
