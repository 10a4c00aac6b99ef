"""Channels that were measured, recorded or traced: files, checks, and which snapshot a packet meets."""
