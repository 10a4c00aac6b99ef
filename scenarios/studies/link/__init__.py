"""`phyloop link`: error rates of a link over its signal-to-noise ratio, without learning."""
