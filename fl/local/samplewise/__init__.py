"""Gradients of single samples: clipping, norms, dropout masks."""
