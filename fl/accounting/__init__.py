"""Ledgers: what each round released. Budgets: what each round may still release."""
