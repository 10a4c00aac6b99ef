"""Settings of federated Langevin Monte Carlo that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from fl.algorithms.flmc.account import amplitude_caps, hides_alone, slope_within, uncreditable
from fl.algorithms.flmc.attackers import check_attack
from fl.algorithms.flmc.tasks.config import LogisticConfig
from fl.algorithms.learning import several_mcs
from fl.attacks.attacks import attack_conflicts
from fl.base.words import plural
from fl.uplink.channel_credit import sure_noise_power
from phy.config.conflict import Conflict, LeaveOut, Say, Write, rounded
from phy.config.link import LinkConfig
from privacy.config import Mechanism, PrivacyConfig

if TYPE_CHECKING:
    from fl.algorithms.flmc.config import FlmcConfig


def all_conflicts(config: FlmcConfig, *, link: LinkConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
    """Yield every combination of keys that cannot be simulated; see `Learning.conflicts`."""
    task, num_devices, policy = config.task, config.num_devices, link.packets.policy
    if num_devices > task.num_samples:
        raised = [Say("raise learning.task.num_samples")] if task.name == "gaussian-linear" else []
        keys = "learning.num_devices learning.task.num_samples learning.task"
        problem = f"{plural(num_devices, 'device')} cannot share {plural(task.num_samples, 'sample')} of {task.name}"
        yield Conflict(keys, problem, Write({"num_devices": task.num_samples}), *raised)
    if isinstance(task, LogisticConfig) and not task.preconditioned and config.burn_in < task.rounds_to_mix():
        needed = task.rounds_to_mix()
        problem = (
            f"the chain forgets its start in {needed:,} rounds at the largest stable step, not in {config.burn_in:,}"
        )
        yield Conflict(
            "learning.task.preconditioned learning.burn_in learning.rounds",
            problem,
            Write({"preconditioned": True}),
            Write({"burn_in": needed}, note="and more rounds"),
        )
    yield from several_mcs(link, path="link", algorithm="flmc")
    yield from _quantizer_conflicts(config, privacy)
    if config.debias and not config.sends.debiases:
        problem = f"debias needs scheme digital-orthogonal, the scheme is {config.scheme}"
        yield Conflict(
            "learning.debias learning.scheme", problem, LeaveOut("debias"), Write({"scheme": "digital-orthogonal"})
        )
    if config.debias and policy != "accept":
        problem = f"debias corrects for errors of all packets, but packets.policy {policy} leaves out wrong ones"
        yield Conflict(
            "learning.debias link.packets.policy", problem, LeaveOut("debias"), Write({"packets.policy": "accept"})
        )
    if config.attack is not None:
        yield from attack_conflicts(config.attack, partial(check_attack, config, error_model=link.error_model))
    if config.access is not None:
        yield from _radio_conflicts(config, link)
        if privacy is not None:
            resolved = link.resolve(access=config.access, modulation=config.sends.modulation)
            if not (privacy.calibrated and hides_alone(config, link=resolved)):
                yield from _bound_conflicts(config, resolved)


def _quantizer_conflicts(config: FlmcConfig, privacy: Mechanism | None) -> Iterator[Conflict]:
    """Yield a range of levels that does not hold all gradients, or that nothing is rounded to."""
    if config.levels is not None and isinstance(privacy, PrivacyConfig) and privacy.digital_cap != "exact":
        problem = f"digital_cap {privacy.digital_cap} is an equation for one bit, and quantizer_bits is "
        problem += f"{config.quantizer_bits}"
        yield Conflict(
            "privacy.digital_cap learning.quantizer_bits",
            problem,
            Write({"digital_cap": "exact"}),
            Write({"quantizer_bits": 1}),
        )
    reach, bound = config.quantizer_range, config.gradient_bound
    if reach is None:
        return
    if config.levels is None:
        problem = f"quantizer_range is for 2 bits or more of a digital scheme, and {config.scheme} has none such"
        if config.sends.one_bit:
            problem = "quantizer_range is for 2 bits or more; one bit has the sigmoid of quantizer_slope"
        yield Conflict(
            "learning.quantizer_range learning.quantizer_bits learning.scheme",
            problem,
            LeaveOut("quantizer_range"),
            Write({"scheme": "digital", "quantizer_bits": 2}),
        )
    elif not bound <= reach <= config.levels.widest:
        problem = f"quantizer_range {reach:g} must be gradient_bound {bound:g} to {config.levels.widest:g}"
        yield Conflict(
            "learning.quantizer_range learning.gradient_bound",
            problem,
            Write({"quantizer_range": rounded(bound, 6)}),
            LeaveOut(),
        )


def _radio_conflicts(config: FlmcConfig, link: LinkConfig) -> Iterator[Conflict]:
    """Yield an access or a modulation that cannot carry the bits or amplitudes of the scheme, and biased sums."""
    scheme, access, modulation = config.scheme, link.access, link.modulation
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
            yield Conflict(
                f"link.{key} learning.algorithm", problem, LeaveOut(f"link.{key}"), Write({"algorithm": "fedavg"})
            )
    needed = config.access or "auto"
    if access not in ("auto", needed, "noma" if needed == "orthogonal" else needed):
        problem = f"scheme {scheme} needs access {needed}, the access is {access}"
        others = [Write({"scheme": config.sends.instead})] if config.sends.instead else []
        yield Conflict(
            "link.access learning.scheme", problem, Write({"access": needed}), Write({"access": "auto"}), *others
        )
    carried = config.sends.carried_by(modulation)
    if config.levels is not None and config.superposes:
        carried = modulation == "analog"  # levels, or signs of amplitudes of their own
    if modulation != "auto" and not carried:
        what = "one-bit gradients" if config.sends_signs else "amplitudes" if config.superposes else "bits"
        problem = f"scheme {scheme} sends {what}{' that add up' * config.superposes}, which {modulation} cannot carry"
        yield Conflict("link.modulation learning.scheme", problem, Write({"modulation": "auto"}))
    if config.superposes and link.receiver.combining != "mrc":
        problem = (
            "flmc takes the receiver's noise as that of Langevin sampling, and combining "
            f"{link.receiver.combining} changes its power from round to round"
        )
        yield Conflict(
            "link.receiver.combining learning.algorithm",
            problem,
            Write({"combining": "mrc"}),
            Write({"algorithm": "fedavg"}),
        )


def _bound_conflicts(config: FlmcConfig, link: LinkConfig) -> Iterator[Conflict]:
    """Yield what the bounds of Zhang et al. 2022 do not hold for: more than one uncoded symbol at one antenna."""
    if not config.superposes and not link.plain:
        problem = (
            "the privacy bound (16) holds for one uncoded symbol per bit at one antenna; codes, antennas, "
            "repetitions and unequal carriers give the server more information than it assumes"
        )
        keys = "privacy link.coding link.receiver.num_antennas link.packets link.ofdm link.channel"
        yield Conflict(keys, problem, Write({"privacy": "none"}), Say("an uncoded link"))
    if config.superposes and link.receiver.num_antennas > 1:
        count = link.receiver.num_antennas
        problem = f"the privacy bound holds for one antenna, and {count} show the server each symbol as many times"
        yield Conflict(
            "privacy link.receiver.num_antennas", problem, Write({"privacy": "none"}), Write({"num_antennas": 1})
        )
    if config.superposes and link.mixes_carriers:
        problem = (
            "clipping, frequency offsets and waveforms in the time domain spill symbols over other carriers, which "
            "the bound ignores"
        )
        keys = "privacy link.impairments.cfo_hz link.impairments.clipping_db link.ofdm.domain"
        yield Conflict(keys, problem, Write({"privacy": "none"}))


def budget_conflicts(config: FlmcConfig, *, link: LinkConfig, privacy: Any) -> Iterator[Conflict]:
    """See `Learning`: a budget relies on the noise of the receiver."""
    if not config.uses_radio:
        problem = f"scheme {config.scheme} sends nothing, so that a budget has nothing to limit"
        yield Conflict(
            "privacy.budget learning.scheme", problem, Write({"privacy": "none"}), Write({"scheme": "digital"})
        )
        return
    reason = uncreditable(config, link=link)
    if privacy.calibrated and hides_alone(config, link=link):
        slope_within(config, budget=privacy.budget)
        if privacy.budget.schedule != "uniform":
            problem = "the slope of the quantizer keeps this budget, and it is the same in all rounds"
            yield Conflict("privacy.budget.schedule link.coding", problem, Write({"schedule": "uniform"}))
    elif reason is not None and link.error_model != "error_free":
        problem = f"a budget relies on the receiver's noise, but {reason}"
        yield Conflict(
            "privacy.budget link.error_model link.modulation link.coding",
            problem,
            Write({"privacy": "none"}),
            Say("an uncoded bpsk or qpsk link of error_model: measured"),
        )
    elif link.csi != "perfect" or link.error_model == "error_free":
        unknown = "unknown with an estimated channel and without a channel"
        problem = f"a budget limits the received amplitude, which is {unknown}"
        yield Conflict(
            "privacy.budget link.csi link.error_model",
            problem,
            Write({"link.csi": "perfect", "link.error_model": "measured"}),
        )
    elif privacy.calibrated:
        amplitude_caps(config, budget=privacy.budget, noise_power=sure_noise_power(link, privacy=privacy))
