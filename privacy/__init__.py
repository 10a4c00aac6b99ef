"""What each round leaks: pure NumPy and SciPy."""
