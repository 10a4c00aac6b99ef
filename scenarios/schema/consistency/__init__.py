"""Conflicts and warnings about combinations of keys that are each valid, and the values of `auto`."""
