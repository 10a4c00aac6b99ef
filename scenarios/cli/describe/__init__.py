"""Text of `phyloop check`."""
