"""Devices that attack learning, and attacks of a listener on privacy."""
