"""Conflicts of the uplink and the downlink with what is sent over them."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import FedAvgConfig, FlmcConfig
from fl.footprint import dimension, payload_bits
from phy.config import CsiEstimation, LinkConfig
from phy.links.conflicts import link_conflicts as conflicts_within
from scenarios.schema.consistency.conflict import Conflict, links_of
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.schema import Scenario


def gains(scenario: Scenario) -> Iterator[Conflict]:
    """A list of gains must have one entry per device."""
    for path, link in links_of(scenario):
        gain, num_devices = link.channel.gain, scenario.learning.num_devices
        if isinstance(gain, tuple) and len(gain) != num_devices:
            yield Conflict(
                f"{path}.channel.gain learning.num_devices",
                f"gain lists {len(gain)} devices, learning.num_devices is {num_devices}",
                "list one gain per device, or write one number for all",
            )


def detected_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Numbers travel as bits, which the server detects device by device."""
    name = scenario.learning.algorithm
    if isinstance(scenario.learning, FlmcConfig):
        return
    for path, link in links_of(scenario):
        if link.access == "superposition":
            yield Conflict(
                f"{path}.access learning.algorithm",
                f"{name} detects the bits of every device on its own, but access superposition adds them up in the air",
                "write access: orthogonal, noma or auto",
            )
        if link.modulation == "analog":
            yield Conflict(
                f"{path}.modulation learning.algorithm",
                f"{name} sends bits, which modulation analog cannot carry",
                "write modulation: auto, or one from bpsk to 256qam",
            )


def error_model_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Error models `iid` and `analytic` flip detected bits; closed forms have limits."""
    for path, link in links_of(scenario):
        model = link.error_model
        if model in ("iid", "analytic") and scenario.learning.superposes:
            yield Conflict(
                f"{path}.error_model learning.scheme",
                f"error model {model} flips detected bits, but superposition detects none per device",
                "write error_model: measured, or scheme: digital-orthogonal",
            )
            return
        if model != "analytic":
            continue
        if link.csi_error_variance > 0 or isinstance(link.csi, CsiEstimation):
            yield Conflict(
                f"{path}.error_model {path}.csi",
                "the closed form of error model analytic holds for perfect csi only",
                "write error_model: iid or measured, or csi: perfect",
            )
        if link.channel.fades and link.power.policy != "fixed":
            yield Conflict(
                f"{path}.error_model {path}.power.policy {path}.channel.fading",
                "the closed form of error model analytic holds in fading for power policy fixed only, "
                f"the policy is {link.power.policy}",
                "write error_model: iid or measured, or power policy: fixed",
            )


def power_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Check the power policy of every link."""
    resolved = dict(links_of(resolve_auto(scenario)))
    for path, link in links_of(scenario):
        plain = resolved[path].plain and not scenario.learning.superposes
        yield from inversion_conflicts(link, path=path, plain=plain, period="round", others=" learning.scheme")


def inversion_conflicts(
    link: LinkConfig, *, path: str, plain: bool, period: str, others: str = ""
) -> Iterator[Conflict]:
    """Truncated inversion with which no device sends, or that changes within a `period` of a `plain` link."""
    if link.power.policy != "truncated-inversion":
        return
    varies = link.channel.fades or link.csi_error_variance > 0
    if not varies and link.power.cutoff_db > 0:
        yield Conflict(
            f"{path}.power.cutoff_db {path}.power.policy",
            "the channel never rises above its mean, so that every device is silent",
            "write a cutoff_db of 0 or less",
        )
    if varies and link.channel.coherence in ("symbol", "packet") and plain:
        yield Conflict(
            f"{path}.channel.coherence {path}.power.policy{others}",
            f"on orthogonal access truncated inversion silences a device for a whole {period}, but the "
            f"channel's coherence is {link.channel.coherence}",
            "write coherence: round or run, or another power policy",
        )


def link_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Conflicts within each link, for the number of devices and bits that learning sends."""
    learning = scenario.learning
    for path, resolved in links_of(resolve_auto(scenario)):
        bits = payload_bits(learning)
        if path != "link" and isinstance(learning, FedAvgConfig) and bits is not None:
            bits = (dimension(learning) or 0) * (learning.downlink_codec or learning.codec).bits_per_value
        # A model of unknown size is checked with one full packet.
        bits = bits or 8 * resolved.packet_size_bytes
        for found in conflicts_within(resolved, num_devices=learning.num_devices, payload_bits=bits):
            keys = " ".join(f"{path}.{key}" for key in found.keys)
            yield Conflict(f"{keys} learning.scheme learning.algorithm", found.problem, found.remedy)
