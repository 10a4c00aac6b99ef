"""Links and what they measured in words, for the `repr` of objects."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config import LinkConfig
from phy.links.budget import levels_in_words


def in_words(config: LinkConfig) -> str:
    """Modulation, code, channel and power of a link, `16qam, ldpc5g at rate 0.5, channel rayleigh, power fixed, 12 dB`.

    Without a code there is no word about it.
    """
    config = config.resolve_mcs()
    channel, coding = config.channel, config.coding
    code = "" if coding == "none" else f"{coding.code} at rate {coding.rate:.3g}, "
    model = channel.law.name if channel.model in ("awgn", "flat") else channel.model
    return f"{config.modulation}, {code}channel {model}, power {config.control.name}, {levels_in_words(config)}"


def span(values: NDArray[Any]) -> str:
    """Smallest and largest value, `1.52 to 1.71`."""
    known = values[np.isfinite(values)]
    if not len(known):
        return "unknown"
    low, high = f"{known.min():.4g}", f"{known.max():.4g}"
    return low if low == high else f"{low} to {high}"
