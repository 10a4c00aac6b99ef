"""Exact privacy of amplitudes that superpose over the air."""
