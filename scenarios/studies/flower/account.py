"""Privacy account of a Flower app: its rounds as those of federated averaging, whose ledger counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from fl.accounting.fedavg import fedavg_account
from fl.learning.fedavg import FedAvgConfig
from fl.results import LINK_COUNTS, PrivacyAccount, TrialResult
from privacy.config import UploadPrivacy
from scenarios.schema.schema import Scenario
from scenarios.studies.flower.rounds import RoundOfClients

TRAINED = "the clients train as the settings say, which phyloop cannot see"


class AppConfig(FedAvgConfig):
    """Federated averaging in a Flower app; phyloop knows only the number of values that a client sends."""

    sums: ClassVar[bool] = False

    values_per_client: int | None
    """None: not known yet."""

    @classmethod
    def of(cls, learning: FedAvgConfig, **numbers: int | None) -> Self:
        """Return the settings of learning with `num_devices` and `values_per_client`."""
        written = {name: getattr(learning, name) for name in FedAvgConfig.model_fields}
        return cls(**{**written, **numbers}).resolved()

    def num_values(self) -> int | None:
        """See `FedAvgConfig.num_values`."""
        return self.values_per_client


def account_of(scenario: Scenario, rounds: Sequence[RoundOfClients]) -> PrivacyAccount | None:
    """Return the ledger of all transmissions, of models of the largest size; None if nothing was sent.

    The strategy draws the clients, so that no draw is counted towards privacy. Raises PrivacyError.
    """
    if not rounds:
        return None
    privacy, link = cast(UploadPrivacy | None, scenario.mechanism), scenario.link.resolve_digital()
    num_devices = 1 + max(int(one.columns["sender"].max()) for one in rounds)
    num_values = max(int(one.numbers["num_values"]) for one in rounds)
    app = AppConfig.of(
        cast(FedAvgConfig, scenario.learning), num_devices=num_devices, values_per_client=num_values
    ).settled(link=link, privacy=privacy)
    names = dict.fromkeys(name for one in rounds for name in one.columns)
    tables = {name: _by_sender(rounds, name, num_devices=num_devices) for name in names}
    numbers = {name: np.array([one.numbers.get(name, np.nan) for one in rounds]) for name in rounds[0].numbers}
    result = TrialResult(
        trial=0,
        metrics={},
        rounds={"train_loss": np.zeros(len(rounds)), **numbers},
        link={name: table for name, table in tables.items() if name in LINK_COUNTS},
        devices={name: table for name, table in tables.items() if name not in LINK_COUNTS},
    )
    account = fedavg_account(app, link=link, privacy=privacy, result=result)
    if account is None:
        return None
    trained = () if privacy is None or privacy.for_uploads is None else (TRAINED,)
    ledger = replace(account.ledger, sampled=None, assumptions=(*account.ledger.assumptions, *trained))
    return replace(account, ledger=ledger)


def _by_sender(rounds: Sequence[RoundOfClients], name: str, *, num_devices: int) -> NDArray[Any]:
    """One column of all rounds, `[num_rounds, num_devices]`; 0 for a count of who did not send, else NaN."""
    found = [one.columns.get(name) for one in rounds]
    kind = np.result_type(*(one.dtype for one in found if one is not None))
    table = np.full((len(rounds), num_devices), 0 if kind.kind in "iub" else np.nan, kind)
    for row, (one, values) in enumerate(zip(rounds, found, strict=True)):
        if values is not None:
            table[row, one.columns["sender"]] = values
    return table
