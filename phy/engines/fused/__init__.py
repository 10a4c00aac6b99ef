"""Fused kernels: hot chains of `phy` in one pass on a CPU, compiled by numba when first used."""
