"""Flower apps over phyloop's radio: `AirGrid` takes the place of the grid of a ServerApp."""

from phyloop.flower.grid import LOST, AirGrid

__all__ = ["LOST", "AirGrid"]
