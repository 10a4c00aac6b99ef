"""What every round of every scheme released: from a configuration and what was recorded of a trial to its ledger."""

from __future__ import annotations

from collections.abc import Sequence

from fl.accounting.ledger_fedavg import with_the_last_round
from fl.config.learning import Learning
from fl.results import PrivacyAccount, TrialResult
from phy.config import LinkConfig
from privacy.config import AnyPrivacyConfig


def accounts_of(
    learning: Learning, *, link: LinkConfig, privacy: AnyPrivacyConfig | None, results: Sequence[TrialResult]
) -> list[PrivacyAccount | None]:
    """Return what every trial released; trials side by side that released the same share one account.

    Failed trials have an account too, of the round as well in which they failed, if they had sent by then.
    """
    accounts: list[PrivacyAccount | None] = []
    before: TrialResult | None = None
    for result in results:
        if before is not None and learning.side_by_side and _same_amplitudes(result, before):
            accounts.append(accounts[-1])
        else:
            accounts.append(learning.account(with_the_last_round(result), link=link, privacy=privacy))
        before = result
    return accounts


def _same_amplitudes(one: TrialResult, other: TrialResult) -> bool:
    """Whether two trials share all that an account of FLMC is made of."""
    if one.on_air.rounds or other.on_air.rounds:
        return False
    same_peaks = one.rounds.get("peak_amplitude") is other.rounds.get("peak_amplitude")
    return same_peaks and one.privacy.get("delta_spent") is other.privacy.get("delta_spent")
