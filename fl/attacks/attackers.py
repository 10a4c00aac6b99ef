"""The attackers of one trial, each acting where its kind acts: on labels, on updates, or on bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fl.attacks.attacks import attack_bits, attack_updates, choose_attackers, poison_labels
from fl.config.attack import Attack
from fl.data.arrays import ImageData
from fl.partition.split import Partition
from fl.tasks.base import LearningError
from phy.fading.block_taps import UplinkContext


class Attackers:
    """Nobody, or the devices that `config` names, the same for the whole trial.

    Raises LearningError for attackers that cannot be, and for jamming, which has nothing to act on where every device
    is detected on its own.
    """

    def __init__(self, config: Attack | None, *, num_devices: int, seed: int, trial: int) -> None:
        self._config = config
        self.who = np.zeros(num_devices, bool)
        if config is None:
            return
        if config.acts_on == "air":
            raise LearningError(
                "a jammer acts on symbols that add up in the air, and federated averaging detects every device on its "
                "own; choose another attack.kind"
            )
        self.who = choose_attackers(config, num_devices=num_devices, seed=seed, trial=trial)

    @property
    def meet(self) -> bool:
        """Whether what an attacker sends depends on what others would send."""
        return self._config is not None and self._config.uses_honest_updates

    def labels(self, data: ImageData, held: Partition) -> ImageData:
        """The images with the labels that devices train on."""
        if self._config is None:
            return data
        poisoned = poison_labels(
            self._config, data.y_train, samples=held.devices, attackers=self.who, num_classes=data.num_classes
        )
        return replace(data, y_train=poisoned)

    def updates(
        self, numbers: NDArray[np.float32], *, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.float32]:
        """What `devices` `[S]` send in place of `numbers` `[S, M]`."""
        if self._config is None:
            return numbers
        return attack_updates(self._config, numbers, attackers=self.who[devices], devices=devices, context=context)

    def bits(
        self, payload: NDArray[np.uint8], *, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """A `fl.uplink.uplink.DeviceAttack`, after privacy."""
        if self._config is None:
            return payload
        return attack_bits(
            self._config,
            payload,
            attackers=self.who[devices],
            devices=devices,
            num_bits=8 * payload.shape[-1],
            context=context,
        )

    def told(self, senders: NDArray[np.int64]) -> dict[str, float]:
        """How many of those who sent attack; nothing where nobody was asked to."""
        return {} if self._config is None else {"num_attackers": float(self.who[senders].sum())}
