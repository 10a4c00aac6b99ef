"""Flower apps over phyloop's radio: `AirGrid` takes the place of the grid of a ServerApp."""

from phyloop.flower.directions import NOT_FINITE
from phyloop.flower.grid import LOST, UNKNOWN, AirGrid

__all__ = ["LOST", "NOT_FINITE", "UNKNOWN", "AirGrid"]
