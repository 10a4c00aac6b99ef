"""Interface of the chains of a packet link: bits in, received bits, counts and energies out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from phy.config import LinkConfig, PacketConfig, PowerConfig


class Departure(NamedTuple):
    """Parameters of each row (one packet per user), the fields of `phy.stages.Launch` on the host.

    - `amplitude`, `gain` `[rows, users]` float32;
    - `channel_key`, `csi_key`, `impairment_key` `[rows, users, 2]`, `noise_key` `[rows, 2]` uint32;
    - `start_s` `[rows]` float32;
    - `noise_power` float32: complex noise power 2 N0 [W];
    - `error_rate` `[rows, users]` float64: rate at which bits flip, for chains without a radio; else None.
    """

    amplitude: NDArray[np.float32]
    gain: NDArray[np.float32]
    channel_key: NDArray[np.uint32]
    csi_key: NDArray[np.uint32]
    impairment_key: NDArray[np.uint32]
    noise_key: NDArray[np.uint32]
    start_s: NDArray[np.float32]
    noise_power: np.float32
    error_rate: NDArray[np.float64] | None = None

    @property
    def arrays(
        self,
    ) -> tuple[
        NDArray[np.float32],
        NDArray[np.float32],
        NDArray[np.uint32],
        NDArray[np.uint32],
        NDArray[np.uint32],
        NDArray[np.uint32],
        NDArray[np.float32],
    ]:
        """What a radio takes of each row: all but the noise power and the error rate."""
        return self[:7]


class Arrival(NamedTuple):
    """Result of one call, row by row; packets that share slots are side by side in a row.

    - `received` `[rows, users, packets * num_bytes]` uint8, padding zero;
    - `accepted` `[rows, users * packets]` bool: the CRC holds (all true where there is none);
    - `label_errors` `[rows, users, bits_per_symbol]` int32: wrong hard decisions before the decoder;
    - `energy` `[3, rows, users]`: transmitted, pilots and prefixes included; received signal and noise at data symbols;
    - `llrs` `[rows, users, packets * soft_bits]` float32 of this attempt, None where attempts are not combined.
    """

    received: NDArray[np.uint8]
    accepted: NDArray[np.bool_]
    label_errors: NDArray[np.int32]
    energy: NDArray[np.floating]
    llrs: NDArray[np.float32] | None


def compiled_part(config: LinkConfig) -> LinkConfig:
    """Return the configuration without the values that a chain does not compile, so that links share compiled code."""
    return config.model_copy(
        update={
            "channel": config.channel.small_scale,
            "packets": PacketConfig(),
            "power": PowerConfig(policy="fixed"),
            "error_model": "measured",
            "packet_size_bytes": 1,
            "probe_bits": 8,
        }
    )


@dataclass(frozen=True, kw_only=True)
class ChainSpec:
    """Part of a packet link that is compiled.

    `num_devices` share the carriers; `rows_per_trial` is about the number of packets of a trial in a round. `versions`
    are the redundancy versions of the attempts so far under incremental redundancy, the present one last, else none.
    A row is `packets` packets that follow each other over shared slots: more than one with one user alone.
    """

    config: LinkConfig
    users: int
    num_devices: int
    payload_bits: int
    crc: str | None
    combine: bool
    rows_per_trial: int
    versions: tuple[int, ...] = ()
    packets: int = 1


class PacketChain(Protocol):
    """Rows of packets of one length through coding, front-end and receiver: one configuration's chain in one engine.

    Every random number of a row is a function of its keys. All engines therefore see the same fades and noise; they
    differ by float32 rounding and by their decoders.
    """

    bits_per_symbol: int
    coded_bits: int
    """Bits of a packet on the air."""
    soft_bits: int
    """Soft values of a packet that add up over attempts."""
    rows: int
    """Largest number of rows per call."""
    channel_uses: int
    """Symbols (or resource elements and prefix samples) on the air for one row."""
    airtime_s: float
    """Duration of one row, pilots and prefixes included [s]."""

    def send(
        self, payload: NDArray[np.uint8], departure: Departure, earlier_llrs: NDArray[np.float32] | None
    ) -> Arrival:
        """Send packed bits `[rows, users, packets * num_bytes]`.

        `earlier_llrs` as `Arrival.llrs`, summed over earlier attempts and added before the decoder.
        """
        ...

    def mean_power(self, channel_key: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.floating]:
        """|h|^2 `[rows, users]` averaged over a row's symbols (and carriers) and antennas; see `Frontend`."""
        ...


@runtime_checkable
class SeesCarriers(Protocol):
    """A chain that tells the channel on its carriers: that of fused kernels for one device per resource."""

    def carrier_powers(self, channel_key: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.floating]:
        """|h|^2 `[rows, samples]` summed over antennas, on all carriers of one line of every slot of a packet.

        Of a single carrier a line is a stretch of symbols.
        """
        ...
