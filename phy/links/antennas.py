"""Several antennas under superposition: the one channel per device that their combiner leaves.

    r = sum_k g_k A w_k x_k + ||f|| z,    g_k = f^H h_k,    z ~ CN(0, 2 N0)

is equal in law to combining the noise of every antenna, because that noise is white over antennas. The rest of the link
is therefore that of one antenna with channels g_k; see `phy.receivers.towards_sum` for f.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config.access import MAX_ANTENNAS
from phy.config.channel import ChannelConfig
from phy.config.conflict import Conflict, Write
from phy.config.delays import line_of_sight_k
from phy.config.link import LinkConfig
from phy.config.power import PowerPolicy
from phy.fading.gains import BlockGains
from phy.links.policies.fixed import Fixed

_SMALLEST = np.float32(1e-15)


@dataclass(frozen=True, kw_only=True)
class CombinedTaps:
    """Channels behind the combiner, one value per coherence block of `block_symbols` symbols, `num_symbols` in all.

    - `channel` `[num_trials, num_devices, blocks]` complex64: g_k;
    - `estimate`, the same shape: what device k knows of g_k: f^H h^_k under `mrc`, 1 under the other combiners;
    - `gain` `[num_trials, num_devices]` float32: root mean square of |h_nk|, 0 of a device off the air;
    - `noise_amplitude` `[num_trials, blocks]` float32: ||f||;
    - `policy`: power policy of the devices.
    """

    channel: NDArray[np.complex64]
    estimate: NDArray[np.complex64]
    gain: NDArray[np.float32]
    noise_amplitude: NDArray[np.float32]
    policy: PowerPolicy
    block_symbols: int
    num_symbols: int

    @property
    def noise_gain(self) -> NDArray[np.float64]:
        """Mean of ||f||^2 over the symbols, `[num_trials]`."""
        return np.asarray(self.noise_amplitude.astype(float) ** 2 @ self._symbols / self.num_symbols)

    @cached_property
    def gains(self) -> BlockGains:
        """Gains on which power control decides."""
        weights, symbols = self._weights(self.policy), self._symbols
        power = np.abs(weights).astype(float) ** 2
        reached = np.abs(self.estimate * weights).astype(float)
        active = power > 0.0
        return BlockGains(
            weight_power=power @ symbols / self.num_symbols,
            gain_sum=reached @ symbols,
            gain_peak=reached.max(axis=2),
            arrival_peak=np.abs(self.channel * weights).max(axis=2).astype(float),
            active_symbols=active @ symbols,
        )

    def added(self, level: NDArray[np.float64], own: NDArray[np.float32] | None) -> NDArray[np.float32]:
        """A device's part in r per unit of its symbol, `[num_trials, 4, num_devices, blocks]`.

        Both parts of A w g, then |A w|^2, and 1 where w is not 0; `own` as in `phy.links.air_chain.OnAir`.
        """
        weights = self._weights(self.policy)
        factor: Any = level.astype(np.float32)[:, None, None] * weights
        sends = np.abs(weights) > 0.0
        if own is not None:
            amplitude = own[..., None]
            factor = np.where(amplitude > 0.0, amplitude * self._weights(Fixed()), factor)
            factor, sends = np.where(amplitude < 0.0, 0.0, factor), sends & (amplitude >= 0.0)
        arrived = factor * self.channel
        return np.stack([arrived.real, arrived.imag, np.abs(factor) ** 2, sends], axis=1).astype(np.float32)

    def arrival(self, level: NDArray[np.float64], own: NDArray[np.float32] | None) -> NDArray[np.complex128] | None:
        """A w g of a round `[num_trials, num_devices]`; None where it changes within the round."""
        if self.channel.shape[2] > 1:
            return None
        added = self.added(level, own)[..., 0].astype(float)
        return added[:, 0] + 1j * added[:, 1]

    @property
    def _symbols(self) -> NDArray[np.float64]:
        """Symbols of each block, `[blocks]`."""
        starts = np.arange(self.channel.shape[2]) * self.block_symbols
        return np.minimum(self.num_symbols - starts, self.block_symbols).astype(float)

    def _weights(self, policy: PowerPolicy) -> NDArray[np.complex64]:
        """w `[num_trials, num_devices, blocks]` of devices that know `estimate`."""
        known = np.maximum(np.abs(self.estimate), _SMALLEST)
        amplitude = policy.amplitude(known, self.gain[..., None], np)
        return np.asarray(amplitude / known * np.conj(self.estimate), np.complex64)


def antenna_conflicts(link: LinkConfig, *, num_devices: int) -> Iterator[Conflict]:
    """Yield what a combiner towards the sum needs and the link lacks."""
    antennas, combining, channel = link.receiver.num_antennas, link.receiver.combining, link.channel
    if link.combines and link.ofdm != "none" and link.ofdm.domain == "time":
        yield Conflict(
            "ofdm.domain receiver.num_antennas receiver.combining",
            "several antennas are combined carrier by carrier, not in the time domain",
            Write({"domain": "frequency"}),
            Write({"num_antennas": 1, "combining": "mrc"}),
        )
    if combining == "zf" and antennas < num_devices:
        yield Conflict(
            "receiver.num_antennas receiver.combining",
            f"zf aligns {num_devices} devices with as many antennas at least, the receiver has {antennas}",
            *(
                (Write({"num_antennas": num_devices}), Write({"combining": "mmse"}))
                if num_devices <= MAX_ANTENNAS
                else (Write({"combining": "mmse"}),)
            ),
        )
    if combining == "zf" and not channel.fades and num_devices > 1:
        yield Conflict(
            "receiver.combining channel.fading",
            "a channel without fading is the same at all antennas, so that zf cannot tell devices apart",
            Write({"combining": "mrc"}),
            Write({"channel.fading": "rayleigh"}),
        )
    if combining == "blind" and _has_mean(channel):
        yield Conflict(
            "receiver.combining channel.fading channel.model",
            "blind combining averages out channels of mean zero only, and a fixed path has a mean",
            Write({"combining": "mrc"}),
            Write({"channel.fading": "rayleigh"}),
        )
    if combining != "mrc" and link.control.name not in ("fixed", "inversion"):
        yield Conflict(
            "power.policy receiver.combining",
            f"under combining {combining} devices know no channel that policy {link.control.name} could follow",
            Write({"policy": "fixed"}),
            Write({"combining": "mrc"}),
        )


def _has_mean(channel: ChannelConfig) -> bool:
    """Return True if a fixed path gives taps a mean other than zero."""
    if channel.selective:
        return line_of_sight_k(channel.model) > 0.0
    return not channel.fades or (channel.law.rician_k or 0.0) > 0.0
