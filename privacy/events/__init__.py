"""Releases of every round and their sum: events, the ledger of a run, and the claims made from it."""
