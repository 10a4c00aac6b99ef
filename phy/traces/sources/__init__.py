"""Channels that a class computes, one file each."""
