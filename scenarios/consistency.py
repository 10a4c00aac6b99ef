"""Combinations of keys that are each valid and together cannot be, and what `auto` stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from phy.config import Access, CsiEstimation, Modulation
from phy.config.conflicts import link_conflicts, link_warnings

from .errors import ScenarioError
from .schema import Scenario

Where = Callable[[str], tuple[Path | str | None, int | None] | None]
"""Dotted path -> file and line where it was written, or None if it was left out."""

LOGISTIC_SAMPLES = 569
"""Samples in scikit-learn's breast-cancer data."""

_ACCESS: dict[str, Access] = {
    "digital": "superposition",
    "analog": "superposition",
    "digital-orthogonal": "orthogonal",
}
_MODULATION: dict[str, Modulation] = {"digital": "bpsk", "analog": "analog", "digital-orthogonal": "bpsk"}


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Keys that cannot be together. The first of `keys` that the user wrote is the one to blame."""

    keys: tuple[str, ...]
    problem: str
    remedy: str


def check_consistency(scenario: Scenario, *, where: Where, conflicts: Iterable[Conflict] | None = None) -> None:
    """Raise ScenarioError for the first conflict, at the key of it that the user wrote.

    `conflicts` of the scenario, those of learning with it if left out.
    """
    for conflict in find_conflicts(scenario) if conflicts is None else conflicts:
        written = [(key, place) for key in conflict.keys if (place := where(key)) is not None]
        key, (file, line) = written[0] if written else (conflict.keys[0], (None, None))
        raise ScenarioError(
            problem=conflict.problem,
            remedy=conflict.remedy,
            file=file,
            line=line,
            key=key,
            value=_value(scenario, key),
        )


def find_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Every combination in one point of a plan that cannot be simulated, or would mean nothing."""
    yield from _devices(scenario)
    yield from _learning(scenario)
    if scenario.learning.uses_radio:
        yield from _access(scenario)
        yield from _modulation(scenario)
        yield from _error_model(scenario)
        yield from _power(scenario)
        yield from _link(scenario)
        yield from _privacy(scenario)


def find_warnings(scenario: Scenario) -> Iterator[str]:
    """What is allowed and will hurt, one sentence each."""
    if scenario.learning.uses_radio:
        yield from link_warnings(scenario.link)


def resolve_auto(scenario: Scenario) -> Scenario:
    """The same scenario with `access`, `modulation`, code rate and `lmc_cap` explicit.

    The schemes without a radio keep `auto` in their link: it stands for nothing there.
    """
    learning, link = scenario.learning, scenario.link
    changes: dict[str, Any] = {}
    if learning.lmc_cap is None:
        changes["learning"] = learning.model_copy(update={"lmc_cap": learning.resolved_lmc_cap})
    if learning.uses_radio:
        resolved = link.resolve_mcs()
        update = {
            "access": _ACCESS[learning.scheme] if link.access == "auto" else link.access,
            "modulation": _MODULATION[learning.scheme] if resolved.modulation == "auto" else resolved.modulation,
        }
        changes["link"] = resolved.model_copy(update=update)
    return scenario.model_copy(update=changes) if changes else scenario


def _value(scenario: Scenario, key: str) -> Any:
    """What stands at the key, None for a section: there the key is the trouble, not what is in it."""
    value: Any = scenario
    for part in key.split("."):
        value = getattr(value, part, None)
    return None if isinstance(value, BaseModel) else value


def _devices(scenario: Scenario) -> Iterator[Conflict]:
    gain, num_devices = scenario.link.channel.gain, scenario.learning.num_devices
    if isinstance(gain, tuple) and len(gain) != num_devices:
        yield Conflict(
            keys=("link.channel.gain", "learning.num_devices"),
            problem=f"gain lists {len(gain)} devices, learning.num_devices is {num_devices}",
            remedy="list one gain per device, or write one number for all",
        )
    task = scenario.learning.task
    num_samples = task.num_samples if task.name == "gaussian-linear" else LOGISTIC_SAMPLES
    if num_devices > num_samples:
        yield Conflict(
            keys=("learning.num_devices", "learning.task.num_samples", "learning.task"),
            problem=f"{num_devices} devices cannot share {num_samples} samples of {task.name}",
            remedy=f"use at most {num_samples} devices"
            + (", or raise learning.task.num_samples" if task.name == "gaussian-linear" else ""),
        )


def _learning(scenario: Scenario) -> Iterator[Conflict]:
    learning = scenario.learning
    if learning.debias and learning.scheme != "digital-orthogonal":
        yield Conflict(
            keys=("learning.debias", "learning.scheme"),
            problem=f"debias needs scheme digital-orthogonal, the scheme is {learning.scheme}",
            remedy="leave debias out, or use scheme: digital-orthogonal",
        )
    if learning.debias and scenario.link.packets.policy != "accept":
        yield Conflict(
            keys=("learning.debias", "link.packets.policy"),
            problem=f"debias divides by what the errors of all packets shrink, but under packets.policy "
            f"{scenario.link.packets.policy} wrong ones are left out",
            remedy="leave debias out, or write packets.policy: accept",
        )


