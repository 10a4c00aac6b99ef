"""Learning over a measured radio: part of phyloop."""

import os

# The gradient of a clipped convolution is a dilated one, which oneDNN has and TensorFlow's own kernels for CPUs lack.
# TensorFlow leaves oneDNN out by itself where there is no AVX-512; it looks when it is imported, which is later.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
