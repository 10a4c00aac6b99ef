"""Links: orthogonal access, superposition, NOMA, packets, power control and error models."""
