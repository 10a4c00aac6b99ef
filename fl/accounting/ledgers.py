"""What every round of every scheme released: from a configuration and what was recorded of a trial to its ledger."""

from __future__ import annotations

from collections.abc import Sequence

from fl.accounting.ledger_fedavg import fedavg_account
from fl.accounting.ledger_flmc import flmc_account
from fl.accounting.ledger_reconstruction import reconstruction_account
from fl.accounting.ledger_sent import with_the_last_round
from fl.config import BitDistanceConfig, FedAvgConfig, FlipMomentsConfig, FlmcConfig, ReconstructionConfig
from fl.results import PrivacyAccount, TrialResult
from phy.config import LinkConfig
from privacy.config import AmplitudeBudget, AnyPrivacyConfig, BitFlippingConfig, GaussianConfig, PrivacyConfig

Learning = FlmcConfig | FedAvgConfig | FlipMomentsConfig | BitDistanceConfig | ReconstructionConfig


def accounts_of(
    learning: Learning, *, link: LinkConfig, privacy: AnyPrivacyConfig | None, results: Sequence[TrialResult]
) -> list[PrivacyAccount | None]:
    """`account_of` every trial; trials of FLMC that released the same have one account together."""
    accounts: list[PrivacyAccount | None] = []
    before: TrialResult | None = None
    for result in results:
        if before is not None and isinstance(learning, FlmcConfig) and _same_amplitudes(result, before):
            accounts.append(accounts[-1])
        else:
            accounts.append(account_of(learning, link=link, privacy=privacy, result=result))
        before = result
    return accounts


def _same_amplitudes(one: TrialResult, other: TrialResult) -> bool:
    """Whether two trials share all that an account of FLMC is made of."""
    if one.on_air.rounds or other.on_air.rounds:
        return False
    same_peaks = one.rounds.get("peak_amplitude") is other.rounds.get("peak_amplitude")
    return same_peaks and one.privacy.get("delta_spent") is other.privacy.get("delta_spent")


def account_of(
    learning: Learning,
    *,
    link: LinkConfig,
    privacy: AnyPrivacyConfig | None,
    result: TrialResult,
) -> PrivacyAccount | None:
    """What a trial released, from what was recorded of it. None: nothing was sent.

    Failed trials have an account too, of the round as well in which they failed, if they had sent by then.

    Pure arithmetic on the records: neither data nor a radio is touched.
    """
    result = with_the_last_round(result)
    if isinstance(learning, FlmcConfig):
        bound = privacy if isinstance(privacy, PrivacyConfig | AmplitudeBudget) else None
        return flmc_account(learning, link=link, privacy=bound, rounds=result.rounds, spent=result.privacy)
    if isinstance(learning, FedAvgConfig):
        mechanism = None if isinstance(privacy, PrivacyConfig | AmplitudeBudget) else privacy
        return fedavg_account(learning, link=link, privacy=mechanism, result=result)
    if isinstance(learning, ReconstructionConfig):
        plain = privacy if isinstance(privacy, BitFlippingConfig | GaussianConfig) else None
        return reconstruction_account(learning, link=link, privacy=plain, result=result)
    return None
