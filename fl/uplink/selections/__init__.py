"""Selections of the devices of a round."""
