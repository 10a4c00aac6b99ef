"""Who trains and who is heard in a round: partial participation, dropped devices, stragglers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl.config.data import ParticipationConfig
from fl.draws import round_generator
from phy.numerics.random import Purpose


@dataclass(frozen=True, kw_only=True)
class Participants:
    """The devices of one round.

    - `devices` int64 `[K']`: who trains, ascending;
    - `sends` bool `[K']`: who of them uploads in the end;
    - `steps` int64 `[K']`: local iterations that each gets through.
    """

    devices: NDArray[np.int64]
    sends: NDArray[np.bool_]
    steps: NDArray[np.int64]


def draw_participants(
    config: ParticipationConfig, *, num_devices: int, steps: int, seed: int, trial: int, round_index: int
) -> Participants:
    """Who takes part in round `round_index`; E = `steps` for all but stragglers, who get 1 .. E - 1 of them.

    Every draw is made for all devices, so that another probability of one thing does not shift the others.
    """
    if (config.devices_per_round or num_devices) >= num_devices and not (config.dropout or config.straggling):
        everybody = np.arange(num_devices)
        return Participants(
            devices=everybody, sends=np.ones(num_devices, np.bool_), steps=np.full(num_devices, steps, np.int64)
        )
    drawn = round_generator(seed, trial, Purpose.PARTICIPATION, round_index)
    order = drawn.permutation(num_devices)
    dropped, straggling, done = drawn.random((3, num_devices))
    chosen = np.sort(order[: config.devices_per_round or num_devices])
    late = straggling[chosen] < config.straggling
    partial = 1 + np.floor(done[chosen] * (steps - 1)).astype(np.int64)
    sends = dropped[chosen] >= config.dropout
    return Participants(devices=chosen, sends=sends, steps=np.where(late, partial, steps))
