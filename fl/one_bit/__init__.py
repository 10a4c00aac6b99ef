"""Schemes that send about one bit per number, and what they are compared with."""
