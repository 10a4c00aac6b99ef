"""Aggregation schemes that send about one bit per number, and their rivals."""
