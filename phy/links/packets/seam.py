"""The seam between a packet link and the engine that carries its packets: bits in, bits, counts and energies out."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Departure(NamedTuple):
    """What a row (one packet of each of its users) needs beside its bits, the fields of `stages.Launch` on the host.

    - `amplitude`, `gain` `[rows, users]` float32;
    - `channel_key`, `csi_key`, `impairment_key` `[rows, users, 2]`, `noise_key` `[rows, 2]` uint32;
    - `start_s` `[rows]` float32;
    - `noise_power` float32: complex noise power 2 N0 [W].
    """

    amplitude: NDArray[np.float32]
    gain: NDArray[np.float32]
    channel_key: NDArray[np.uint32]
    csi_key: NDArray[np.uint32]
    impairment_key: NDArray[np.uint32]
    noise_key: NDArray[np.uint32]
    start_s: NDArray[np.float32]
    noise_power: np.float32


class Arrival(NamedTuple):
    """What became of the rows of one call.

    - `received` `[rows, users, num_bytes]` uint8, padding zero;
    - `accepted` `[rows, users]` bool: the CRC holds (all true where there is none);
    - `label_errors` `[rows, users, bits_per_symbol]` int32: wrong hard decisions before the decoder;
    - `energy` `[3, rows, users]`: transmitted, pilots and prefixes included; received signal and noise at data symbols;
    - `llrs` `[rows, users, coded_bits]` float32 of this attempt, None where attempts are not combined.
    """

    received: NDArray[np.uint8]
    accepted: NDArray[np.bool_]
    label_errors: NDArray[np.int32]
    energy: NDArray[np.floating]
    llrs: NDArray[np.float32] | None


class PacketChain(Protocol):
    """Packets of one length through coding, front-end and receiver: one configuration's chain in one engine.

    Every number of a row follows from its keys, so engines meet the same fades and the same noise; they differ by
    float32 rounding, and where decoders differ.
    """

    bits_per_symbol: int
    coded_bits: int
    rows: int
    """Most rows that one call takes."""
    channel_uses: int
    """Symbols (or resource elements and prefix samples) on the air for one packet."""
    airtime_s: float
    """Duration of one packet, pilots and prefixes included [s]."""

    def send(
        self, payload: NDArray[np.uint8], departure: Departure, earlier_llrs: NDArray[np.float32] | None
    ) -> Arrival:
        """Send packed bits `[rows, users, num_bytes]`.

        `earlier_llrs` as `Arrival.llrs`, summed over earlier attempts and added before the decoder.
        """
        ...

    def mean_power(self, channel_key: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.floating]:
        """|h|^2 `[rows, users]` averaged over a packet's symbols (and carriers) and antennas; see `Frontend`."""
        ...
