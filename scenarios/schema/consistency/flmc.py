"""Conflicts of federated Langevin Monte Carlo."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import FlmcConfig
from scenarios.schema.consistency.conflict import Conflict
from scenarios.schema.consistency.resolve import ACCESS, resolve_auto
from scenarios.schema.schema import Scenario

_LOGISTIC_SAMPLES = 569
"""Samples in scikit-learn's breast-cancer data."""


def learning_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Check the task against the devices, and `debias` against the scheme and the packets."""
    learning, policy = scenario.learning, scenario.link.packets.policy
    if not isinstance(learning, FlmcConfig):
        return
    task, num_devices = learning.task, learning.num_devices
    num_samples = task.num_samples if task.name == "gaussian-linear" else _LOGISTIC_SAMPLES
    if num_devices > num_samples:
        raised = ", or raise learning.task.num_samples" if task.name == "gaussian-linear" else ""
        yield Conflict(
            "learning.num_devices learning.task.num_samples learning.task",
            f"{num_devices} devices cannot share {num_samples} samples of {task.name}",
            f"use at most {num_samples} devices{raised}",
        )
    if learning.debias and learning.scheme != "digital-orthogonal":
        yield Conflict(
            "learning.debias learning.scheme",
            f"debias needs scheme digital-orthogonal, the scheme is {learning.scheme}",
            "leave debias out, or use scheme: digital-orthogonal",
        )
    if learning.debias and policy != "accept":
        yield Conflict(
            "learning.debias link.packets.policy",
            f"debias corrects for errors of all packets, but packets.policy {policy} leaves out packets with errors",
            "leave debias out, or write packets.policy: accept",
        )


def radio_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Check that access and modulation can carry the bits or amplitudes of the scheme."""
    learning, access, modulation = scenario.learning, scenario.link.access, scenario.link.modulation
    if not isinstance(learning, FlmcConfig):
        return
    scheme = learning.scheme
    needed = ACCESS[scheme]
    if access not in ("auto", needed, "noma" if needed == "orthogonal" else needed):
        other = {"digital": ", or scheme: digital-orthogonal", "digital-orthogonal": ", or scheme: digital"}
        yield Conflict(
            "link.access learning.scheme",
            f"scheme {scheme} needs access {needed}, the access is {access}",
            f"write access: {needed} or auto{other.get(scheme, '')}",
        )
    if modulation == "auto":
        return
    problem = ""
    if scheme == "analog" and modulation != "analog":
        problem = f"scheme analog sends amplitudes, which {modulation} cannot carry"
        remedy = "write modulation: analog or auto, or a digital scheme"
    elif scheme != "analog" and modulation == "analog":
        problem = f"scheme {scheme} sends bits, which modulation analog cannot carry"
        remedy = "write modulation: auto, or scheme: analog"
    elif scheme == "digital" and modulation != "bpsk":
        problem = f"one-bit gradients add up in the air as bpsk only, not as {modulation}"
        remedy = "write modulation: bpsk or auto, or scheme: digital-orthogonal"
    if problem:
        yield Conflict("link.modulation learning.scheme", problem, remedy)


def privacy_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Check the link against the bounds of Zhang et al. 2022: one uncoded symbol per bit at one antenna."""
    learning = scenario.learning
    if scenario.privacy == "none" or not isinstance(learning, FlmcConfig):
        return
    link = resolve_auto(scenario).link
    if not learning.superposes and not link.plain:
        yield Conflict(
            "privacy link.coding link.receiver.num_antennas link.packets link.ofdm link.channel",
            "the privacy bound (16) holds for one uncoded symbol per bit at one antenna; codes, antennas, "
            "repetitions and unequal carriers give the server more information than it assumes",
            "write privacy: none, or leave coding, packets, ofdm, receiver and noma out",
        )
    if learning.superposes and link.ofdm != "none" and (link.impairments.cfo_hz or link.impairments.clipping_db):
        yield Conflict(
            "privacy link.impairments.cfo_hz link.impairments.clipping_db",
            "clipping and frequency offsets spill symbols over other carriers, which the bound ignores",
            "write privacy: none, or leave cfo_hz and clipping_db out",
        )
