"""Fused kernels that encode and decode turbo codes."""
