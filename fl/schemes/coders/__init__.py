"""Coders: from updates to bits and from received bits to one update."""
