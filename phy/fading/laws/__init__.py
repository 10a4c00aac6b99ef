"""Fading laws, one module each."""
