"""Payloads are cut into packets and keyed without a bit lost and without two draws alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from radio import context

from phy.links.packets.layout import Clock, all_rows, cut_payload, device_keys, row_keys
from phy.numerics.random import Purpose


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(1, 100))
def test_packets_hold_every_bit_of_the_payload_once(num_bits: int, size: int) -> None:
    covered: list[int] = []
    for batch in cut_payload(num_bits, packet_size_bytes=size):
        for packet in range(batch.num_packets):
            start = 8 * (batch.first_byte + packet * batch.num_bytes)
            covered += range(start, start + batch.payload_bits)
            assert batch.first + packet == start // (8 * size)
    assert covered == list(range(num_bits))


def test_only_the_last_packet_is_short() -> None:
    whole, rest = cut_payload(1000, packet_size_bytes=60)
    assert (whole.payload_bits, whole.num_packets, rest.payload_bits, rest.num_packets) == (480, 2, 40, 1)


def clock(coherence: str) -> Clock:
    return Clock(coherence=coherence, packet_s=1.0, round_s=10.0)


def channel_keys(coherence: str, *, round_index: int = 0, attempt: int = 0) -> set[tuple[int, ...]]:
    rows = all_rows(2, 3, cut_payload(64, packet_size_bytes=2)[0])
    keys = clock(coherence).channel_keys(
        Purpose.CHANNEL, rows, users=2, attempt=attempt, context=context(2, round_index=round_index)
    )
    return {tuple(key) for key in keys.reshape(-1, 2).tolist()}


@pytest.mark.parametrize(("coherence", "realisations"), [("packet", 48), ("symbol", 48), ("round", 12), ("run", 12)])
def test_a_realisation_lasts_as_long_as_its_coherence(coherence: str, realisations: int) -> None:
    # 2 trials x 3 groups of 2 devices x 4 packets.
    assert len(channel_keys(coherence)) == realisations


@pytest.mark.parametrize(
    ("coherence", "renewed"), [("packet", True), ("round", True), ("run", False), ("doppler", False)]
)
def test_the_next_round_meets_a_new_channel_unless_it_lasts_the_run(coherence: str, renewed: bool) -> None:
    first, second = channel_keys(coherence), channel_keys(coherence, round_index=1)
    assert first.isdisjoint(second) if renewed else first == second


@pytest.mark.parametrize(("coherence", "renewed"), [("packet", True), ("round", False), ("run", False)])
def test_a_retransmission_meets_a_new_channel_where_packets_do(coherence: str, renewed: bool) -> None:
    first, second = channel_keys(coherence), channel_keys(coherence, attempt=1)
    assert first.isdisjoint(second) if renewed else first == second


def test_time_passes_from_packet_to_packet_and_from_round_to_round() -> None:
    rows = all_rows(1, 1, cut_payload(48, packet_size_bytes=2)[0])
    later = context(1, round_index=3)
    assert clock("packet").start_s(rows, attempt=0, context=later).tolist() == [0, 0, 0]
    assert clock("round").start_s(rows, attempt=0, context=later).tolist() == [0, 1, 2]
    assert clock("doppler").start_s(rows, attempt=0, context=later).tolist() == [30, 31, 32]
    assert clock("doppler").start_s(rows, attempt=2, context=later).tolist() == [50, 51, 52]


def test_noise_is_drawn_anew_for_every_row_and_attempt() -> None:
    rows = all_rows(3, 4, cut_payload(80, packet_size_bytes=2)[0])
    drawn = {
        tuple(key)
        for attempt in range(3)
        for key in row_keys(Purpose.NOISE, rows, attempt=attempt, context=context(3)).tolist()
    }
    assert len(drawn) == 3 * 4 * 5 * 3


def test_a_row_has_the_same_keys_in_any_batch() -> None:
    batch = cut_payload(80, packet_size_bytes=2)[0]
    many, one = all_rows(3, 4, batch), all_rows(1, 4, batch)
    for draw in (
        lambda rows, who: row_keys(Purpose.NOISE, rows, attempt=1, context=who),
        lambda rows, who: device_keys(Purpose.IMPAIRMENTS, rows, users=1, context=who),
        lambda rows, who: clock("packet").channel_keys(Purpose.CHANNEL, rows, users=1, attempt=1, context=who),
    ):
        together = draw(many, context(3))[many.trial == 2]
        assert np.array_equal(together, draw(one, context((2,))))


def test_a_moving_channel_is_drawn_anew_before_single_precision_would_freeze_it() -> None:
    moving = Clock(coherence="doppler", packet_s=1.0, round_s=10.0, doppler_hz=100.0)
    rows = all_rows(1, 1, cut_payload(48, packet_size_bytes=2)[0])
    keys, starts = set(), []
    for index in (0, 3, 4, 5, 1_000_000):
        later = context(1, round_index=index)
        starts.append(moving.start_s(rows, attempt=0, context=later))
        drawn = moving.channel_keys(Purpose.CHANNEL, rows, users=1, attempt=0, context=later)
        keys |= {tuple(key) for key in drawn.reshape(-1, 2).tolist()}
    # 4096 periods of 10 ms: packets at 0, 1, 2, 30, 31, 32, 40 s share one realisation, those from 40.96 s on the next.
    assert len(keys) == 3
    assert np.max(starts) < 40.96
    assert np.spacing(np.float32(40.96)) * 100.0 <= 2**-11
