"""Upper bounds on epsilon that a game is compared with."""
