"""Samples in files of the user: tables, arrays, and federated collections with their owners."""
