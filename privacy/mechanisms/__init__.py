"""Privacy mechanisms and the privacy loss of one round of each."""
