"""The engines that compute a link: Sionna under XLA, fused kernels on a CPU, and a few of them on a GPU."""
