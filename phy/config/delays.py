"""Normalised delays and powers of the 3GPP models, and angles of clusters: TR 38.901 Tables 7.7.1-1 to 7.7.2-5.

`tr38901.json` keeps the order of the tables. Where a model has a direct path, the direct path is the first entry.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class DelayTable(NamedTuple):
    """Delays in units of the RMS delay spread and powers [dB], each `[n]`; `los`: the first entry is a direct path."""

    los: bool
    delays: NDArray[np.float64]
    powers_db: NDArray[np.float64]


class AngleTable(NamedTuple):
    """Azimuths of departure and arrival and zeniths of departure and arrival, in this order [deg].

    `degrees` `[4, n]` of clusters, `spreads` `[4]` of the rays of a cluster. Departure is at the server.
    """

    degrees: NDArray[np.float64]
    spreads: NDArray[np.float64]


@lru_cache(maxsize=1)
def _tables() -> dict[str, dict[str, Any]]:
    return dict(json.loads(files("phy.config").joinpath("tr38901.json").read_text()))


@lru_cache(maxsize=1)
def delay_tables() -> dict[str, DelayTable]:
    """Return the tables of `tdl-a` to `cdl-e`."""
    return {
        model: DelayTable(table["los"], np.array(table["delays"], float), np.array(table["powers_db"], float))
        for model, table in _tables().items()
    }


@lru_cache(maxsize=1)
def angle_tables() -> dict[str, AngleTable]:
    """Return the angles of `cdl-a` to `cdl-e`."""
    kinds = ("aod_deg", "aoa_deg", "zod_deg", "zoa_deg")
    return {
        model: AngleTable(np.array([table[kind] for kind in kinds], float), np.array(table["spreads_deg"], float))
        for model, table in _tables().items()
        if model.startswith("cdl")
    }


def power_delay_profile(model: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(delays in units of the RMS delay spread, mean powers of sum 1) of `tdl-a` to `cdl-e`, each `[num_paths]`."""
    table = delay_tables()[model]
    powers = 10.0 ** (table.powers_db / 10.0)
    return table.delays, powers / powers.sum()


def line_of_sight_k(model: str) -> float:
    """Rician K (linear) of `tdl-a` to `cdl-e` at one carrier: power of the fixed path over all others, or 0."""
    if not delay_tables()[model].los:
        return 0.0
    _, powers = power_delay_profile(model)
    return float(powers[0] / (1.0 - powers[0]))


def interference_share(
    delays_s: NDArray[np.float64], powers: NDArray[np.float64], *, prefix_s: float, useful_s: float
) -> float:
    """Interference power over total power that paths beyond the prefix cause on an OFDM symbol.

    A path that comes e = tau - T_cp > 0 too late loses the share e / T of its own symbol's window, which holds the
    previous symbol instead: with x = min(e / T, 1) it adds p (1 - (1 - x)^2) of interference between symbols and
    carriers (Steendam and Moeneclaey, "Analysis and optimization of the performance of OFDM on frequency-selective
    time-selective fading channels", IEEE Trans. Commun. 1999).
    """
    late = np.clip((delays_s - prefix_s) / useful_s, 0.0, 1.0)
    return float((powers * (1.0 - (1.0 - late) ** 2)).sum())
