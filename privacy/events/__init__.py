"""What every round released, and what that adds up to: events, the ledger of a run, and the claims made from it."""
