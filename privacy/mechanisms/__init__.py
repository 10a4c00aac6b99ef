"""Privacy mechanisms and what one round of each releases."""
