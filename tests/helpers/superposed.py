"""Uplink of updates that add up in the air, without training."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.upload import upload_plan
from fl.attacks.attacks import Attackers
from fl.base.recorder import Recorder
from fl.schemes.coders.coder import Senders
from fl.uplink.air import SuperposedUplink
from fl.uplink.protection import Protection
from fl.uplink.senders import SenderIndex
from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext

SIGN = {"name": "sign", "epsilon": "none", "step": 1.0}
PROBIT = {"name": "probit", "channel": "agnostic", "b": 0.05}


class Air:
    """An uplink of `num_values` numbers of `num_devices` devices, and what its rounds reported."""

    def __init__(
        self,
        aggregation: Any,
        *,
        num_devices: int,
        num_values: int,
        rounds: int = 9,
        learning: Any = None,
        privacy: Any = None,
        **link: Any,
    ) -> None:
        self.config = FedAvgConfig.model_validate(
            {"num_devices": num_devices, "rounds": rounds, "aggregation": aggregation, **(learning or {})}
        )
        on_air = LinkConfig.model_validate({"access": "superposition", **link})
        modulation = self.config.aggregation.air_modulations[0]
        self.link = on_air.resolve(access="superposition", modulation=modulation)
        plan = upload_plan(self.config)
        self.index = SenderIndex(plan, link=self.link)
        self.attackers = Attackers.drawn(self.config.attack, num_devices=num_devices, seed=1, trial=0)
        self.num_values, self.record = num_values, Recorder(rounds, num_devices=num_devices)
        self.uplink = SuperposedUplink(
            plan,
            link=self.link,
            num_values=num_values,
            index=self.index,
            protection=Protection(),
            attackers=self.attackers,
            privacy=privacy,
        )

    def send(
        self,
        updates: NDArray[np.float32],
        *,
        senders: Any = None,
        weights: Any = None,
        round_index: int = 0,
        seed: int = 1,
    ) -> NDArray[np.float32]:
        who = np.arange(len(updates)) if senders is None else np.asarray(senders)
        silent, ones = self.index.unused(who), np.ones(len(who))
        found = self.uplink.send(
            iter([updates]),
            Senders(
                devices=who,
                context=UplinkContext(seed=seed, trials=(0,), round_index=round_index, silent=silent),
                weights=ones if weights is None else np.asarray(weights, float),
                factor=ones,
            ),
            otherwise=np.full(self.num_values, -7.0, np.float32),
            record=self.record,
        )
        self.record.finish(round_index)
        return found

    def last(self, name: str, table: Any = "rounds") -> Any:
        return self.record.of_trial(table)[name][-1]


def updates_of(num_devices: int, num_values: int, size: float = 0.01) -> NDArray[np.float32]:
    return np.random.default_rng(7).uniform(-size, size, (num_devices, num_values)).astype(np.float32)
