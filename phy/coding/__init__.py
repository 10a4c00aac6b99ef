"""Channel coding of packets: CRC, segmentation, codes of Sionna and 3GPP, interleaving."""
