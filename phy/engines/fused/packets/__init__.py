"""Fused kernels of packets over flat channels and OFDM."""
