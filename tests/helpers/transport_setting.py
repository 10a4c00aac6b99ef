"""A link of a chosen bit error rate, for tests of the transport of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext

CONTEXT = UplinkContext(seed=3, trials=(0,), round_index=2)


def link(rate: float | None, *, probe_bits: int = 200_000, **changes: Any) -> LinkConfig:
    """QPSK over AWGN with this bit error rate, Q(sqrt(P0 / (2 N0))), or no radio."""
    if rate is None:
        return LinkConfig.model_validate({"error_model": "error_free", **changes}).resolve_digital()
    snr_max_db = 10.0 * np.log10(2.0 * ndtri(rate) ** 2)
    power = {"policy": "fixed", "snr_max_db": float(snr_max_db)}
    return LinkConfig.model_validate({"power": power, "probe_bits": probe_bits, **changes}).resolve_digital()
