"""Bit errors, packet errors and `Burstiness`, counted in one pass over packed bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.measure.burstiness import MAX_RUN, Burstiness, BurstSums, label_masks
from phy.numerics.compiled import inlined, kernel, read_only
from phy.numerics.workers import run_tasks

_BYTES_OF_A_TASK = 1 << 16
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ERRORS, _WRONG_PACKETS, _FULL_ERRORS, _SQUARED, _RUNS = range(5)
_LABELS = _RUNS + MAX_RUN


@inlined
def _popcount(word: Any) -> Any:
    """Bits set; LLVM knows this pattern and takes the processor's own instruction."""
    x = np.uint64(word - np.uint64(np.uint64(word >> np.uint64(1)) & np.uint64(0x5555555555555555)))
    pairs = np.uint64(np.uint64(x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = np.uint64(np.uint64(x & np.uint64(0x3333333333333333)) + pairs)
    x = np.uint64(np.uint64(x + np.uint64(x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F))
    return np.int64(np.uint64(np.uint64(x * np.uint64(0x0101010101010101)) >> np.uint64(56)))


@inlined
def _half(line: Any, at: Any) -> Any:
    high = np.uint64(line[at]) << np.uint64(24) | np.uint64(line[at + np.uint64(1)]) << np.uint64(16)
    return high | np.uint64(line[at + np.uint64(2)]) << np.uint64(8) | np.uint64(line[at + np.uint64(3)])


@inlined
def _eight(line: Any, start: Any) -> Any:
    """Eight bytes from `start` on, the first of them highest: LLVM makes one load of it, if no place can be below 0."""
    at = np.uint64(start)
    return _half(line, at) << np.uint64(32) | _half(line, at + np.uint64(4))


@inlined
def _few(sent: Any, received: Any, start: Any, end: Any) -> Any:
    """Wrong ones among the bits of up to eight bytes, the first of them highest, zero beyond."""
    errors = np.uint64(0)
    for k in range(end - start):
        wrong = np.uint64(sent[start + k] ^ received[start + k])
        errors |= wrong << np.uint64(56 - 8 * k)
    return errors


@inlined
def _note(errors: Any, before: Any, masks: Any, phase: Any, found: Any) -> Any:
    """Runs that end in a word and places in the label, into `found`; wrong bits are returned.

    `before` are the 64 bits in front of the word.
    """
    run, back = np.uint64(errors & np.uint64(np.uint64(errors >> np.uint64(1)) | np.uint64(before << np.uint64(63)))), 1
    while run != np.uint64(0):
        found[_RUNS + back] += _popcount(run)
        back += 1
        if back == MAX_RUN:
            break
        shifted = np.uint64(errors >> np.uint64(back)) | np.uint64(before << np.uint64(64 - back))
        run = np.uint64(run & shifted)
    if masks.shape[0] > 1:
        for place in range(masks.shape[0]):
            found[_LABELS + place] += _popcount(np.uint64(errors & masks[phase, place]))
    return _popcount(errors)


@kernel
def _count(
    sent: Any, received: Any, num_bits: Any, packet_bytes: Any, masks: Any, sums: Any, first: Any, last: Any
) -> None:
    """Tasks `first` to `last`: spans of whole packets of one row, into `sums` `[row, span, count]`."""
    spans, num_bytes, places = sums.shape[1], sent.shape[1], masks.shape[0]
    packets = (num_bytes + packet_bytes - 1) // packet_bytes
    per_span = (packets + spans - 1) // spans
    for task in range(first, last):
        row, span = task // spans, task % spans
        found = sums[row, span]
        found[:] = 0
        sent_here, received_here = sent[row], received[row]
        for packet in range(span * per_span, min((span + 1) * per_span, packets)):
            begin, end = packet * packet_bytes, min((packet + 1) * packet_bytes, num_bytes)
            in_packet, before = np.int64(0), np.uint64(0)
            # The last word of a packet may hold fewer than 64 bits.
            last_word = begin + (end - begin - 1) // 8 * 8
            for start in range(begin, last_word, 8):
                errors = np.uint64(_eight(sent_here, start) ^ _eight(received_here, start))
                # Without asking for errors first: where every third word has one, a wrong guess takes longer.
                in_packet += _note(errors, before, masks, start * 8 % places, found)
                before = errors
            errors = _few(sent_here, received_here, last_word, end)
            if end == num_bytes and num_bits - 8 * last_word < 64:
                errors &= ~(_ALL >> np.uint64(num_bits - 8 * last_word))
            in_packet += _note(errors, before, masks, last_word * 8 % places, found)
            found[_ERRORS] += in_packet
            found[_WRONG_PACKETS] += in_packet > 0
            if (packet + 1) * packet_bytes * 8 <= num_bits:
                found[_FULL_ERRORS] += in_packet
                found[_SQUARED] += in_packet * in_packet


def count_bursts(
    sent: NDArray[np.uint8],
    received: NDArray[np.uint8],
    *,
    num_bits: int,
    packet_bytes: int,
    bits_per_symbol: int,
    active: NDArray[np.bool_],
    threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], Burstiness]:
    """Between packed payloads `[rows, num_bytes]` uint8: (bit errors, packet errors, statistics of `active` rows).

    Padding is ignored, bit i of a row is bit i mod `bits_per_symbol` of a label. `active` `[...]`, as many as there are
    rows, gives all counts their shape. The same numbers as `count_errors` and `measure_bursts` find.
    """
    sent = read_only(sent)
    rows, num_bytes = sent.shape
    packets = -(-num_bytes // packet_bytes)
    spans = min(-(-num_bytes // _BYTES_OF_A_TASK), packets)
    sums = np.empty((rows, spans, _LABELS + bits_per_symbol), np.int64)
    masks = label_masks(bits_per_symbol)
    run_tasks(
        lambda first, last: _count(sent, received, num_bits, packet_bytes, masks, sums, first, last),
        num_tasks=rows * spans,
        threads=threads,
        cost_us=5e-4 * rows * num_bits,
    )
    total = sums.sum(axis=1)
    bit_errors, packet_errors = total[:, _ERRORS].copy(), total[:, _WRONG_PACKETS].copy()
    total *= active.reshape(-1, 1)
    total[:, _RUNS] = total[:, _ERRORS]
    if bits_per_symbol == 1:
        total[:, _LABELS] = total[:, _ERRORS]
    if packets == 1:
        # As `measure_bursts` has it, a payload of one packet at most is a full packet of its own.
        total[:, _FULL_ERRORS], total[:, _SQUARED] = total[:, _ERRORS], total[:, _ERRORS] ** 2
    found = BurstSums(
        packet_errors=total[:, _FULL_ERRORS],
        squared=total[:, _SQUARED],
        in_a_row=total[:, _RUNS:_LABELS],
        label_errors=total[:, _LABELS:],
    )
    held, packet_bits = np.repeat(active.reshape(-1, 1), packets, axis=1), min(8 * packet_bytes, num_bits)
    bursts = found.finish(active.shape, held, num_bits=num_bits, packet_bits=packet_bits, given=None)
    return bit_errors.reshape(active.shape), packet_errors.reshape(active.shape), bursts
