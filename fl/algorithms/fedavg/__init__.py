"""Federated averaging."""

from fl.algorithms.fedavg.config import FedAvgConfig

__all__ = ["FedAvgConfig"]
