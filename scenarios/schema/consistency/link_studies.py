"""Links that cannot be measured, and what `auto` stands for where nothing is learnt."""

from __future__ import annotations

from collections.abc import Iterator

from phy.links.conflicts import link_conflicts
from phy.engines.choice import engine_of
from scenarios.schema.consistency.conflict import Conflict
from scenarios.schema.measure import MeasureConfig
from scenarios.schema.schema import Scenario
from scenarios.studies.link.level import Budget

MAX_LEVEL_DB = 300.0
"""Largest transmit power over N0, as in `link.power.snr_max_db` [dB]."""


def measure_of(scenario: Scenario) -> MeasureConfig:
    """The `measure:` part of a scenario that has one; ValueError otherwise."""
    if scenario.measure is None:
        raise ValueError(f"scenario {scenario.name} has no measure: section; add one")
    return scenario.measure


def resolve_link(scenario: Scenario) -> Scenario:
    """The same scenario with access, modulation, code rate and engine explicit: `auto` access is orthogonal here."""
    link = scenario.link.resolve_mcs()
    link = link.model_copy(update={"access": "orthogonal" if link.access == "auto" else link.access})
    return scenario.model_copy(update={"link": link.model_copy(update={"engine": engine_of(link)})})


def find_link_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Every combination of keys in one point of the sweep that cannot be measured."""
    measure = measure_of(scenario)
    named = scenario.link.modulation != "auto" or scenario.link.mcs is not None
    link = resolve_link(scenario).link
    if not named:
        yield Conflict(
            keys=("link.modulation", "link.mcs", "link"),
            problem="modulation auto is what a learning scheme sends, and nothing is learnt here",
            remedy="name a modulation from bpsk to 256qam, or an mcs",
        )
        return
    if link.access == "superposition" or link.modulation == "analog":
        what = "access superposition" if link.access == "superposition" else "modulation analog"
        yield Conflict(
            keys=("link.access", "link.modulation"),
            problem=f"under {what} no device's bits are detected, so there is no error rate to measure",
            remedy="write access: orthogonal or noma, and a modulation from bpsk to 256qam",
        )
        return
    devices = list(_devices(scenario))
    yield from devices
    if devices:
        return
    yield from _models(scenario)
    yield from _levels(scenario)
    packet_bits = 8 * link.packet_size_bytes
    if measure.bits_per_batch != "auto" and measure.bits_per_batch < packet_bits:
        yield Conflict(
            keys=("measure.bits_per_batch", "link.packet_size_bytes"),
            problem=f"less than one packet of {packet_bits} bits",
            remedy=f"write at least {packet_bits}, or a smaller link.packet_size_bytes",
        )
    for found in link_conflicts(link, num_devices=measure.num_devices, payload_bits=packet_bits):
        yield Conflict(keys=tuple(f"link.{key}" for key in found.keys), problem=found.problem, remedy=found.remedy)


def _devices(scenario: Scenario) -> Iterator[Conflict]:
    """A list over devices has one entry for each."""
    channel, num_devices = scenario.link.channel, scenario.measure.num_devices if scenario.measure else 0
    lists = {"link.channel.gain": channel.gain if isinstance(channel.gain, tuple) else None}
    if channel.cell is not None:
        lists["link.channel.cell.positions_m"] = channel.cell.positions_m  # type: ignore[assignment]
    for key, listed in lists.items():
        if listed is not None and len(listed) != num_devices:
            yield Conflict(
                keys=(key, "measure.num_devices"),
                problem=f"{key} lists {len(listed)} devices, measure.num_devices is {num_devices}",
                remedy="list one entry per device",
            )


def _models(scenario: Scenario) -> Iterator[Conflict]:
    link = scenario.link
    if link.error_model != "measured":
        yield Conflict(
            keys=("link.error_model",),
            problem="an error rate is measured on the simulated link, not on a stand-in for it",
            remedy="write error_model: measured, or leave it out",
        )
    if link.power.policy == "closed-loop":
        yield Conflict(
            keys=("link.power.policy",),
            problem="a closed loop moves the power from round to round of learning, so a level on the axis cannot hold",
            remedy="write policy: fixed",
        )
    varies = link.channel.fades or link.csi_error_variance > 0
    if link.power.policy != "truncated-inversion":
        return
    if not varies and link.power.cutoff_db > 0:
        yield Conflict(
            keys=("link.power.cutoff_db", "link.power.policy"),
            problem="the channel never rises above its mean, so every device would stay silent",
            remedy="write a cutoff_db of 0 or less",
        )
    if varies and link.channel.coherence in ("symbol", "packet") and resolve_link(scenario).link.plain:
        yield Conflict(
            keys=("link.channel.coherence", "link.power.policy"),
            problem="on orthogonal access truncated inversion silences a device for a whole transmission, but the "
            f"channel's coherence is {link.channel.coherence}",
            remedy="write coherence: round or run, or another power policy",
        )


def _levels(scenario: Scenario) -> Iterator[Conflict]:
    measure = measure_of(scenario)
    budget = Budget.of(scenario.link, num_devices=measure.num_devices)
    for value in (measure.levels[0], measure.levels[-1]):
        level = budget.snr_max_db(value, measure.over)
        if abs(level) > MAX_LEVEL_DB:
            yield Conflict(
                keys=("measure.values", "link.channel.gain"),
                problem=f"{measure.over} {value:g} needs a transmit power of {level:.0f} dB over N0, "
                f"at most {MAX_LEVEL_DB:.0f} dB either way can be simulated",
                remedy="bring link.channel.gain nearer to 1",
            )
            return
