"""`phyloop audit`: lower bounds on epsilon by attack, beside what is claimed, for every point of a scenario."""
