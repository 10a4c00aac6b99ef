"""Kinds of known answers: one class each, found by its `kind`."""
