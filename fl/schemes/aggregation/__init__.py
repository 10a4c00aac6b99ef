"""From received updates to one update: weighted sums and robust aggregation."""
