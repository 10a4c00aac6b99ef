"""What an attack on single uploads was played against: every upload a release of its own, none added to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.accounting.ledger_fedavg import fedavg_account
from fl.config import ProbitScheme, ReconstructionConfig
from fl.footprint import dimension
from fl.results import PrivacyAccount, TrialResult
from fl.schemes.probit.probit import first_bound
from phy.config import LinkConfig
from privacy.config import BitFlippingConfig, GaussianConfig

ONE_UPLOAD = "every upload is that of a first round, with images drawn anew: uploads are not added up"


def reconstruction_account(
    config: ReconstructionConfig,
    *,
    link: LinkConfig,
    privacy: BitFlippingConfig | GaussianConfig | None,
    result: TrialResult,
) -> PrivacyAccount | None:
    """The ledger of one round in which every upload of the trial is a device, `[1, num_rounds num_devices]`.

    None where no upload was heard.
    """
    counts = result.link.get("bits")
    if counts is None or not len(counts):
        return None
    scheme, rounds = config.aggregation, {"train_loss": np.zeros(1)}
    if isinstance(scheme, ProbitScheme):
        rounds["b"] = np.array([first_bound(scheme, num_values=dimension(config))])
    uploads = replace(result, rounds=rounds, link=_side_by_side(result.link), devices=_side_by_side(result.devices))
    found = fedavg_account(config.one_round, link=link, privacy=privacy, result=uploads)
    if found is None:
        return None
    ledger = replace(found.ledger, assumptions=(*found.ledger.assumptions, ONE_UPLOAD))
    return replace(found, ledger=ledger)


def _side_by_side(columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Columns `[num_rounds, num_devices]` as one row."""
    return {name: np.asarray(values).reshape(1, -1) for name, values in columns.items()}
