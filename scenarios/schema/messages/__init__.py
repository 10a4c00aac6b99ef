"""Errors of a scenario in words: what is wrong, what is allowed, what was most likely meant."""
