"""Block error rates of a link over AWGN, measured once for every MCS and packet length.

Curves of codes are close to Q((SNR - m) / s) in dB, as the normal approximation of finite lengths suggests (Polyanskiy,
Poor and Verdu 2010). A first look over 9 dB finds m, a second one around it fits both by maximum likelihood. All draws
are fixed, so that the curve of a link is the same in every process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr, ndtri

from phy.config import ChannelConfig, LinkConfig, PacketConfig, PowerConfig
from phy.fading.block_taps import UplinkContext
from phy.links.adaptation.effective_snr import snr_of_information
from phy.numerics.random import Purpose, random_bits

if TYPE_CHECKING:
    from phy.links.packets.link import PacketLink


class LinkOf(Protocol):
    """Builds a packet link; see `phy.compile.packet_link`."""

    def __call__(
        self, config: LinkConfig, *, num_devices: int, num_bits: int, round_s: float | None = None
    ) -> PacketLink:
        """Return the link."""
        ...

    def __hash__(self) -> int:
        """Functions are kept apart by their identity."""
        ...


_SEED = 38214
_FIRST_DB = np.arange(-2.0, 7.1, 0.5)
"""Levels of the first look over the SNR at which mutual information reaches the code rate [dB]."""
_SECOND = np.linspace(-2.0, 2.0, 9)
"""Levels of the second look in standard deviations around the median."""
_BITS, _FEWEST, _MOST = 1 << 18, 24, 160
"""Bits that a level of the second look has, and limits of the packets that they make."""


@dataclass(frozen=True, kw_only=True)
class BlerCurve:
    """BLER(SNR) = Q((SNR - `median_db`) / `spread_db`), SNR Es/N0 [dB]; `error_db`: standard error of the median."""

    median_db: float
    spread_db: float
    error_db: float

    def bler(self, snr_db: NDArray[np.float64]) -> NDArray[np.float64]:
        """Block error rate at `snr_db`."""
        return np.asarray(ndtr((self.median_db - snr_db) / self.spread_db))

    def snr_db(self, bler: float) -> float:
        """Es/N0 at a block error rate [dB]."""
        return float(self.median_db - self.spread_db * ndtri(bler))


@lru_cache(maxsize=256)
def measured_curve(link: LinkConfig, *, packet_bits: int, link_of: LinkOf) -> BlerCurve:
    """Return the curve of packets of `packet_bits` over `link`, whose modulation and code are named."""
    alone = reference_link(link, packet_bits=packet_bits)
    packets = int(np.clip(_BITS // packet_bits, _FEWEST, _MOST))
    needed = np.array([alone.bits_per_symbol * alone.coding.rate]) if alone.coding != "none" else np.array([1.0])
    start_db = float(snr_of_information(alone.modulation, needed)[0])
    levels_db = start_db + _FIRST_DB
    wrong = count_wrong(alone, levels_db, packets // 4, packet_bits=packet_bits, link_of=link_of, look=0)
    median_db, spread_db, _ = _fit(levels_db, wrong, packets // 4)
    levels_db = median_db + spread_db * _SECOND
    wrong = count_wrong(alone, levels_db, packets, packet_bits=packet_bits, link_of=link_of, look=1)
    median_db, spread_db, error_db = _fit(levels_db, wrong, packets)
    return BlerCurve(median_db=median_db, spread_db=spread_db, error_db=error_db)


def reference_link(link: LinkConfig, *, packet_bits: int) -> LinkConfig:
    """Return the link over AWGN, without what makes no difference there: carriers and antennas of a known channel."""
    crc = link.packets.crc_name(packet_bits)
    update: dict[str, Any] = {
        "channel": ChannelConfig(model="awgn"),
        "power": PowerConfig(policy="fixed", snr_max_db=0.0),
        "packets": PacketConfig.model_validate({"crc": crc or "none"}),
        "packet_size_bytes": -(-packet_bits // 8),
        "multiplexing": "tdma",
    }
    if link.csi == "perfect" and link.impairments.none:
        update |= {"ofdm": "none", "receiver": link.receiver.model_copy(update={"num_antennas": 1})}
    return link.model_copy(update=update)


def count_wrong(
    alone: LinkConfig, levels_db: NDArray[np.float64], packets: int, *, packet_bits: int, link_of: LinkOf, look: int
) -> NDArray[np.int64]:
    """Packets in error at each level Es/N0, `[levels]`: each level is a device with a gain of its own."""
    # Noise of power 2 N0 in a complex symbol; gains of several antennas add up.
    gain = tuple(np.sqrt(2.0 * 10.0 ** (levels_db / 10.0) / alone.receiver.num_antennas).tolist())
    link = alone.model_copy(update={"channel": alone.channel.model_copy(update={"gain": gain})})
    uplink = link_of(link, num_devices=len(gain), num_bits=packets * packet_bits)
    context = UplinkContext(seed=_SEED, trials=(0,), round_index=look)
    payload = random_bits(context.keys(Purpose.PROBE_BITS), num_devices=len(gain), num_bits=uplink.num_bits)
    return np.asarray(uplink.send(payload, context=context, caps={}).counts.packet_errors[0])


def _fit(levels_db: NDArray[np.float64], wrong: NDArray[np.int64], packets: int) -> tuple[float, float, float]:
    """(m, s, standard error of m) of the largest likelihood."""

    def cost(parameters: NDArray[np.float64]) -> float:
        z = (levels_db - parameters[0]) / np.exp(parameters[1])
        # A small prior holds the slope where one level alone has some packets wrong and some right.
        return float(-(wrong * log_ndtr(-z) + (packets - wrong) * log_ndtr(z)).sum() + (parameters[1] + 1.2) ** 2)

    middle = levels_db[int(np.argmin(np.abs(wrong - packets / 2.0)))]
    found = minimize(cost, np.array([middle, np.log(0.3)]), method="Nelder-Mead", options={"xatol": 1e-4})
    median, log_spread = found.x
    step = np.array([0.1 * np.exp(log_spread), 0.0])
    curvature = (cost(found.x + step) - 2.0 * cost(found.x) + cost(found.x - step)) / step[0] ** 2
    return float(median), float(np.exp(log_spread)), float(max(curvature, 1e-12) ** -0.5)
