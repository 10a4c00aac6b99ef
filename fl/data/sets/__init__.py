"""Sets of images, one module each."""
