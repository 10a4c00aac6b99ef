"""Attacks of devices, which `fl.config.attack.attacks` finds by their words."""
