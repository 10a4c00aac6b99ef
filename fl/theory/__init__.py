"""Convergence bounds, and the optimum of softmax regression."""
