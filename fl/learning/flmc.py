"""Federated Langevin Monte Carlo as the user writes it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from fl.accounting.flmc import amplitude_caps, uncreditable
from fl.attacks.attacks import attack_conflicts, attack_in_words
from fl.attacks.flmc_attackers import check_attack
from fl.audit.game import nobody_honest
from fl.checkpoints import Trials
from fl.config.attack import AttackConfig
from fl.config.base import PositiveFloat, whole
from fl.config.learning import Label, Learning, PointFacts, algorithms
from fl.config.measured import ALONG, LINK, LINK_RATES, RADIO, SPENT, Measured
from fl.config.task import GaussianLinearConfig, LmcCap, TaskConfig
from fl.learning.flmc_schemes import SCHEME, FlmcScheme, Sending
from fl.results import CAP_NAMES
from fl.uplink.channel_credit import sure_noise_power
from phy.config.base import Access, Modulation
from phy.config.conflict import Conflict
from phy.config.link import LinkConfig
from privacy.config import AmplitudeMechanism, Mechanism

if TYPE_CHECKING:
    from fl.algorithms.amplitude_caps import Caps

_SERIES = 12
_LINK_SERIES = 12
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
        default="auto", description="step size eta, Zhang et al. 2022 (6)"
    )
    gradient_bound: PositiveFloat = Field(
        default=30.0, description="l of (13), clipping per entry; 30 as in Zhang et al. 2022"
    )
    quantizer_slope: PositiveFloat = Field(
        default=0.05, description="a of the sigmoid below (8); 0.05 as in Zhang et al. 2022"
    )
    lmc_cap: LmcCap | None = Field(
        default=None, description="left out: printed where receiver noise enters the update, else none"
    )
    debias: bool = Field(
        default=False,
        description="digital-orthogonal only: divide each device's bits by 1 - 2 BER, BER as probed; false as in "
        "Zhang et al. 2022",
    )
    attack: AttackConfig | None = Field(default=None, description="devices that attack")

    @field_validator("task", mode="before")
    @classmethod
    def _a_bare_word_names_the_task(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _samples_remain_after_burn_in(self) -> FlmcConfig:
        if self.rounds - self.burn_in < 2:
            raise ValueError(
                f"burn_in {self.burn_in} of {self.rounds} rounds leaves fewer than 2 to evaluate; "
                f"write burn_in: {max(self.rounds // 5, 0)}, or rounds: {self.burn_in + 2} or more"
            )
        return self

    @classmethod
    def measured(cls) -> Measured:
        return Measured(
            per_trial=("mse", "wasserstein2", "variance_ratio", "amplitude", "active_cap", *SPENT, "rounds_sent"),
            per_round=("squared_error", "amplitude", "peak_amplitude", "num_active", *RADIO, "num_attackers"),
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
    def hiding_devices(self) -> int:
        """Devices in the sum that hides one of them; on a resource of its own, its one unknown symbol of (16)."""
        return self.num_devices if self.superposes else 2

    @property
    def access(self) -> Access | None:
        return self.sends.access

    def modulation_over(self, access: Access) -> Modulation:
        return self.sends.modulation

    def resolved(self) -> Self:
        return self if self.lmc_cap is not None else self.model_copy(update={"lmc_cap": self.resolved_lmc_cap})

    def conflicts(self, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
        task, num_devices, policy = self.task, self.num_devices, link.packets.policy
        if num_devices > task.num_samples:
            raised = ", or raise learning.task.num_samples" if task.name == "gaussian-linear" else ""
            keys = "learning.num_devices learning.task.num_samples learning.task"
            problem = f"{num_devices} devices cannot share {task.num_samples} samples of {task.name}"
            yield Conflict(keys, problem, f"write num_devices: {task.num_samples}{raised}")
        if self.debias and not self.sends.debiases:
            problem = f"debias needs scheme digital-orthogonal, the scheme is {self.scheme}"
            remedy = "leave debias out, or write scheme: digital-orthogonal"
            yield Conflict("learning.debias learning.scheme", problem, remedy)
        if self.debias and policy != "accept":
            problem = f"debias corrects for errors of all packets, but packets.policy {policy} leaves out wrong ones"
            remedy = "leave debias out, or write packets.policy: accept"
            yield Conflict("learning.debias link.packets.policy", problem, remedy)
        if self.attack is not None:
            yield from attack_conflicts(self.attack, partial(check_attack, self, error_model=link.error_model))
        if self.access is not None:
            yield from self._radio_conflicts(link)
            if privacy is not None:
                yield from self._bound_conflicts(link.resolve(access=self.access, modulation=self.sends.modulation))

    def _radio_conflicts(self, link: LinkConfig) -> Iterator[Conflict]:
        """Yield an access or a modulation that cannot carry the bits or amplitudes of the scheme, and biased sums."""
        scheme, access, modulation = self.scheme, link.access, link.modulation
        for key, asked in (
            ("power.policy", link.power.policy == "mse-optimal"),
            ("receiver.scaling", link.receiver.scaling == "mmse"),
            ("power.budget", link.power.budget is not None),
        ):
            if asked:
                problem = (
                    f"{key} is for the mean of federated averaging; Langevin sampling needs every gradient in full, in "
                    "noise of the same power"
                )
                remedy = f"leave link.{key} out, or write algorithm: fedavg"
                yield Conflict(f"link.{key} learning.algorithm", problem, remedy)
        needed = self.access or "auto"
        if access not in ("auto", needed, "noma" if needed == "orthogonal" else needed):
            problem = f"scheme {scheme} needs access {needed}, the access is {access}"
            remedy = f"write access: {needed}, or access: auto{self.sends.instead}"
            yield Conflict("link.access learning.scheme", problem, remedy)
        if modulation != "auto" and not self.sends.carried_by(modulation):
            what = "one-bit gradients" if self.sends.one_bit else "amplitudes"
            problem = f"scheme {scheme} sends {what}{' that add up' * self.superposes}, which {modulation} cannot carry"
            yield Conflict("link.modulation learning.scheme", problem, "write modulation: auto")
        if self.superposes and link.receiver.combining != "mrc":
            problem = (
                "flmc takes the receiver's noise as that of Langevin sampling, and combining "
                f"{link.receiver.combining} changes its power from round to round"
            )
            remedy = "write combining: mrc, or algorithm: fedavg"
            yield Conflict("link.receiver.combining learning.algorithm", problem, remedy)

    def _bound_conflicts(self, link: LinkConfig) -> Iterator[Conflict]:
        """Yield what the bounds of Zhang et al. 2022 do not hold for: more than one uncoded symbol at one antenna."""
        if not self.superposes and not link.plain:
            problem = (
                "the privacy bound (16) holds for one uncoded symbol per bit at one antenna; codes, antennas, "
                "repetitions and unequal carriers give the server more information than it assumes"
            )
            remedy = "write privacy: none, or an uncoded link"
            keys = "privacy link.coding link.receiver.num_antennas link.packets link.ofdm link.channel"
            yield Conflict(keys, problem, remedy)
        if self.superposes and link.receiver.num_antennas > 1:
            count = link.receiver.num_antennas
            problem = f"the privacy bound holds for one antenna, and {count} show the server each symbol as many times"
            remedy = "write privacy: none, or num_antennas: 1"
            yield Conflict("privacy link.receiver.num_antennas", problem, remedy)
        if self.superposes and link.mixes_carriers:
            problem = (
                "clipping, frequency offsets and waveforms in the time domain spill symbols over other carriers, which "
                "the bound ignores"
            )
            remedy = "write privacy: none"
            keys = "privacy link.impairments.cfo_hz link.impairments.clipping_db link.ofdm.domain"
            yield Conflict(keys, problem, remedy)

    def privacy_conflict(self, privacy: Mechanism | None) -> Conflict | None:
        if privacy is None or isinstance(privacy, AmplitudeMechanism):
            return None
        what = "protects the uploads of fedavg; flmc bounds the amplitude of every round instead"
        remedy = "write privacy: {epsilon: 5, delta: 0.01}, or algorithm: fedavg"
        return Conflict("privacy.mechanism privacy learning.algorithm", f"mechanism {privacy.mechanism} {what}", remedy)

    def budget_conflicts(self, *, link: LinkConfig, privacy: Any) -> Iterator[Conflict]:
        """See `Learning`: a budget relies on the noise of the receiver."""
        if not self.uses_radio:
            problem = f"scheme {self.scheme} sends nothing, so that a budget has nothing to limit"
            yield Conflict("privacy.budget learning.scheme", problem, "write privacy: none, or scheme: digital")
            return
        reason = uncreditable(self, link=link)
        if reason is not None and link.error_model != "error_free":
            problem = f"a budget relies on the receiver's noise, but {reason}"
            remedy = "write privacy: none, or an uncoded bpsk or qpsk link of error_model: measured"
            yield Conflict("privacy.budget link.error_model link.modulation link.coding", problem, remedy)
        elif link.csi != "perfect" or link.error_model == "error_free":
            unknown = "unknown with an estimated channel and without a channel"
            problem = f"a budget limits the received amplitude, which is {unknown}"
            remedy = "write link.csi: perfect and link.error_model: measured"
            yield Conflict("privacy.budget link.csi link.error_model", problem, remedy)
        elif privacy.calibrated:
            amplitude_caps(self, budget=privacy.budget, noise_power=sure_noise_power(link, privacy=privacy))

    def build(self, *, link: LinkConfig, privacy: Any, seed: int, trials: tuple[int, ...]) -> Trials:
        from fl.algorithms.flmc_trials import FlmcTrials

        return FlmcTrials(self, link=link, privacy=privacy, seed=seed, trials=trials)

    def caps(self, *, link: LinkConfig, privacy: Mechanism | None, seed: int | None = None) -> Caps | None:
        from fl.algorithms.amplitude_caps import caps_of

        return caps_of(self, link=link, privacy=privacy, seed=seed)

    def rounds_within(self, *, link: LinkConfig, privacy: Any) -> int | None:
        """See `Learning`; `link` names access and modulation."""
        caps, gains = self.caps(link=link, privacy=privacy), link.channel.gains(self.num_devices)
        if caps is None or caps.power is None or caps.lmc is None or len(set(gains)) > 1:
            return None
        strongest = min(caps.power, caps.lmc, caps.privacy) / sure_noise_power(link, privacy=privacy) ** 0.5
        release = self.sending.release(self, relative_amplitude=strongest)
        return int(privacy.budget.rounds_within(release, most=self.rounds))

    def describe(self, label: Label, *, link: LinkConfig) -> list[str]:
        return [
            f"{self.task.name}, {self.task.num_samples} samples, {self.num_values()} parameters, "
            f"{self.num_devices} devices, {self.rounds} rounds",
            *attack_in_words(self.attack, self.num_devices, label),
        ]

    def why_not_audited(self, privacy: Mechanism | None, *, link: LinkConfig) -> str | None:
        if not self.uses_radio:
            return f"scheme {self.scheme} sends nothing over a radio"
        return nobody_honest(self.attack, num_devices=self.num_devices)

    def depends_on(self, path: str) -> bool:
        return super().depends_on(path) and (self.sends.one_bit or path != "learning.quantizer_slope")

    def findings(self, facts: PointFacts) -> Iterator[str]:
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
            "power": "raise link.power.snr_max_db, or ",
            "privacy": "raise privacy.epsilon, or ",
            "budget": "raise privacy.budget.epsilon, or ",
            "lmc": "write learning.lmc_cap: quantization-aware, or ",
        }.get(cap, "")
        held = "" if cap == "none" else f" and the amplitude is held down by the cap of {cap}"
        yield f"{far}{held}: {remedy}{shorter}"

    def num_values(self) -> int:
        """Return the number of parameters m."""
        return self.task.dimension

    def payload_bits(self) -> int:
        return self.task.dimension

    def bytes_per_trial(self, link: LinkConfig) -> int:
        m, devices = self.task.dimension, self.num_devices
        records = 8 * self.rounds * (_SERIES + (_LINK_SERIES * devices if self.detects else 0))
        radio = devices * m * (64 * self.uses_radio + 48 * (self.attack is not None))
        probed = link.error_model in ("iid", "iid-mean") or (link.error_model != "error_free" and self.debias)
        probe = devices * link.probe_bits // 2 if self.detects and probed else 0
        samples = 0 if self.uses_radio else 8 * self.rounds * m  # drawn at once by scheme exact
        return self.task.bytes_per_trial(devices) + 2 * records + radio + probe + samples

    def numbers_stored_per_round(self) -> int:
        return 4 + (5 * self.num_devices if self.detects else 0)
