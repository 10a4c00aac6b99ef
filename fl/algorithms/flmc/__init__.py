"""Federated Langevin Monte Carlo."""

from fl.algorithms.flmc.config import FlmcConfig

__all__ = ["FlmcConfig"]
