"""Federated algorithms, built from a task, a codec, an uplink and an aggregator."""
