"""Words that a scenario may write: their meanings, and `phyloop show`."""
