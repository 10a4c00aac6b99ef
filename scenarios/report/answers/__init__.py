"""The answer of a run: who is best where, by how much, and at which privacy."""
