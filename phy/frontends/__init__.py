"""Front-ends: waveform, channel, noise and channel estimation (`phy.stages.Frontend`)."""

from phy.frontends.build import build_frontend

__all__ = ["build_frontend"]
