"""Transmit powers of a link: what excludes them, and what they come to in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from phy.config.conflict import Conflict, LeaveOut, Say, Write, flow
from phy.config.link import LinkConfig, noise_bandwidth_hz
from phy.config.power import thermal_noise_dbm
from phy.fading.gains import arrival_gains

_TRIALS = tuple(range(16))
"""Trials over which levels are told: positions, shadowing and users of a trace may differ in each."""


def power_conflicts(link: LinkConfig, *, num_devices: int) -> Iterator[Conflict]:
    """Yield what excludes the powers of devices: a list of another length, and dBm where gains are relative."""
    power, channel = link.power, link.channel
    key, written = power.written
    if isinstance(written, tuple) and len(written) != num_devices:
        yield Conflict(
            f"power.{key}",
            f"{key} has length {len(written)}, num_devices is {num_devices}",
            Write({"num_devices": len(written)}),
            Say("one value for all"),
            Say(f"move the list into the sweep: {flow({f'link.power.{key}': list(written)})}"),
        )
    if key == "snr_max_db":
        return
    if channel.traced and channel.normalize != "none":
        yield Conflict(
            "power.transmit_power_dbm channel.normalize",
            f"transmit_power_dbm needs gains as recorded, and normalize {channel.normalize} makes them relative",
            Write({"channel.normalize": "none"}),
            Write({"snr_max_db": 20}, over=("transmit_power_dbm",), example=True),
        )
    elif not channel.traced and channel.cell is None and channel.gain == 1.0:
        yield Conflict(
            "power.transmit_power_dbm channel.gain",
            "transmit_power_dbm needs the path loss of the devices, and gain 1 has none",
            Write({"channel.gain": 1e-5}, example=True, note=", a loss of 100 dB"),
            Write({"channel.cell": {}}),
            Write({"snr_max_db": 20}, over=("transmit_power_dbm",), example=True),
        )
    if channel.noise_power != 1.0:
        yield Conflict(
            "channel.noise_power power.transmit_power_dbm",
            f"under transmit_power_dbm the noise is k T B, and noise_power is {channel.noise_power:g}",
            LeaveOut("noise_power"),
        )
    if link.multiplexing == "ofdma":
        yield Conflict(
            "power.transmit_power_dbm multiplexing",
            "under ofdma a device has a part of the subcarriers, and transmit_power_dbm is spread over all of them",
            Write({"multiplexing": "tdma"}),
            Write({"snr_max_db": 20}, over=("transmit_power_dbm",), example=True),
        )


def received_snr_db(link: LinkConfig, *, num_devices: int, seed: int) -> NDArray[np.float64]:
    """Mean received SNR per antenna at full power `[trials, num_devices]` of the first trials [dB]: P h^2 / (2 N0)."""
    gains = arrival_gains(link, num_devices=num_devices, seed=seed, trials=_TRIALS).astype(float)
    strongest = link.max_power / (2.0 * link.channel.noise_power)
    return np.asarray(10.0 * np.log10(gains**2 * strongest))


def budget_in_words(link: LinkConfig, *, num_devices: int, seed: int) -> str | None:
    """Return power, noise and received SNR of a link with powers in dBm; None for others."""
    if link.power.transmit_power_dbm is None:
        return None
    wide_hz = noise_bandwidth_hz(link)
    noise_dbm = thermal_noise_dbm(wide_hz, noise_figure_db=link.power.noise_figure_db)
    each = received_snr_db(link, num_devices=num_devices, seed=seed)
    drawn = "" if (each == each[0]).all() else f" of {len(_TRIALS)} trials"
    figure_db = link.power.noise_figure_db
    return (
        f"transmit power {levels_in_words(link)}, noise {noise_dbm:.1f} dBm: k T B at 290 K over {wide_hz / 1e6:.4g} "
        f"MHz and a noise figure of {figure_db:g} dB; mean received SNR of devices{drawn} at full power: median "
        f"{np.median(each):.1f} dB, {each.min():.1f} to {each.max():.1f} dB"
    )


def levels_in_words(link: LinkConfig) -> str:
    """Return the power as written, of several devices the smallest and the largest: `3 to 9 dB`."""
    key, written = link.power.written
    unit = "dBm" if key == "transmit_power_dbm" else "dB"
    if not isinstance(written, tuple) or min(written) == max(written):
        return f"{np.max(written):g} {unit}"
    return f"{min(written):g} to {max(written):g} {unit}"


def more_power(link: LinkConfig) -> str:
    """Return the advice to raise the power: `raise link.power.snr_max_db above 20`."""
    key, written = link.power.written
    if isinstance(written, tuple):
        return f"raise link.power.{key}, which is {levels_in_words(link)}"
    return f"raise link.power.{key} above {written:g}"
