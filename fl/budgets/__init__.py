"""Budgets for a whole run: what rounds release at most, what that leaves for each, and who may still send."""
