"""PRoBit: one stochastic bit per number, aggregated by maximum likelihood."""
