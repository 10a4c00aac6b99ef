"""Path gains inside kernels: tapped and clustered delay lines in motion, and interpolation in time."""
