"""Computing tasks: batches, failures, limits, progress."""
