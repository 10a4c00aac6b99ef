"""Composition of the events of a ledger: the dominating device, the accountants and their claims."""

from privacy.accounting.accountants import ACCOUNTANTS, account, refusal, spent_delta
from privacy.accounting.claiming import account_claims, claims, refusals
from privacy.accounting.spending import combined, spendings
from privacy.events.kinds import event_of

__all__ = [
    "ACCOUNTANTS",
    "account",
    "account_claims",
    "claims",
    "combined",
    "event_of",
    "refusal",
    "refusals",
    "spendings",
    "spent_delta",
]
