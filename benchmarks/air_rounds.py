"""Wall time and memory of a round of federated averaging whose updates add up in the air, without training.

    python benchmarks/air_rounds.py

Beside it the plain sum of the same updates in NumPy, in the same process: what a simulation pays that skips the radio.
Rayleigh fading, inversion, 20 dB; in the time domain devices are late by up to 8 us, beyond the cyclic prefix, and turn
by up to 100 Hz. Exit 1 if a round of amplitudes or votes takes more than a second, or five in the time domain.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from timing import interleaved_medians, peak_gigabytes, print_table

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.upload import upload_plan
from fl.attacks.attacks import Attackers
from fl.base.recorder import Recorder
from fl.schemes.coders.coder import Senders
from fl.uplink.air import SuperposedUplink
from fl.uplink.protection import Protection
from fl.uplink.senders import SenderIndex
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext

MOST_SECONDS, MOST_SECONDS_OF_SAMPLES = 1.0, 5.0
SIZES = ((20, 1_206_590), (1000, 7_850))
CHANNELS: dict[str, dict[str, Any]] = {
    "flat": {"channel": {"fading": "rayleigh"}},
    "flat, 8 antennas": {"channel": {"fading": "rayleigh"}, "receiver": {"num_antennas": 8}},
    "OFDM, TDL-A": {"channel": {"model": "tdl-a"}, "ofdm": {}},
    "OFDM, TDL-A at 3 m/s": {"channel": {"model": "tdl-a", "speed_m_s": 3.0}, "ofdm": {}},
    "OFDM in time, TDL-A": {
        "channel": {"model": "tdl-a"},
        "ofdm": {"domain": "time"},
        "impairments": {"timing_offset_s": 8e-6, "cfo_hz": 100.0},
    },
    "OFDM in time, TDL-A at 3 m/s": {
        "channel": {"model": "tdl-a", "speed_m_s": 3.0},
        "ofdm": {"domain": "time"},
        "impairments": {"timing_offset_s": 8e-6, "cfo_hz": 100.0},
    },
}
SCHEMES: dict[str, Any] = {
    "amplitudes": "mean",
    "votes": {"name": "sign", "epsilon": "none"},
    "histogram": "type-based",
}


def round_of(
    aggregation: Any, channel: dict[str, Any], *, num_devices: int, num_values: int
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return functions that send one round, and that add the updates up."""
    config = FedAvgConfig.model_validate({"num_devices": num_devices, "aggregation": aggregation, "rounds": 1})
    modulation = config.aggregation.air_modulations[0]
    link = LinkConfig.model_validate({"access": "superposition", **channel})
    link = link.resolve(access="superposition", modulation=modulation)
    plan = upload_plan(config)
    uplink = SuperposedUplink(
        plan,
        link=link,
        num_values=num_values,
        index=SenderIndex(plan, link=link),
        protection=Protection(),
        attackers=Attackers.drawn(None, num_devices=num_devices, seed=1, trial=0),
    )
    updates = np.random.default_rng(1).standard_normal((num_devices, num_values), dtype=np.float32)
    ones, zeros = np.ones(num_devices), np.zeros(num_values, np.float32)
    rounds = count()  # a new channel in each

    def send() -> None:
        context = UplinkContext(seed=1, trials=(0,), round_index=next(rounds))
        record = Recorder(context.round_index + 1, num_devices=num_devices)
        senders = Senders(devices=np.arange(num_devices), context=context, weights=ones, factor=ones)
        uplink.send(iter([updates]), senders, otherwise=zeros, record=record)

    return send, lambda: updates.mean(axis=0)


def main() -> int:
    """Print the table; return the exit code."""
    rows, too_slow = [], False
    for num_devices, num_values in SIZES:
        for where, channel in CHANNELS.items():
            for name, aggregation in SCHEMES.items():
                if where != "flat" and name == "histogram":
                    continue
                send, plain = round_of(aggregation, channel, num_devices=num_devices, num_values=num_values)
                seconds = interleaved_medians({"air": send, "plain": plain}, repeats=3, warm_up=1)
                size, peak = f"{num_devices:,} x {num_values:,}", f"{1000.0 * peak_gigabytes():,.0f}"
                rows.append((size, where, name, f"{seconds['air']:.2f}", f"{seconds['plain']:.3f}", peak))
                too_slow |= where.startswith("flat") and name != "histogram" and seconds["air"] > MOST_SECONDS
    print_table(("devices x numbers", "channel", "sent", "round [s]", "plain mean [s]", "peak so far [MB]"), rows)
    return int(too_slow)


if __name__ == "__main__":
    sys.exit(main())
