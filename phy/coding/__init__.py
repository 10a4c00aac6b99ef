"""Channel coding of packets: CRC, segmentation, codes of Sionna and 3GPP, interleaving."""

from phy.coding.packet import PacketCodec, build_codec
from phy.coding.plan import PacketPlan, coding_problem, plan_packet

__all__ = ["PacketCodec", "PacketPlan", "build_codec", "coding_problem", "plan_packet"]
