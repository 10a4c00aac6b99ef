"""Receivers of the server: observations in, soft bits and payloads of every user on a resource out.

Every detector describes a symbol by two numbers (`SoftSymbols`): its signal-to-noise ratio and the matched-filter
output that goes with it. A silent user has both zero, and nothing is ever divided by its channel.
"""
