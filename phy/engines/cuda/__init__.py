"""Links on a GPU by CUDA: the numbers and decisions of the fused kernels once more."""
