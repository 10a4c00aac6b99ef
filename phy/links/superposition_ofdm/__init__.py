"""Superposition over OFDM: every resource element is a sum of all devices."""

from phy.links.superposition_ofdm.link import OfdmSuperposition

__all__ = ["OfdmSuperposition"]
