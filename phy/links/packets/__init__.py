"""The packet link: coded packets over any front-end, with check sums, retransmissions and power control."""

from phy.links.packets.link import PacketLink

__all__ = ["PacketLink"]
