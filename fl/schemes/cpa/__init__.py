"""Compressed private aggregation (CPA), Lang et al. 2023."""
