"""Our copies of the tables of TS 38.212 and TR 38.901 equal those of Sionna."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from sionna.phy.channel.tr38901 import TDL
from sionna.phy.fec.crc import CRCEncoder

from phy.coding.ldpc.plan import BaseGraph, base_matrix
from phy.config.coding import CRC_POLYNOMIALS
from phy.config.delays import delay_tables
from phy.fading.tdl import tdl_profile

MODELS = [f"{kind}-{letter}" for kind in ("tdl", "cdl") for letter in "abcde"]


@pytest.mark.parametrize("model", MODELS)
def test_delays_and_powers(model: str) -> None:
    theirs = json.loads(files("sionna.phy.channel.tr38901.models").joinpath(f"{model.upper()}.json").read_text())
    ours = delay_tables()[model]
    assert ours.los == bool(theirs["los"])
    assert ours.delays.tolist() == theirs["delays"]
    assert ours.powers_db.tolist() == theirs["powers"]


@pytest.mark.parametrize("letter", "ABCDE")
def test_tapped_delay_lines_are_normalised_alike_bit_for_bit(letter: str) -> None:
    theirs: Any = TDL(letter, 1.0, 3.5e9)
    powers, ours = np.asarray(theirs.mean_powers, float), tdl_profile(letter)
    direct = float(theirs.mean_power_los) if theirs.los else 0.0
    powers, direct = powers / powers.sum(), direct / powers.sum()
    powers[0] -= direct
    assert np.array_equal(ours.delays, np.asarray(theirs.delays, float))
    assert np.array_equal(ours.scattered, powers)
    assert ours.direct == direct


@pytest.mark.parametrize("name", CRC_POLYNOMIALS)
def test_crc_polynomials(name: str) -> None:
    taps = np.zeros(CRC_POLYNOMIALS[name][0] + 1, int)
    taps[list(CRC_POLYNOMIALS[name])] = 1
    assert np.array_equal(taps[::-1], CRCEncoder(name.upper()).crc_pol)


@pytest.mark.parametrize("graph", [1, 2])
def test_base_graphs(graph: BaseGraph) -> None:
    lines = files("sionna").joinpath(f"phy/fec/ldpc/codes/5G_bg{graph}.csv").read_text().splitlines()[2:]
    for set_index in range(8):
        theirs, row = np.full_like(base_matrix(graph, set_index), -1), 0
        for line in lines:
            first, column, *shifts = line.split(";")
            row = int(first or row)
            theirs[row, int(column)] = int(shifts[set_index])
        assert np.array_equal(base_matrix(graph, set_index), theirs)