def _access(scenario: Scenario) -> Iterator[Conflict]:
    scheme, access = scenario.learning.scheme, scenario.link.access
    needed = _ACCESS[scheme]
    fitting = ("orthogonal", "noma") if needed == "orthogonal" else (needed,)
    if access not in ("auto", *fitting):
        remedy = f"write access: {needed} or auto"
        if scheme != "analog":
            other = "digital-orthogonal" if scheme == "digital" else "digital"
            remedy += f", or scheme: {other}"
        yield Conflict(
            keys=("link.access", "learning.scheme"),
            problem=f"scheme {scheme} needs access {needed}, the access is {access}",
            remedy=remedy,
        )


def _modulation(scenario: Scenario) -> Iterator[Conflict]:
    scheme, modulation = scenario.learning.scheme, scenario.link.modulation
    keys = ("link.modulation", "learning.scheme")
    if modulation == "auto":
        return
    if scheme == "analog" and modulation != "analog":
        yield Conflict(
            keys=keys,
            problem=f"scheme analog sends amplitudes, which {modulation} cannot carry",
            remedy="write modulation: analog or auto, or a digital scheme",
        )
    elif scheme != "analog" and modulation == "analog":
        yield Conflict(
            keys=keys,
            problem=f"scheme {scheme} sends bits, which modulation analog cannot carry",
            remedy="write modulation: auto, or scheme: analog",
        )
    elif scheme == "digital" and modulation != "bpsk":
        yield Conflict(
            keys=keys,
            problem=f"one-bit gradients add up in the air as bpsk only, not as {modulation}",
            remedy="write modulation: bpsk or auto, or scheme: digital-orthogonal",
        )


def _error_model(scenario: Scenario) -> Iterator[Conflict]:
    link, learning = scenario.link, scenario.learning
    model = link.error_model
    if model in ("iid", "analytic") and learning.superposes:
        yield Conflict(
            keys=("link.error_model", "learning.scheme"),
            problem=f"error model {model} flips detected bits, but superposition detects none per device",
            remedy="write error_model: measured, or scheme: digital-orthogonal",
        )
        return
    if model != "analytic":
        return
    if link.csi_error_variance > 0 or isinstance(link.csi, CsiEstimation):
        yield Conflict(
            keys=("link.error_model", "link.csi"),
            problem="the closed form of error model analytic holds for perfect csi only",
            remedy="write error_model: iid or measured, or csi: perfect",
        )
    if link.channel.fades and link.power.policy != "fixed":
        yield Conflict(
            keys=("link.error_model", "link.power.policy", "link.channel.fading"),
            problem="the closed form of error model analytic holds in fading for power policy fixed only, "
            f"the policy is {link.power.policy}",
            remedy="write error_model: iid or measured, or power policy: fixed",
        )


def _power(scenario: Scenario) -> Iterator[Conflict]:
    link, learning = scenario.link, scenario.learning
    varies = link.channel.fades or link.csi_error_variance > 0
    if link.power.policy == "truncated-inversion" and not varies and link.power.cutoff_db > 0:
        yield Conflict(
            keys=("link.power.cutoff_db", "link.power.policy"),
            problem="the channel never rises above its mean, so every device would stay silent",
            remedy="write a cutoff_db of 0 or less",
        )
    if (
        link.power.policy == "truncated-inversion"
        and not learning.superposes
        and varies
        and link.channel.coherence in ("symbol", "packet")
        and resolve_auto(scenario).link.plain
    ):
        yield Conflict(
            keys=("link.channel.coherence", "link.power.policy", "learning.scheme"),
            problem="on orthogonal access truncated inversion silences a device for a whole round, but the "
            f"channel's coherence is {link.channel.coherence}",
            remedy="write coherence: round or run, or another power policy",
        )


def _privacy(scenario: Scenario) -> Iterator[Conflict]:
    """The bounds of Zhang et al. 2022 know one uncoded look at every symbol, at one antenna."""
    if scenario.privacy == "none":
        return
    link, learning = resolve_auto(scenario).link, scenario.learning
    if not learning.superposes and not link.plain:
        yield Conflict(
            keys=("privacy", "link.coding", "link.receiver.num_antennas", "link.packets", "link.ofdm", "link.channel"),
            problem="the privacy bound (16) holds for one uncoded symbol per bit at one antenna; codes, antennas, "
            "repetitions and unequal carriers tell the server more than it credits",
            remedy="write privacy: none, or leave coding, packets, ofdm, receiver and noma out",
        )
    if learning.superposes and link.ofdm != "none" and (link.impairments.cfo_hz or link.impairments.clipping_db):
        yield Conflict(
            keys=("privacy", "link.impairments.cfo_hz", "link.impairments.clipping_db"),
            problem="clipping and frequency offsets spill symbols over other carriers, which the bound ignores",
            remedy="write privacy: none, or leave cfo_hz and clipping_db out",
        )


def _link(scenario: Scenario) -> Iterator[Conflict]:
    learning = scenario.learning
    link = resolve_auto(scenario).link
    for found in link_conflicts(link, num_devices=learning.num_devices, payload_bits=learning.task.dimension):
        yield Conflict(
            keys=(*(f"link.{key}" for key in found.keys), "learning.scheme"),
            problem=found.problem,
            remedy=found.remedy,
        )
