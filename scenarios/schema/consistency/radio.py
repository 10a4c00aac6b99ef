"""Links that no learning algorithm, or none that detects every device on its own, can use."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import FedAvgConfig, FlmcConfig
from fl.footprint import dimension, payload_bits
from phy.config import CsiEstimation, LinkConfig
from phy.links.conflicts import link_conflicts
from scenarios.schema.consistency.conflict import Conflict
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.schema import Scenario


def devices(scenario: Scenario) -> Iterator[Conflict]:
    """As many gains as there are devices, on the way up and down."""
    for path, link in links_of(scenario):
        gain, num_devices = link.channel.gain, scenario.learning.num_devices
        if isinstance(gain, tuple) and len(gain) != num_devices:
            yield Conflict(
                keys=(f"{path}.channel.gain", "learning.num_devices"),
                problem=f"gain lists {len(gain)} devices, learning.num_devices is {num_devices}",
                remedy="list one gain per device, or write one number for all",
            )


def links_of(scenario: Scenario) -> Iterator[tuple[str, LinkConfig]]:
    """Path and link of the uplink, and of the downlink where it has one."""
    yield "link", scenario.link
    learning = scenario.learning
    if isinstance(learning, FedAvgConfig) and learning.downlink != "ideal":
        yield "learning.downlink", learning.downlink


def detected_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Whole numbers travel as bits that are detected device by device."""
    learning = scenario.learning
    if isinstance(learning, FlmcConfig):
        return
    for path, link in links_of(scenario):
        if link.access == "superposition":
            yield Conflict(
                keys=(f"{path}.access", "learning.algorithm"),
                problem=f"{learning.algorithm} decodes the bits of every device on its own, which access superposition "
                "adds up in the air",
                remedy="write access: orthogonal, noma or auto",
            )
        if link.modulation == "analog":
            yield Conflict(
                keys=(f"{path}.modulation", "learning.algorithm"),
                problem=f"{learning.algorithm} sends bits, which modulation analog cannot carry",
                remedy="write modulation: auto, or one from bpsk to 256qam",
            )


def error_model(scenario: Scenario) -> Iterator[Conflict]:
    """Error models that flip detected bits, and closed forms that do not hold."""
    learning = scenario.learning
    for path, link in links_of(scenario):
        model = link.error_model
        if model in ("iid", "analytic") and learning.superposes:
            yield Conflict(
                keys=(f"{path}.error_model", "learning.scheme"),
                problem=f"error model {model} flips detected bits, but superposition detects none per device",
                remedy="write error_model: measured, or scheme: digital-orthogonal",
            )
            return
        if model != "analytic":
            continue
        if link.csi_error_variance > 0 or isinstance(link.csi, CsiEstimation):
            yield Conflict(
                keys=(f"{path}.error_model", f"{path}.csi"),
                problem="the closed form of error model analytic holds for perfect csi only",
                remedy="write error_model: iid or measured, or csi: perfect",
            )
        if link.channel.fades and link.power.policy != "fixed":
            yield Conflict(
                keys=(f"{path}.error_model", f"{path}.power.policy", f"{path}.channel.fading"),
                problem="the closed form of error model analytic holds in fading for power policy fixed only, "
                f"the policy is {link.power.policy}",
                remedy="write error_model: iid or measured, or power policy: fixed",
            )


def power(scenario: Scenario) -> Iterator[Conflict]:
    """Power policies under which nobody sends, or nobody knows who does."""
    learning = scenario.learning
    resolved = dict(links_of(resolve_auto(scenario)))
    for path, link in links_of(scenario):
        varies = link.channel.fades or link.csi_error_variance > 0
        if link.power.policy == "truncated-inversion" and not varies and link.power.cutoff_db > 0:
            yield Conflict(
                keys=(f"{path}.power.cutoff_db", f"{path}.power.policy"),
                problem="the channel never rises above its mean, so every device would stay silent",
                remedy="write a cutoff_db of 0 or less",
            )
        if (
            link.power.policy == "truncated-inversion"
            and not learning.superposes
            and varies
            and link.channel.coherence in ("symbol", "packet")
            and resolved[path].plain
        ):
            yield Conflict(
                keys=(f"{path}.channel.coherence", f"{path}.power.policy", "learning.scheme"),
                problem="on orthogonal access truncated inversion silences a device for a whole round, but the "
                f"channel's coherence is {link.channel.coherence}",
                remedy="write coherence: round or run, or another power policy",
            )


def link(scenario: Scenario) -> Iterator[Conflict]:
    """What the radio itself cannot do with so many devices and bits."""
    learning = scenario.learning
    for path, resolved in links_of(resolve_auto(scenario)):
        bits = payload_bits(learning)
        if path != "link" and isinstance(learning, FedAvgConfig) and bits is not None:
            bits = (dimension(learning) or 0) * (learning.downlink_codec or learning.codec).bits_per_value
        full = 8 * resolved.packet_size_bytes  # of a size that only the run knows, one full packet is checked
        for found in link_conflicts(resolved, num_devices=learning.num_devices, payload_bits=bits or full):
            yield Conflict(
                keys=(*(f"{path}.{key}" for key in found.keys), "learning.scheme", "learning.algorithm"),
                problem=found.problem,
                remedy=found.remedy,
            )
