"""Positions of the symbols of a packet on the OFDM grid, and their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from launches import launch, link, observe

from phy.config import OfdmConfig
from phy.frontends.build import build_frontend
from phy.frontends.resource_grid import Grid

WIDE = OfdmConfig(num_subcarriers=32, guard_carriers=(3, 4), dc_null=True, num_symbols=7, pilot_symbols=(2, 5))


def grid_of(num_symbols: int, *, ofdm: OfdmConfig = WIDE, users: int = 1, blocks: int = 1) -> Grid:
    return Grid.of(ofdm, num_users=users, num_symbols=num_symbols, num_blocks=blocks)


@pytest.mark.parametrize("num_symbols", [1, 23, 24, 25, 119, 120, 121, 500])
@pytest.mark.parametrize("users", [1, 2])
def test_every_symbol_comes_back_in_order(num_symbols: int, users: int) -> None:
    grid = grid_of(num_symbols, users=users)
    symbols = launch(3, num_symbols, users=users).symbols
    placed = grid.place(symbols)
    assert placed.shape == (3, users, grid.num_ofdm_symbols, 24)
    np.testing.assert_array_equal(grid.unpack(grid.take(placed, grid.data_rows)), symbols)
    assert grid.counted.sum() == num_symbols
    assert grid.num_slots == -(-num_symbols // 120)


def test_symbols_fill_carriers_first_and_go_around_the_pilots() -> None:
    grid = grid_of(200)
    numbered = np.arange(200, dtype=np.complex64)[None, None]
    placed = np.asarray(grid.place(numbered))[0, 0]
    np.testing.assert_array_equal(placed[[0, 1, 3, 4, 6]].ravel(), numbered[0, 0, :120])
    np.testing.assert_array_equal(placed[[7, 8, 10]].ravel(), numbered[0, 0, 120:192])
    np.testing.assert_array_equal(placed[11, :8], numbered[0, 0, 192:])
    # Filler and pilots are QPSK of unit energy.
    np.testing.assert_allclose(np.abs(placed[11, 8:]), 1.0, rtol=1e-6)
    np.testing.assert_allclose(np.abs(placed[[2, 5, 9, 12]]), 1.0, rtol=1e-6)


@pytest.mark.parametrize("fft_size", [32, 33])
@pytest.mark.parametrize("dc_null", [False, True])
def test_carriers_are_those_of_sionnas_grid(fft_size: int, dc_null: bool) -> None:
    from sionna.phy.channel import subcarrier_frequencies
    from sionna.phy.ofdm import ResourceGrid

    ofdm = OfdmConfig(num_subcarriers=fft_size, guard_carriers=(3, 4), dc_null=dc_null)
    theirs = ResourceGrid(14, fft_size, 15e3, num_guard_carriers=(3, 4), dc_null=dc_null)
    ours = grid_of(1, ofdm=ofdm)
    np.testing.assert_array_equal(ours.carriers, theirs.effective_subcarrier_ind)
    np.testing.assert_allclose(ours.frequencies_hz, np.asarray(subcarrier_frequencies(fft_size, 15e3))[ours.carriers])


@pytest.mark.parametrize("users", [2, 3, 5])
def test_users_take_turns_on_the_pilot_carriers_and_spend_as_much_as_on_data(users: int) -> None:
    pilots = grid_of(1, users=users).pilots
    busy = np.abs(pilots) > 0
    assert (busy.sum(axis=0) == 1).all()
    np.testing.assert_allclose((np.abs(pilots) ** 2).sum(axis=-1), 24.0, rtol=1e-6)


def test_one_block_of_carriers_each_makes_a_longer_packet_and_costs_the_same_energy() -> None:
    ofdm = OfdmConfig(num_subcarriers=64, cyclic_prefix_length=8, pilot_symbols=())
    frontends = [
        build_frontend(link(ofdm=ofdm, multiplexing="ofdma"), num_users=1, num_symbols=64 * 14, num_devices=count)
        for count in (1, 4)
    ]
    assert frontends[1].airtime_s == pytest.approx(4 * frontends[0].airtime_s)
    sent = launch(2, 64 * 14)
    energies = [observe(frontend, sent).transmit_energy for frontend in frontends]
    np.testing.assert_allclose(energies[1], energies[0], rtol=1e-5)
    assert frontends[1].channel_uses == 4 * 14 * (16 + 8)


@pytest.mark.parametrize(("blocks", "users", "word"), [(25, 1, "cannot share"), (1, 25, "collide")])
def test_more_devices_than_carriers_are_refused(blocks: int, users: int, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        grid_of(10, users=users, blocks=blocks)


def test_estimation_without_pilots_is_refused() -> None:
    config: Any = link(ofdm=OfdmConfig(pilot_symbols=()), csi={"estimator": "ls"})
    with pytest.raises(ValueError, match="needs pilots"):
        build_frontend(config, num_users=1, num_symbols=10)


def test_the_full_transform_holds_the_carriers_in_use_and_nothing_else() -> None:
    grid = grid_of(50)
    placed = np.asarray(grid.place(launch(2, 50).symbols))
    full = np.asarray(grid.spread(placed))
    np.testing.assert_array_equal(np.asarray(grid.select(full)), placed)
    assert not np.delete(full, grid.carriers, axis=-1).any()
