"""Small-scale and large-scale fading between a device and the server's antennas."""
