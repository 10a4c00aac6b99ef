"""Membership games against each scheme."""
