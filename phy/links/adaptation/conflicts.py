"""Conflicts of an MCS for each device, and of link adaptation, with the rest of a link."""

from __future__ import annotations

from collections.abc import Iterator

from phy.config import LinkConfig
from phy.config.conflict import Conflict, Say, Write
from phy.config.mcs import McsAdaptation, entries_of, is_by_device

_OWN = "an mcs for each device"


def mcs_conflicts(link: LinkConfig, *, num_devices: int) -> Iterator[Conflict]:
    """Yield every conflict of `mcs` where it is a list or an adaptation; access is not superposition."""
    mcs = link.mcs
    if not is_by_device(link.mcs):
        return
    single = Write({"mcs": entries_of(link.mcs)[0].number}, example=True)
    if isinstance(mcs, tuple) and len(mcs) != num_devices:
        problem = f"mcs has length {len(mcs)}, num_devices is {num_devices}"
        yield Conflict("mcs", problem, Write({"num_devices": len(mcs)}), Say("one MCS for all"))
        return
    if link.access == "noma":
        problem = f"{_OWN} is not built for noma, whose devices share symbols of one constellation"
        yield Conflict("mcs access", problem, single, Write({"access": "orthogonal"}))
        return
    if link.error_model != "measured":
        problem = f"{_OWN} needs measured errors, the error_model is {link.error_model}"
        yield Conflict("mcs error_model", problem, single, Write({"error_model": "measured"}))
    if not link.control.constant:
        problem = f"{_OWN} is built for constant power, the power policy is {link.control.name}"
        yield Conflict("mcs power.policy", problem, single, Write({"power.policy": "fixed"}))
    if isinstance(mcs, McsAdaptation) and mcs.adapt != "genie":
        yield from _adaptation(link, mcs)


def _adaptation(link: LinkConfig, mcs: McsAdaptation) -> Iterator[Conflict]:
    """What an adaptation by SNR has to know before a round, and an outer loop after it."""
    said, channel, packets = f"adapt {mcs.adapt}", link.channel, link.packets
    changes = channel.fades or channel.selective or channel.traced
    if channel.coherence in ("symbol", "packet") and changes:
        problem = f"{said} probes the channel of a round, and coherence {channel.coherence} draws a new one within it"
        yield Conflict("mcs.adapt channel.coherence", problem, Write({"channel.coherence": "round"}))
    if link.engine in ("sionna", "cuda") or not link.fusible_packets:
        problem = f"{said} reads the carriers of the channel in fused kernels, which do not carry this link"
        yield Conflict(
            "mcs.adapt engine coding csi", problem, Write({"engine": "auto"}), Say("a code and receiver of fused")
        )
    if mcs.adapt != "outer-loop":
        return
    if packets.policy == "accept" and packets.crc in ("auto", "none"):
        problem = "adapt outer-loop follows packets whose CRC fails, and packets have no CRC"
        yield Conflict("mcs.adapt packets.policy packets.crc", problem, Write({"packets.policy": "drop"}))
    elif packets.policy.startswith("retransmit"):
        problem = f"adapt outer-loop counts first attempts, which policy {packets.policy} does not report"
        yield Conflict(
            "mcs.adapt packets.policy", problem, Write({"packets.policy": "drop"}), Write({"mcs.adapt": "snr"})
        )
