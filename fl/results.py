"""What one trial of one scenario point yields: plain values, ready to be stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privacy.events.claims import Claim
from privacy.events.events import Ledger

CAP_NAMES: tuple[str, ...] = ("none", "power", "lmc", "privacy", "budget")
"""Word of each `active_cap` code: which limit held the amplitude down (0 is none)."""

LINK_COUNTS = (
    "bits",
    "bit_errors",
    "packets",
    "packet_errors",
    "dropped",
    "retransmissions",
    "raw_bits",
    "raw_bit_errors",
    "airtime_s",
    "energy_j",
    "snr_db",
)
"""What is kept of the counts of each round and device."""


@dataclass(frozen=True, kw_only=True)
class PrivacyAccount:
    """What a trial released, and what the paper of its scheme claims for that."""

    ledger: Ledger
    published: tuple[Claim, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OnAir:
    """What a trial put on the air that nothing else of its result tells: for its account alone, and not stored.

    - `num_values`, `num_bits`: numbers and bits of one upload, 0 where not known;
    - `bursts`: as in `TrialResult`, where that keeps none: of all uploads of a seat of the link, whoever sat there;
    - `rounds`, `link`, `devices`: of the round in which the trial failed, if it failed after sending: a number, or
      `[num_devices]`, per name of `TrialResult`. That round counts nowhere else, but what was sent is out.
    """

    num_values: int = 0
    num_bits: int = 0
    bursts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    rounds: Mapping[str, float] = field(default_factory=dict)
    link: Mapping[str, NDArray[np.float64 | np.int64]] = field(default_factory=dict)
    devices: Mapping[str, NDArray[np.float64 | np.int64]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """One finished (or failed) trial.

    - `metrics`: one number per name, over the whole trial;
    - `rounds`: one array `[num_rounds]` float64 per name; `active_cap` holds codes of `CAP_NAMES`; with a radio
      `airtime_s` is the latency of each round [s], `energy_j` the energy of all devices [J], and `elapsed_s` and
      `spent_j` are their sums up to and including the round;
    - `link`: arrays `[num_rounds, num_devices]` of the fields of `phy.measure.counts.LinkCounts` named in
      `LINK_COUNTS`, int64 or float64, and of `power_db` where devices adapt their power; empty where no
      device was detected on its own;
    - `privacy`: one array `[num_rounds]` float64 per name (`epsilon`, `delta_target`, `delta_spent`),
      empty without a privacy bound;
    - `bursts`: int64 arrays `[num_devices]` or `[num_devices, ...]`, the fields of `burstiness.Burstiness` summed
      over the rounds; empty where no payload of a device was compared;
    - `devices`: arrays `[num_rounds, num_devices]`, int64 or float64, of what learning and privacy know of each device
      (`probed_errors`, `flip_probability`, `end_errors`, `clipped_values`); NaN, or 0 for counts, of an absent device;
    - `pictures`: int64 greys 0 to 255 `[num_pictures, height, width, channels]`, `original` and `rebuilt`, of the first
      trial of an attack on images; empty elsewhere;
    - `account`: the ledger of what was released, None where nothing was;
    - `on_air`: see `OnAir`;
    - `failure`: why the trial ended early, None when it is whole. Rounds up to the failure are kept.
    """

    trial: int
    metrics: Mapping[str, float]
    rounds: Mapping[str, NDArray[np.float64]]
    link: Mapping[str, NDArray[np.float64 | np.int64]] = field(default_factory=dict)
    privacy: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    bursts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    devices: Mapping[str, NDArray[np.float64 | np.int64]] = field(default_factory=dict)
    pictures: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    account: PrivacyAccount | None = None
    on_air: OnAir = OnAir()
    failure: str | None = None
