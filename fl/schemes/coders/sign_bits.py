"""signSGD: one sign per number, their mean or majority. Bernstein et al. 2018, and as a baseline Lang et al. 2023.

    c_i = sign(delta_i)
    mean:     theta^_i = eta sum_k w_k c_ki a / f_k
    majority: theta^_i = eta sign(sum_k w_k c_ki)

Randomized response with 1 / (1 + e^eps) comes after, as `Scheme.response` asks, and the channel after that:
f_k = 1 - 2 p_k is what both leave of a sign. An update of 0 has no sign, and one bit no third value: a fair coin stands
for it, drawn for the device, so that it adds nothing in the mean. Votes that balance leave a number as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fl.aggregation.estimates import SMALLEST_DEBIAS_FACTOR
from fl.config.scheme import keep_factor
from fl.schemes.coders.coder import Coder, Senders, checked_updates
from fl.schemes.coders.stochastic_bits import SignSums, received_signs, stochastic_bits
from fl.tasks.base import LearningError
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose


@dataclass(frozen=True, kw_only=True)
class SignVote(Coder):
    """The bit 1 stands for +1. `step` is eta.

    - `vote` `mean`, `decode` `coded`: a = tanh(eps/2), the raw mean of +-1 as the CPA reference has it, in which
      randomized response is not undone, though the channel is; `unbiased`: a = 1, E[theta^_i] = eta sum_k w_k c_ki;
    - `vote` `majority`: every device has its share of the votes, however often its bits come wrong.

    Raises LearningError for an epsilon or a step that is not positive.
    """

    num_values: int
    epsilon: float | None
    vote: Literal["mean", "majority"] = "majority"
    step: float = 1.0
    decode: Literal["coded", "unbiased"] = "coded"

    def __post_init__(self) -> None:
        for name, value in (("epsilon", self.epsilon), ("step", self.step)):
            if value is not None and not (math.isfinite(value) and value > 0.0):
                raise LearningError(f"{name} is {value}, with which nothing can be learnt; give it above 0")

    def encode(
        self, updates: NDArray[np.float32], *, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """See `Coder.encode`; coins for zeros are drawn from `Purpose.ROUNDING`."""
        updates = checked_updates(updates, devices=devices, num_values=self.num_values)
        return stochastic_bits(updates, slope=None, key=context.keys(Purpose.ROUNDING)[0], devices=devices)[None]

    def gather(self, senders: Senders) -> SignSums:
        """See `Coder.gather`; a majority ignores `factor`, a mean limits it as `cpa.cpa` does."""
        return SignSums(
            num_values=self.num_values, weights=senders.weights, worth=self._worth(senders), update_of=self.step_of
        )

    def read(self, payload: NDArray[np.uint8], senders: Senders) -> NDArray[np.float32]:
        """See `Coder.read`: signs times the step."""
        return np.asarray(received_signs(payload, senders, num_bits=self.num_values) * self.step, np.float32)

    def step_of(self, mean: NDArray[np.float64]) -> NDArray[np.float32]:
        """The update that the mean of the signs makes, `[M]`."""
        return np.asarray(self.step * (np.sign(mean) if self.vote == "majority" else mean), np.float32)

    def _worth(self, senders: Senders) -> NDArray[np.float64]:
        if self.vote == "majority":
            return np.ones(len(senders.devices))
        kept = keep_factor(self.epsilon)
        divisor = np.maximum(senders.factor, SMALLEST_DEBIAS_FACTOR * kept)
        return np.asarray((kept if self.decode == "coded" else 1.0) / divisor)
