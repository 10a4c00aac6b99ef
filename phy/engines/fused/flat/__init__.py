"""Fused kernels of uncoded links and of superposition over flat channels."""
