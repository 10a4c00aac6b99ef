"""Front-ends: from the symbols of a packet to what the receiver has of it (`phy.links.stages.Frontend`)."""

from phy.frontends.build import build_frontend

__all__ = ["build_frontend"]
