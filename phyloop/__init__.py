"""phyloop in Python."""
