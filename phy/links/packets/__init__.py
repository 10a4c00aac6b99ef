"""Packet links: coded packets over any front-end, with CRC, retransmissions and power control."""
