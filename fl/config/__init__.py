"""Parts of the `learning:` section of a scenario, checked once, immutable, free of TensorFlow."""
