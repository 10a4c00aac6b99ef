"""Results of links without learning: received bits, and received sums of amplitudes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fl.base.words import plural
from phy.links.link import Reception, Superposition
from phyloop.wording import span
from scenarios.report.tables.summaries import Rate


@dataclass(frozen=True, kw_only=True, repr=False)
class Received:
    """Result of `Link.send`; K devices.

    - `bits`: received bits in the form in which they were sent. Bits of lost packets and of silent devices are 0;
    - `bit_errors` `[K]` int64: wrong bits of each device among those that the receiver holds;
    - `ber`: bit error rate over all devices, with `value`, `low` and `high` of its 95 % Clopper-Pearson interval, which
      takes errors as independent and holds for the fades of this call. None if no bit met a radio, or none was kept;
    - `ber_by_device`: the same of each device, K entries;
    - `snr_db` `[K]`: received signal energy over noise energy [dB], NaN for a silent device;
    - `airtime_s` `[K]` [s], `energy_j` `[K]` [J]: time on the air and transmit energy of each device;
    - `delivered` `[K, num_packets]` bool: packets that the receiver keeps; None: all packets of active devices;
    - `reception`: everything that the link measured, with a leading axis of one trial.
    """

    bits: NDArray[np.uint8]
    bit_errors: NDArray[np.int64]
    ber: Rate | None
    ber_by_device: tuple[Rate | None, ...]
    snr_db: NDArray[np.float64]
    airtime_s: NDArray[np.float64]
    energy_j: NDArray[np.float64]
    delivered: NDArray[np.bool_] | None
    reception: Reception

    def __repr__(self) -> str:
        rate = "not measured" if self.ber is None else self.ber
        return f"<Received of {plural(len(self.bit_errors), 'device')}, BER {rate}, SNR {span(self.snr_db)} dB>"


@dataclass(frozen=True, kw_only=True, repr=False)
class Superposed:
    """Result of `Air.superpose`; K devices, S symbols.

    - `sum` `[S]` complex64: estimate of the sum of all amplitudes, `received` over `amplitude`, or over the divisor of
      `receiver.scaling: mmse`; 0 if all are silent;
    - `received` `[S]` complex64: the received symbols, with noise of variance N0 in each real dimension;
    - `amplitude`: receive amplitude A per unit of amplitude;
    - `num_active` `[S]` or `[1]` int64: devices on the air in each symbol;
    - `airtime_s` `[K]` [s], `energy_j` `[K]` [J]: as in `Received`; None without a radio;
    - `superposition`: everything that the link measured, with a leading axis of one trial.
    """

    sum: NDArray[np.complex64]
    received: NDArray[np.complex64]
    amplitude: float
    num_active: NDArray[np.int64]
    airtime_s: NDArray[np.float64] | None
    energy_j: NDArray[np.float64] | None
    superposition: Superposition

    def __repr__(self) -> str:
        return (
            f"<Superposed of {plural(len(self.sum), 'symbol')}, amplitude {self.amplitude:.4g}, "
            f"{span(self.num_active)} active>"
        )
