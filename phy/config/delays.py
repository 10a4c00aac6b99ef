"""Normalised delays and powers of the 3GPP models, read from Sionna's tables without importing Sionna.

TR 38.901 Tables 7.7.1-1 to 7.7.2-5. `check` needs them to warn of a short prefix.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def power_delay_profile(model: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(delays in units of the RMS delay spread, mean powers of sum 1) of `tdl-a` to `cdl-e`, each `[num_paths]`."""
    table = _table(model)
    powers = 10.0 ** (np.asarray(table["powers"], float) / 10.0)
    return np.asarray(table["delays"], float), powers / powers.sum()


def line_of_sight_k(model: str) -> float:
    """Rician K (linear) of `tdl-a` to `cdl-e` at one carrier: power of the fixed path over all others, or 0."""
    if not _table(model)["los"]:
        return 0.0
    _, powers = power_delay_profile(model)
    return float(powers[0] / (1.0 - powers[0]))


@lru_cache(maxsize=16)
def _table(model: str) -> dict[str, Any]:
    spec = find_spec("sionna")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("sionna is not installed; install sionna-no-rt==1.2.2")
    name = f"{model[:3].upper()}-{model[-1].upper()}.json"
    folder = Path(spec.submodule_search_locations[0]) / "phy" / "channel" / "tr38901" / "models"
    return dict(json.loads((folder / name).read_text()))


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
