"""Chains over flat channels in Sionna's blocks under XLA."""
