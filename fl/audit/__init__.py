"""The neighbouring-data game, played against what the server receives over the simulated link.

Games are batched, each with keys of its own; one of two neighbouring worlds is drawn for each, encoded, protected and
sent by the functions that learning itself uses, and an attacker scores what arrived. What the scores prove is the
business of `privacy.audit`.
"""
