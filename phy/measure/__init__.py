"""Counts of errors, their intervals, stopping rules, burst statistics and closed forms."""
