"""Counts that add up, and the rates and intervals derived from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

_BYTES_AT_ONCE = 1 << 20


class Counts:
    """Dataclass whose fields add up."""

    def __add__(self, other: Self) -> Self:
        """Counts of both observations together."""
        return type(self)(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(cast(Any, self))})

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Join arrays `[num_trials, num_devices, ...]` of consecutive devices."""
        names = [f.name for f in fields(cast(Any, cls))]
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts], axis=1) for name in names})


@dataclass(frozen=True, kw_only=True)
class LinkCounts(Counts):
    """Counts and energies measured on the air, per trial and device, `[num_trials, num_devices]` each.

    Counts are int64; energies are float64 sums over symbols (1 W during one symbol is 1). Rates are
    never stored, only derived, so that counts of two runs can be added.

    - `bits`, `bit_errors`: payload bits that the receiver holds, and those of them that are wrong;
    - `packets`, `packet_errors`: packets offered, and those that were not delivered intact;
    - `dropped`: packets thrown away; `retransmissions`: attempts beyond the first;
    - `raw_bits`, `raw_bit_errors`: bits on the air and hard decisions on them that are wrong, before any decoder;
    - `symbols`: channel uses, pilots, prefixes and retransmissions included;
    - `airtime_s`: time during which this device's resource is in use [s]; `energy_j`: transmit energy [J].
    """

    bits: NDArray[np.int64]
    bit_errors: NDArray[np.int64]
    packets: NDArray[np.int64]
    packet_errors: NDArray[np.int64]
    symbols: NDArray[np.int64]
    transmit_energy: NDArray[np.float64]
    signal_energy: NDArray[np.float64]
    noise_energy: NDArray[np.float64]
    dropped: NDArray[np.int64]
    retransmissions: NDArray[np.int64]
    raw_bits: NDArray[np.int64]
    raw_bit_errors: NDArray[np.int64]
    airtime_s: NDArray[np.float64]
    energy_j: NDArray[np.float64]

    @property
    def bit_error_rate(self) -> NDArray[np.float64]:
        """Share of wrong bits, NaN where no bit was observed."""
        return _ratio(self.bit_errors, self.bits)

    @property
    def packet_error_rate(self) -> NDArray[np.float64]:
        """Share of packets with at least one wrong bit, NaN where none was observed."""
        return _ratio(self.packet_errors, self.packets)

    @property
    def snr_db(self) -> NDArray[np.float64]:
        """10 log10 of received signal energy over noise energy, both as observed; NaN where silent [dB]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.signal_energy > 0, self.signal_energy / self.noise_energy, np.nan)
            return np.asarray(10.0 * np.log10(ratio))


def _ratio(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def empty_counts(num_trials: int, num_devices: int) -> LinkCounts:
    """Counts of zero."""
    whole, real = np.zeros((num_trials, num_devices), np.int64), np.zeros((num_trials, num_devices))
    zeros: dict[str, Any] = {f.name: real if "float64" in str(f.type) else whole for f in fields(LinkCounts)}
    return LinkCounts(**zeros)


def count_errors(
    sent: NDArray[np.uint8], received: NDArray[np.uint8], *, num_bits: int, packet_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Wrong bits and wrong packets between packed payloads `[..., num_bytes]` uint8.

    Bits beyond `num_bits` are padding and do not count. Returns bit errors `[...]`, packet errors
    `[...]` and the number of packets per payload.
    """
    wrong = np.bitwise_count(mask_padding(sent ^ received, num_bits))
    whole, rest = divmod(wrong.shape[-1], packet_bytes)
    packets = wrong[..., : whole * packet_bytes].reshape(*wrong.shape[:-1], whole, packet_bytes)
    # Summed by blocks: `np.add.reduceat` would hold eight bytes for each one.
    per_packet = packets.sum(axis=-1, dtype=np.int64)
    if rest:
        last = wrong[..., whole * packet_bytes :].sum(axis=-1, dtype=np.int64, keepdims=True)
        per_packet = np.concatenate([per_packet, last], axis=-1)
    return per_packet.sum(axis=-1), (per_packet > 0).sum(axis=-1), per_packet.shape[-1]


def count_differences(first: NDArray[np.uint8], second: NDArray[np.uint8], *, num_bits: int) -> NDArray[np.int64]:
    """Bits among the first `num_bits` that differ between packed payloads `[..., num_bytes]` uint8, `[...]` int64."""
    total = np.zeros(first.shape[:-1], np.int64)
    full, rest = divmod(num_bits, 8)
    width = max(_BYTES_AT_ONCE // max(total.size, 1), 1)
    for start in range(0, full, width):
        part = (..., slice(start, min(start + width, full)))
        total += np.bitwise_count(first[part] ^ second[part]).sum(axis=-1, dtype=np.int64)
    if rest:
        total += np.bitwise_count((first[..., full] ^ second[..., full]) >> np.uint8(8 - rest))
    return total


def mask_padding(payload: NDArray[np.uint8], num_bits: int) -> NDArray[np.uint8]:
    """The payload `[..., num_bytes]` with every bit from `num_bits` on set to zero (a copy)."""
    out = payload.copy()
    full, rest = divmod(num_bits, 8)
    if rest:
        out[..., full] &= np.uint8((0xFF << (8 - rest)) & 0xFF)
        full += 1
    out[..., full:] = 0
    return out


def rate_interval(
    errors: ArrayLike, trials: ArrayLike, *, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two-sided interval for a binomial rate, elementwise over broadcastable counts, which need not be whole.

    The interval is exact: it covers the rate with probability at least `confidence` (Clopper and Pearson, Biometrika
    1934). Both limits are NaN for no trials. Raises ValueError for errors outside 0..trials or a confidence outside
    (0, 1).
    """
    from scipy.special import betaincinv

    k, n = np.broadcast_arrays(np.asarray(errors, float), np.asarray(trials, float))
    if np.any((k < 0) | (k > n)):
        raise ValueError("errors must lie between 0 and the number of trials; count both over the same bits")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence {confidence} must lie between 0 and 1; 0.95 is usual")
    tail = (1.0 - confidence) / 2.0
    low = np.where(k > 0, betaincinv(np.where(k > 0, k, 1), n - k + 1, tail), 0.0)
    high = np.where(k < n, betaincinv(k + 1, np.where(k < n, n - k, 1), 1.0 - tail), 1.0)
    return np.where(n == 0, np.nan, low), np.where(n == 0, np.nan, high)
