"""Privacy loss of a run: mechanisms, events, accountants and audits, in NumPy and SciPy; part of phyloop."""
