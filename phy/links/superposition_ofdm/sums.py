"""Interface of the chains of superposition over OFDM: symbols in, noisy sums out."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Who(NamedTuple):
    """Devices `[trials, devices]`: keys `[..., 2]` uint32, gain float32; `start_s` `[trials]` float32."""

    channel_key: Any
    csi_key: Any
    pilot_noise_key: Any
    gain: Any
    start_s: Any


class SumInputs(NamedTuple):
    """Inputs of a transmission besides `Who`.

    Level `[trials]`, keys `[trials, 2]` and `[trials, devices, 2]`, and `[trials, devices]` the mean power of a sample
    above which amplifiers clip and the amplitudes of `phy.links.jamming.own_amplitude`, None without.
    """

    level: Any
    noise_key: Any
    impairment_key: Any
    sample_power: Any
    own: Any


class Added(NamedTuple):
    """Sums of a round.

    Received `[trials, n]` complex64; numbers of active devices `[trials, n]` int64, one column where no device cuts
    symbols off; sums of |sent|^2 `[trials, devices]`; mean ||f||^2 of the combiner of antennas `[trials]`.
    """

    received: NDArray[np.complex64]
    num_active: NDArray[np.int64]
    energy: NDArray[np.float64]
    noise_gain: NDArray[np.float64]


class SumEngine(Protocol):
    """Weighting, channel, sum and noise of one link in one engine."""

    def measure(self, who: Who) -> NDArray[np.float64]:
        """Return `[5, trials, devices]`: sums of |w|^2, |h^ w| and active elements, largest |h^ w| and |h w|."""
        ...

    def carry(self, payload: NDArray[Any], who: Who, sending: SumInputs) -> Added:
        """Add up `payload` `[trials, devices, ...]`: packed bits uint8 or amplitudes complex64."""
        ...
