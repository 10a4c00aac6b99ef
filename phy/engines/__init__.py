"""The two engines that compute a link: Sionna under XLA, and fused kernels on a CPU."""
