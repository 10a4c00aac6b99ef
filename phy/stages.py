"""Interfaces between the stages of a packet link, as pure TensorFlow.

    payload -> Codec.encode -> Launch -> Frontend.observe -> Observation -> Receiver.receive -> Decoded

A **row** is one packet of one trial on one resource; its **users** are the devices on that resource (one under
orthogonal access, `noma.group_size` under NOMA). Everything random derives from the keys of the row. All methods
are called inside `tf.function`s with static shapes and hold no state.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Launch(NamedTuple):
    """Symbols and channel parameters of one compiled call (tensors).

    - `symbols` `[rows, users, num_symbols]` complex64, unit mean energy;
    - `amplitude` `[rows, users]` float32: transmit amplitude, 0 for a silent device;
    - `gain` `[rows, users]` float32: large-scale amplitude gain;
    - `channel_key`, `csi_key`, `impairment_key` `[rows, users, 2]` uint32; `noise_key` `[rows, 2]` uint32;
    - `start_s` `[rows]` float32: time since the channel's realisation was drawn [s];
    - `noise_power` `[]` float32: complex noise power 2 N0 [W].
    """

    symbols: Any
    amplitude: Any
    gain: Any
    channel_key: Any
    csi_key: Any
    impairment_key: Any
    noise_key: Any
    start_s: Any
    noise_power: Any


class Observation(NamedTuple):
    """Received data symbols of one packet with the channel estimate (tensors).

    - `received` `[rows, antennas, num_symbols]` complex64;
    - `channel` `[rows, users, antennas, num_symbols]` complex64: the receiver's estimate of everything between a unit
      constellation point and that antenna, transmit amplitude and gain included; exactly 0 for a silent device;
    - `channel_error` `[rows, users, num_symbols]` float32: variance of that estimate per antenna, 0 when perfect;
    - `noise_power` `[]` float32: complex noise power per antenna;
    - `transmit_energy` `[rows, users]` float32: |sent|^2 summed over all channel uses, pilots and prefixes included;
    - `signal_energy` `[rows, users]`, `noise_energy` `[rows]` float32: summed over data symbols, mean over antennas.
    """

    received: Any
    channel: Any
    channel_error: Any
    noise_power: Any
    transmit_energy: Any
    signal_energy: Any
    noise_energy: Any


class Decoded(NamedTuple):
    """Output of the receiver (tensors).

    - `bits` `[rows, users, payload_bits]` int32 in {0, 1};
    - `accepted` `[rows, users]` bool: the CRC holds (all true where there is none);
    - `llrs` `[rows, users, num_symbols * bits_per_symbol]` float32: ln P(1) / P(0) of every coded bit, from this
      attempt alone, in the sign convention of Sionna's demappers; Chase combining adds them up.
    """

    bits: Any
    accepted: Any
    llrs: Any


class Watched(NamedTuple):
    """Symbols and channel of packets at their first attempt, by Sionna's blocks (arrays).

    - `sent`, `equalised` `[rows, users, num_symbols]` complex64: constellation points, and their estimates behind the
      filter of the receiver, see `phy.receivers.detectors.equalise`; NaN for a silent device;
    - `raw_wrong` `[rows, users, coded_bits]` bool: wrong hard decisions before any decoder; of a silent device
      none in packets, guesses on a flat uncoded link;
    - `channel`, `estimate` `[rows, users, antennas, num_symbols]` complex64: small-scale fading at every data symbol,
      and the receiver's estimate of it. Transmit amplitude and gain are divided out; NaN for a silent device.
    """

    sent: NDArray[np.complex64]
    equalised: NDArray[np.complex64]
    raw_wrong: NDArray[np.bool_]
    channel: NDArray[np.complex64]
    estimate: NDArray[np.complex64]


class Propagation(Protocol):
    """Small-scale fading between one device and the server's antennas, unit mean power per antenna."""

    @property
    def num_antennas(self) -> int:
        """Antennas of the server."""
        ...

    @property
    def delays_s(self) -> NDArray[np.float64]:
        """Delay of each path, `[num_paths]`, the first 0."""
        ...

    @property
    def powers(self) -> NDArray[np.float64]:
        """Mean power of each path, `[num_paths]`, sum 1."""
        ...

    def taps(self, key: Any, instants_s: Any) -> Any:
        """Path gains `[n, antennas, num_paths, instants]` complex64, keys `[n, 2]`, instants `[n, instants]` [s]."""
        ...

    def path_correlation(self, lag_s: NDArray[np.float64]) -> NDArray[np.complex128]:
        """E[h_p(t) conj(h_p(t + lag))] of each path over its power, `[num_paths, *lag.shape]`; ones without motion.

        Different paths are uncorrelated.
        """
        ...


class Frontend(Protocol):
    """Waveform, channel, noise and channel estimation: symbols in, observations out."""

    num_symbols: int
    """Data symbols of one packet."""
    channel_uses: int
    """Symbols (or resource elements and prefix samples) on the air for one packet."""
    airtime_s: float
    """Duration of one packet, pilots and prefixes included [s]."""

    def observe(self, launch: Launch) -> Observation:
        """Send one packet per row."""
        ...

    def mean_power(self, channel_key: Any, start_s: Any) -> Any:
        """|h|^2 `[rows, users]` float32 averaged over the packet's symbols (and carriers) and antennas."""
        ...


class ChannelCodec(Protocol):
    """Packet of payload bits to coded bits and back: CRC, segmentation, FEC, interleaving."""

    payload_bits: int
    coded_bits: int
    """A multiple of the bits per symbol it was built for."""

    def encode(self, bits: Any) -> Any:
        """`[n, payload_bits]` int32 to `[n, coded_bits]` int32."""
        ...

    def decode(self, llrs: Any) -> tuple[Any, Any]:
        """LLRs `[n, coded_bits]` float32, ln P(1)/P(0), to (bits `[n, payload_bits]` int32, accepted `[n]` bool)."""
        ...


class Receiver(Protocol):
    """Detection and decoding: observations in, payload bits of every user out."""

    def receive(self, observation: Observation, *, codec: ChannelCodec, earlier_llrs: Any) -> Decoded:
        """Detect and decode; `earlier_llrs` (as `Decoded.llrs`) of earlier attempts are added before decoding."""
        ...
