"""Error patterns beyond the bit error rate: errors per packet, runs of errors, and errors per label bit.

An independent flip has no memory, so its errors per packet are binomial, its runs geometric, and every bit of a
symbol's label errs alike. A real link keeps none of the three. Counts here add over rounds, trials and machines;
every rate is derived from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.measure.counts import Counts, mask_padding

MAX_RUN = 8
"""From starts of 1..8 errors in a row follow the runs of exactly 1..6 and of 7 or more."""

_SLICE_BYTES = 1 << 22
_HIGH = np.uint64(63)
_ONE = np.uint64(1)


@dataclass(frozen=True, kw_only=True)
class Burstiness(Counts):
    """Sums over bits that the receiver holds, int64, per trial and device `[num_trials, num_devices]`.

    - `packets`: packets of full length; `packet_bits`, `packet_errors`: bits in them, and wrong ones; and
      `packet_errors_squared`: sum over those packets of (wrong bits in the packet)^2;
    - `bits`: bits of all packets; `pairs`: adjacent positions, both in the same packet;
    - `in_a_row` `[..., 8]`: positions from which the next 1, 2, .. 8 bits of the same packet are all wrong
      (`in_a_row[..., 0]` are the bit errors, `in_a_row[..., 1]` the adjacent pairs of errors);
    - `label_bits`, `label_errors` `[..., bits_per_symbol]`: bits and wrong bits per position in the symbol's label,
      hard decisions before any decoder.
    """

    packets: NDArray[np.int64]
    packet_bits: NDArray[np.int64]
    packet_errors: NDArray[np.int64]
    packet_errors_squared: NDArray[np.int64]
    bits: NDArray[np.int64]
    pairs: NDArray[np.int64]
    in_a_row: NDArray[np.int64]
    label_bits: NDArray[np.int64]
    label_errors: NDArray[np.int64]

    def __add__(self, other: Burstiness) -> Burstiness:
        """Counts of both observations together; ValueError for symbols of other sizes."""
        if self.label_bits.shape[-1] != other.label_bits.shape[-1]:
            raise ValueError(
                f"symbols of {self.label_bits.shape[-1]} and of {other.label_bits.shape[-1]} bits have no label in "
                "common; add counts of one modulation"
            )
        return super().__add__(other)

    def over_trials(self) -> Burstiness:
        """Counts per device, summed over all axes before it, `[num_devices]`."""

        def summed(values: NDArray[np.int64], own: int) -> NDArray[np.int64]:
            return np.asarray(values.sum(axis=tuple(range(values.ndim - own))))

        wide = ("in_a_row", "label_bits", "label_errors")
        return Burstiness(**{f.name: summed(getattr(self, f.name), 1 + (f.name in wide)) for f in fields(self)})

    def of_trials(self, chosen: NDArray[np.bool_]) -> Burstiness:
        """Counts with zeros for the trials `[num_trials]` not chosen."""

        def kept(values: NDArray[np.int64]) -> NDArray[np.int64]:
            return values * chosen.reshape(-1, *(1,) * (values.ndim - 1)).astype(np.int64)

        return Burstiness(**{f.name: kept(getattr(self, f.name)) for f in fields(self)})

    def of_trial(self, row: int) -> dict[str, NDArray[np.int64]]:
        """Counts of one trial by name, `[num_devices]` or `[num_devices, ...]`, as `Burstiness(**...)` takes them."""
        return {f.name: getattr(self, f.name)[row].copy() for f in fields(self)}

    def state(self) -> dict[str, NDArray[np.int64]]:
        """Counts by name, as `restored` takes them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def restored(cls, state: Mapping[str, Any], *, shape: tuple[int, ...]) -> Burstiness:
        """Counts of `shape` as `state` gave them. Raises ValueError for anything else."""
        found = {f.name: state[f.name] for f in fields(cls)}
        wide = {"in_a_row": 1, "label_bits": 1, "label_errors": 1}
        for name, counts in found.items():
            fits = isinstance(counts, np.ndarray) and counts.dtype == np.int64 and counts.shape[: len(shape)] == shape
            if not fits or counts.ndim != len(shape) + wide.get(name, 0):
                raise ValueError(f"{name} is not a count of {shape}")
        if found["in_a_row"].shape[-1] != MAX_RUN or found["label_bits"].shape != found["label_errors"].shape:
            raise ValueError("runs or labels of errors are of another kind")
        return cls(**{name: counts.copy() for name, counts in found.items()})

    @property
    def bit_errors(self) -> NDArray[np.int64]:
        """Wrong bits."""
        return np.asarray(self.in_a_row[..., 0])

    @property
    def bit_error_rate(self) -> NDArray[np.float64]:
        """Wrong bits over bits, NaN where nothing was observed."""
        return _ratio(self.bit_errors, self.bits)

    @property
    def variance_ratio(self) -> NDArray[np.float64]:
        """Variance of the errors per packet over its binomial value, s^2 / (n p (1 - p)); 1 for independent flips.

        With X_i the errors in the i-th of N full packets of n bits, s^2 = (sum X_i^2 - (sum X_i)^2 / N) / (N - 1)
        and p = sum X_i / (N n): the index of dispersion (Cochran, Biometrics 1954). NaN with fewer than two
        packets, no error, or no bit right.
        """
        spread, expected = _spread_and_expected(self)
        return _ratio(spread, np.maximum(self.packets - 1, 0) * expected)

    @property
    def lag1_correlation(self) -> NDArray[np.float64]:
        """Correlation of error indicators e_i and e_(i+1), (E[e_i e_(i+1)] - p^2) / (p (1 - p)); 0 if independent."""
        p = self.bit_error_rate
        return _ratio(_ratio(self.in_a_row[..., 1], self.pairs) - p * p, p * (1.0 - p))

    @property
    def run_counts(self) -> NDArray[np.int64]:
        """Number of runs of exactly 1, 2, .. 6 wrong bits, then of 7 or more, `[..., 7]`.

        A run of L holds L - k + 1 starts of k errors in a row, so runs of exactly k are the second difference
        S_k - 2 S_(k+1) + S_(k+2), and runs of at least k are S_k - S_(k+1).
        """
        at_least = -np.diff(self.in_a_row, axis=-1)
        return np.concatenate([-np.diff(at_least, axis=-1), at_least[..., -1:]], axis=-1)


