"""Conflicts of a link study, and the values of `auto` without learning."""

from __future__ import annotations

from collections.abc import Iterator

from fl.base.words import plural
from phy.config.conflict import Conflict, ConflictError, LeaveOut, Say, Write
from phy.config.mcs import entries_of, is_by_device
from phy.engines.choice import with_engine
from phy.links.conflicts import link_conflicts
from scenarios.schema.consistency.link_axes import THROUGHPUT, Budget, uses_in_turn
from scenarios.schema.schema import MeasureConfig, Scenario

MAX_LEVEL_DB = 300.0
"""Largest transmit power over N0, as in `link.power.snr_max_db` [dB]."""


def measure_of(scenario: Scenario) -> MeasureConfig:
    """The `measure:` part of a scenario; ValueError if it has none."""
    if scenario.measure is None:
        raise ConflictError("", f"scenario {scenario.name} has no measure: section", Say("add one"))
    return scenario.measure


def resolve_link(scenario: Scenario) -> Scenario:
    """Make access, modulation, code rate and engine explicit; `auto` access is orthogonal here."""
    link = with_engine(scenario.link.resolve(access="orthogonal", modulation="auto"))
    return scenario.model_copy(update={"link": link})


def find_link_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Yield every combination of keys in one sweep point that cannot be measured."""
    measure, link = measure_of(scenario), resolve_link(scenario).link
    if scenario.link.modulation == "auto" and scenario.link.mcs is None:
        yield Conflict(
            "link.modulation link.mcs link",
            "modulation auto follows the learning scheme, and a link study has none",
            Write({"modulation": "qpsk"}, example=True),
            Say("an mcs"),
        )
        return
    if is_by_device(scenario.link.mcs):
        problem = "a link study measures one MCS on each curve, and mcs is for each device"
        yield Conflict("link.mcs link", problem, Write({"mcs": entries_of(link.mcs)[0].number}, example=True))
        return
    wrong = {"access": "orthogonal"} if link.access == "superposition" else {}
    wrong |= {"modulation": "qpsk"} if link.modulation == "analog" else {}
    if wrong:
        first = next(iter(wrong))
        yield Conflict(
            "link.access link.modulation",
            f"under {first} {getattr(link, first)} no device's bits are detected, so there is no error rate to measure",
            Write(wrong),
        )
        return
    packet_bits = 8 * link.packet_size_bytes
    found = list(link_conflicts(link, num_devices=measure.num_devices, payload_bits=packet_bits))
    if found:
        yield from (conflict.under("link", "measure.num_devices") for conflict in found)
        return
    if link.error_model != "measured":
        yield Conflict(
            "link.error_model",
            "an error rate is measured on the simulated link, not on a model of its errors",
            Write({"error_model": "measured"}),
            LeaveOut(),
        )
    if link.power.transmit_power_dbm is not None:
        yield Conflict(
            "link.power.transmit_power_dbm measure.values",
            "the transmit power of a link study follows from measure.values, and transmit_power_dbm is one power",
            LeaveOut("link.power.transmit_power_dbm", note=", for rates over the SNR"),
            LeaveOut("measure", note=", and use phyloop.Link or phyloop run for rates at this power"),
        )
        return
    if link.channel.at_end == "error":
        problem = (
            "an error rate is measured until it is known well enough, for which no trace is sure to be long enough"
        )
        yield Conflict("link.channel.at_end", problem, Write({"at_end": "loop"}))
    if link.control.closed_loop:
        yield Conflict(
            "link.power.policy",
            "a closed loop changes the power in every round of learning, so that no level on the axis can hold",
            Write({"policy": "fixed"}),
        )
    if not uses_in_turn(link) and any(figure.y == THROUGHPUT for figure in scenario.report.figures):
        yield Conflict(
            "link.access link.multiplexing report.figures",
            "throughput counts channel uses of devices one after another, and these use the channel at once",
            Write({"access": "orthogonal"} if link.access == "noma" else {"multiplexing": "tdma"}),
            Say("draw another metric"),
        )
    yield from _level_conflicts(scenario)
    if measure.bits_per_batch != "auto" and measure.bits_per_batch < packet_bits:
        yield Conflict(
            "measure.bits_per_batch link.packet_size_bytes",
            f"less than one packet of {plural(packet_bits, 'bit')}",
            Write({"": packet_bits}),
            Say("auto"),
        )


def _level_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    measure = measure_of(scenario)
    # At the nominal rate: a code that cannot carry the packet has a conflict of its own.
    budget = Budget.of(scenario.link, num_devices=measure.num_devices, ebno="nominal")
    for value in (measure.levels[0], measure.levels[-1]):
        level = budget.snr_max_db(value, measure.over)
        if abs(level) > MAX_LEVEL_DB:
            yield Conflict(
                "measure.values link.channel.gain",
                f"{measure.over} {value:g} needs a transmit power of {level:.0f} dB over N0, "
                f"at most {MAX_LEVEL_DB:.0f} dB either way can be simulated",
                Write({"link.channel.gain": 1.0}),
            )
            return
