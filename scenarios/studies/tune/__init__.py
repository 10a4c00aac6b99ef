"""A search for the values of keys: `phyloop tune`."""
