"""Packets of several devices on the same resources in fused kernels: power-domain NOMA."""
