"""Privacy claims of a run, gathered from its ledgers."""
