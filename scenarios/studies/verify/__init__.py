"""`phyloop verify`: cards, each a scenario with a known answer and its source, measured and judged."""
