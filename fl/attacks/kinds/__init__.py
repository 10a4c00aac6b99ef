"""Attacks of devices, which `fl.attacks.attack.attacks` finds by their words."""
