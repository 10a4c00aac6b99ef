"""Tables of a run, on the page and as CSV files."""
