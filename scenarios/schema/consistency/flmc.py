"""What federated Langevin Monte Carlo cannot do, scheme by scheme."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import FlmcConfig
from scenarios.schema.consistency.conflict import Conflict
from scenarios.schema.consistency.resolve import ACCESS, resolve_auto
from scenarios.schema.schema import Scenario

_LOGISTIC_SAMPLES = 569
"""Samples in scikit-learn's breast-cancer data."""


def learning_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """The task against the devices, and `debias` against what it divides."""
    learning = scenario.learning
    if not isinstance(learning, FlmcConfig):
        return
    task, num_devices = learning.task, learning.num_devices
    num_samples = task.num_samples if task.name == "gaussian-linear" else _LOGISTIC_SAMPLES
    if num_devices > num_samples:
        yield Conflict(
            keys=("learning.num_devices", "learning.task.num_samples", "learning.task"),
            problem=f"{num_devices} devices cannot share {num_samples} samples of {task.name}",
            remedy=f"use at most {num_samples} devices"
            + (", or raise learning.task.num_samples" if task.name == "gaussian-linear" else ""),
        )
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


def radio_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Access and modulation that cannot carry what the scheme sends."""
    learning = scenario.learning
    if isinstance(learning, FlmcConfig):
        yield from _access(learning, scenario.link.access)
        yield from _modulation(learning, scenario.link.modulation)


def _access(learning: FlmcConfig, access: str) -> Iterator[Conflict]:
    scheme = learning.scheme
    needed = ACCESS[scheme]
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


def _modulation(learning: FlmcConfig, modulation: str) -> Iterator[Conflict]:
    scheme, keys = learning.scheme, ("link.modulation", "learning.scheme")
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


def privacy_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """The bounds of Zhang et al. 2022 know one uncoded look at every symbol, at one antenna."""
    learning = scenario.learning
    if scenario.privacy == "none" or not isinstance(learning, FlmcConfig):
        return
    link = resolve_auto(scenario).link
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
