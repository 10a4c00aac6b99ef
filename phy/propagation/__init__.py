"""Small-scale fading between a device and the server's antennas: flat, tapped and clustered delay lines."""

from phy.propagation.build import build_propagation
from phy.propagation.correlation import frequency_correlation

__all__ = ["build_propagation", "frequency_correlation"]
