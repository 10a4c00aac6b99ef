"""Counter-based random numbers, compiled kernels, and work in parts of bounded size."""
