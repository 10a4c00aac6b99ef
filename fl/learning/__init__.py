"""Learning algorithms as the user writes them, one class each, registered by name."""
