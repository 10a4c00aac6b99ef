"""Results of one trial of one sweep point: plain values, ready to be stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F64, I64
from privacy.events.claims import Claim
from privacy.events.events import Ledger

CAP_NAMES: tuple[str, ...] = ("none", "power", "lmc", "privacy", "budget")
"""Word of each `active_cap` code: which limit held the amplitude down (0 is none)."""

LINK_COUNTS = (
    *("bits", "bit_errors", "packets", "packet_errors", "dropped", "retransmissions", "raw_bits", "raw_bit_errors"),
    *("airtime_s", "energy_j", "snr_db"),
)
"""Counts of the link that are kept for each round and device."""


@dataclass(frozen=True, kw_only=True)
class PrivacyAccount:
    """Ledger of what a trial released, and the claims that the paper of its scheme makes for it."""

    ledger: Ledger
    published: tuple[Claim, ...] = ()


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
    - `bursts`: int64 arrays `[num_devices, ...]`, the fields of `burstiness.Burstiness` summed over the rounds;
    - `devices`: arrays `[num_rounds, num_devices]`, int64 or float64, of numbers that learning and privacy report
      (`probed_errors`, `flip_probability`, `end_errors`, `clipped_values`); NaN, or 0 for counts, of an absent device;
    - `pictures`: int64 greys 0 to 255 `[num_pictures, height, width, channels]`, `original` and `rebuilt`, of the first
      trial of an attack on images; empty elsewhere;
    - `account`: the ledger of what was released, None where nothing was;
    - `failure`: the reason why the trial ended early, None if it is complete. Rounds before the failure are kept.
    """

    trial: int
    metrics: Mapping[str, float]
    rounds: Mapping[str, F64]
    link: Mapping[str, NDArray[np.float64 | np.int64]] = field(default_factory=dict)
    privacy: Mapping[str, F64] = field(default_factory=dict)
    bursts: Mapping[str, I64] = field(default_factory=dict)
    devices: Mapping[str, NDArray[np.float64 | np.int64]] = field(default_factory=dict)
    pictures: Mapping[str, I64] = field(default_factory=dict)
    account: PrivacyAccount | None = None
    failure: str | None = None
