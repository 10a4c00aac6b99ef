"""The axes of a link study: from Eb/N0, Es/N0 or received SNR to the transmit power that gives it, and back."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10

import numpy as np

from phy.config import BITS_PER_SYMBOL, LinkConfig
from scenarios.schema.schema import Axis

PLAIN_LABELS: dict[Axis, str] = {"ebno_db": "Eb/N0 [dB]", "esno_db": "Es/N0 [dB]", "snr_db": "SNR [dB]"}

MEANINGS: dict[Axis, str] = {
    "ebno_db": "received energy per payload bit at one antenna over the complex noise power, "
    "Es/N0 / (bits per symbol x code rate)",
    "esno_db": "mean received energy per data symbol at one antenna over the complex noise power",
    "snr_db": "received SNR over all antennas, Es/N0 x number of antennas",
}


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Factors between the axes of one link, all linear.

    - `mean_gain`: mean of gain^2 over devices; `bits_per_symbol`, `code_rate`: payload bits per symbol are their
      product; `num_antennas` of the receiver.
    """

    mean_gain: float
    bits_per_symbol: int
    code_rate: float
    num_antennas: int

    @classmethod
    def of(cls, link: LinkConfig, *, num_devices: int) -> Budget:
        """The budget of a link whose modulation is named (also by `mcs`)."""
        link = link.resolve_mcs()
        return cls(
            mean_gain=float(np.mean(np.square(link.channel.gains(num_devices)))),
            bits_per_symbol=BITS_PER_SYMBOL[link.modulation],
            code_rate=1.0 if link.coding == "none" else link.coding.rate,
            num_antennas=link.receiver.num_antennas,
        )

    def esno_db(self, value_db: float, over: Axis) -> float:
        """Es/N0 at one antenna at `value_db` on the axis `over` [dB]."""
        if over == "ebno_db":
            return value_db + 10.0 * log10(self.bits_per_symbol * self.code_rate)
        return value_db - 10.0 * log10(self.num_antennas) if over == "snr_db" else value_db

    def value_db(self, esno_db: float, over: Axis) -> float:
        """The inverse of `esno_db`."""
        return esno_db - self.esno_db(0.0, over)

    def snr_max_db(self, value_db: float, over: Axis) -> float:
        """`link.power.snr_max_db` = P0 / N0 such that mean gain^2 P0 / (2 N0) is Es/N0 [dB]."""
        return self.esno_db(value_db, over) + 10.0 * log10(2.0 / self.mean_gain)


def at_level(link: LinkConfig, *, snr_max_db: float) -> LinkConfig:
    """The same link with another transmit power."""
    power = link.power.model_copy(update={"snr_max_db": snr_max_db})
    return link.model_copy(update={"power": power})
