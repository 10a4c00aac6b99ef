"""Superposition over OFDM: every resource element is a sum of all devices."""
