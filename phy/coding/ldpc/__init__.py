"""Fused kernels that encode and decode 5G LDPC codes."""
