"""Contracts: what every class of a registry keeps. Each function of `CHECKS` takes a thing and asserts one sentence."""
