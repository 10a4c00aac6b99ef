"""Sweep points, tasks and their identity."""
