"""5G polar codes: construction, a list decoder in kernels, and one in TensorFlow."""
