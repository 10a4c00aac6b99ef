"""Learning over a measured radio."""