def _ratio(
    part: NDArray[np.int64] | NDArray[np.float64], whole: NDArray[np.int64] | NDArray[np.float64]
) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def _spread_and_expected(bursts: Burstiness) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(sum of squared deviations of the errors per packet, binomial variance of one packet), per entry."""
    packets = np.maximum(bursts.packets, 1)
    spread = bursts.packet_errors_squared - bursts.packet_errors / packets * bursts.packet_errors
    p = bursts.packet_errors / np.maximum(bursts.packet_bits, 1)
    return np.asarray(spread), np.asarray(bursts.packet_bits / packets * p * (1.0 - p))


def measure_bursts(
    sent: NDArray[np.uint8],
    received: NDArray[np.uint8],
    *,
    num_bits: int,
    packet_bits: int,
    bits_per_symbol: int,
    present: NDArray[np.bool_] | None = None,
    label_counts: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> Burstiness:
    """Count between packed payloads `[..., num_bytes]` uint8, first bit highest, of `num_bits` bits each.

    - `packet_bits`: bits of a packet, a multiple of 8; the last packet may be shorter, and a payload shorter than
      one packet is a packet of its own. Runs and pairs end with their packet;
    - `present` `[...]` or `[..., num_packets]` bool: payloads (or packets) that the receiver holds; only these count;
    - `bits_per_symbol`: bit i of the payload is bit i mod m of a label;
    - `label_counts`: (bits, wrong bits) `[..., bits_per_symbol]` of the hard decisions before the decoder, for
      a coded link.

    Memory beside the payloads stays at some 50 MB (or 12 packets, where one is larger). Raises ValueError for
    packets that are no whole bytes or symbols of no bit.
    """
    if bits_per_symbol < 1 or packet_bits < 1 or (packet_bits % 8 and packet_bits < num_bits):
        raise ValueError(
            f"packets of {packet_bits} bits with {bits_per_symbol} bits per symbol cannot be counted; packets are "
            "whole bytes, and a symbol carries at least 1 bit"
        )
    batch, rows = sent.shape[:-1], prod(sent.shape[:-1])
    packet_bits = max(min(packet_bits, num_bits), 1)
    num_packets = -(-num_bits // packet_bits)
    held = np.ones((*batch, num_packets), bool)
    if present is not None:
        held &= present if present.ndim == sent.ndim else present[..., None]
    held = held.reshape(rows, num_packets)
    first_label = np.arange(num_packets) * packet_bits
    counted = BurstSums.zeros(rows, bits_per_symbol)
    packet_bytes = -(-packet_bits // 8)
    packets_at_once = min(max(_SLICE_BYTES // packet_bytes, 1), max(num_packets, 1))
    rows_at_once = max(_SLICE_BYTES // (packets_at_once * packet_bytes), 1)
    flat = (sent.reshape(rows, -1), received.reshape(rows, -1))
    for row in range(0, rows, rows_at_once):
        for packet in range(0, num_packets, packets_at_once):
            some, packets = slice(row, row + rows_at_once), slice(packet, packet + packets_at_once)
            bits_here = min(packets_at_once * packet_bits, num_bits - packet * packet_bits)
            span = slice(packet * packet_bytes, packet * packet_bytes + -(-bits_here // 8))
            words = _error_words(
                flat[0][some, span] ^ flat[1][some, span], num_bits=bits_here, packet_bytes=packet_bytes
            )
            words *= held[some, packets, None]
            counted.add(
                some,
                words,
                full=np.arange(packet, packet + words.shape[1]) < num_bits // packet_bits,
                first_label=None if label_counts is not None else first_label[packets],
            )
    return counted.finish(batch, held, num_bits=num_bits, packet_bits=packet_bits, given=label_counts)


def _error_words(errors: NDArray[np.uint8], *, num_bits: int, packet_bytes: int) -> NDArray[np.uint64]:
    """Packed errors `[rows, bytes]` as `[rows, packets, words]`, first bit highest, all padding zero."""
    rows, num_bytes = errors.shape
    packets, words = -(-num_bytes // packet_bytes), -(-packet_bytes // 8)
    clean = mask_padding(errors, num_bits)
    if packets * packet_bytes != num_bytes:
        clean = np.pad(clean, ((0, 0), (0, packets * packet_bytes - num_bytes)))
    clean = clean.reshape(rows, packets, packet_bytes)
    if words * 8 != packet_bytes:
        clean = np.pad(clean, ((0, 0), (0, 0), (0, words * 8 - packet_bytes)))
    return np.ascontiguousarray(clean).view(">u8").astype(np.uint64)


@lru_cache(maxsize=32)
def label_masks(bits_per_symbol: int) -> NDArray[np.uint64]:
    """Mask of the bits at one place in the label, `[place of the word's first bit, place]`."""
    position = np.arange(64)
    place = (np.arange(bits_per_symbol)[:, None] + position) % bits_per_symbol
    chosen = place[:, None, :] == np.arange(bits_per_symbol)[None, :, None]
    return np.asarray(
        (chosen.astype(np.uint64) << (np.uint64(63) - position.astype(np.uint64))).sum(axis=-1, dtype=np.uint64)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class BurstSums:
    """Sums per row, int64: `packet_errors`, `squared` `[rows]`, `in_a_row` `[rows, 8]` and `label_errors` `[rows, m]`.

    They are the fields of `Burstiness` of these names; the arrays are filled slice by slice.
    """

    packet_errors: NDArray[np.int64]
    squared: NDArray[np.int64]
    in_a_row: NDArray[np.int64]
    label_errors: NDArray[np.int64]

    @classmethod
    def zeros(cls, rows: int, bits_per_symbol: int) -> BurstSums:
        """Counts of zero."""
        return cls(
            packet_errors=np.zeros(rows, np.int64),
            squared=np.zeros(rows, np.int64),
            in_a_row=np.zeros((rows, MAX_RUN), np.int64),
            label_errors=np.zeros((rows, bits_per_symbol), np.int64),
        )

    def add(
        self, rows: slice, words: NDArray[np.uint64], *, full: NDArray[np.bool_], first_label: NDArray[np.int64] | None
    ) -> None:
        """Count one slice of error words `[rows, packets, words]`; `first_label` None skips labels."""
        places = self.label_errors.shape[-1]
        per_packet = np.bitwise_count(words).sum(axis=-1, dtype=np.int64)
        self.packet_errors[rows] += per_packet @ full
        self.squared[rows] += (per_packet * per_packet) @ full
        wrong = per_packet.any(axis=0)
        words = words[:, wrong]
        run = words
        for length in range(MAX_RUN):
            starts = per_packet.sum(axis=-1) if length == 0 else _popcount(run)
            if not starts.any():
                break
            self.in_a_row[rows, length] += starts
            if length + 1 < MAX_RUN:
                # k errors in a row here and at the next bit are k + 1 in a row.
                following = run << _ONE
                following[..., :-1] |= run[..., 1:] >> _HIGH
                run = run & following
        if first_label is None or not wrong.any():
            return
        if places == 1:
            self.label_errors[rows, 0] += per_packet.sum(axis=-1)
            return
        phase = (first_label[wrong, None] + 64 * np.arange(words.shape[-1])) % places
        masks = label_masks(places)[phase] if phase.any() else label_masks(places)[:1, None]
        for place in range(places):
            self.label_errors[rows, place] += _popcount(words & masks[..., place])

    def finish(
        self,
        batch: tuple[int, ...],
        held: NDArray[np.bool_],
        *,
        num_bits: int,
        packet_bits: int,
        given: tuple[NDArray[np.int64], NDArray[np.int64]] | None,
    ) -> Burstiness:
        """The counts, with how many bits and packets they are among."""
        places = self.label_errors.shape[-1]
        on = held.astype(np.int64)
        lengths, full, of_labels = _of_packets(num_bits, packet_bits, places, held.shape[-1])
        packets, label_bits = on @ full, on @ of_labels
        if given is not None:
            label_bits, label_errors = (np.asarray(part, np.int64).reshape(*batch, places) for part in given)
        else:
            label_errors = self.label_errors
        return Burstiness(
            packets=packets.reshape(batch),
            packet_bits=(packets * packet_bits).reshape(batch),
            packet_errors=self.packet_errors.reshape(batch),
            packet_errors_squared=self.squared.reshape(batch),
            bits=(on @ lengths).reshape(batch),
            pairs=(on @ (lengths - 1)).reshape(batch),
            in_a_row=self.in_a_row.reshape(*batch, MAX_RUN),
            label_bits=label_bits.reshape(*batch, places),
            label_errors=label_errors.reshape(*batch, places),
        )


@lru_cache(maxsize=16)
def _of_packets(
    num_bits: int, packet_bits: int, places: int, num_packets: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of each packet its length, whether it is full `[packets]`, and its bits at each place of a label."""
    first_bits = np.arange(num_packets) * packet_bits
    lengths = np.minimum(num_bits - first_bits, packet_bits)
    place = (np.arange(places) - first_bits[:, None]) % places
    return (lengths, (lengths == packet_bits).astype(np.int64), np.maximum(-(-(lengths[:, None] - place) // places), 0))


def _popcount(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    return np.asarray(np.bitwise_count(words).sum(axis=(1, 2), dtype=np.int64))
