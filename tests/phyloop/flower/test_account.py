"""The privacy account of a Flower app is that of the releases that its clients made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
from flower_app import ERROR_FREE, FADING, FIXED, NODES, MemoryGrid, adds, arrays, instructions

import phyloop
from fl.schemes.scheme import schemes
from phyloop.flower import AirGrid
from privacy.accounting import account
from privacy.events.events import Ledger, Spending
from privacy.events.noise_events import GaussianNoise
from scenarios.cli.claims import account_run
from scenarios.studies.flower.store import TRAINED, FlowerStore

SIZE = 600
UPDATES = {
    node: np.random.default_rng(number).normal(0.0, 0.1, SIZE).astype(np.float32) for number, node in enumerate(NODES)
}
LEARNING = {"rounds": 5, "local": {"clip": 1.0, "learning_rate": 0.1}}
FEW = tuple(sorted(NODES)[:2])
FLIPS = {"mechanism": "bit-flipping", "epsilon": 40.0, "kappa": 1.0, "channel": "agnostic"}


def sent(folder: Path, **settings: Any) -> AirGrid:
    """Return the grid of an app of three rounds; in the first, the two nodes with the lowest ids send alone."""
    air = AirGrid(MemoryGrid(adds(UPDATES)), seed=2, out=folder, **settings)
    for nodes in (FEW, NODES, NODES):
        list(air.send_and_receive(instructions(arrays(w=np.zeros(SIZE, np.float32)), tuple(nodes))))
    air.close()
    return air


def ledger_in(folder: Path) -> Ledger:
    with FlowerStore.open_existing(folder) as store:
        (found,) = store.read_accounts(list(store.tasks)).values()
    return found.ledger


def test_gaussian_noise_counts_once_per_upload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    privacy = {"mechanism": "gaussian", "epsilon": 10.0}
    learning = {**LEARNING, "local": {"clip": 1.0, "learning_rate": 0.1, "steps": 1}}  # of more nothing is proved
    air = sent(tmp_path, link=ERROR_FREE, privacy=privacy, learning=learning, samples=100)
    multiplier = air.rounds[0].numbers["sigma"] / air.rounds[0].numbers["sensitivity"]
    ledger = ledger_in(tmp_path)
    np.testing.assert_array_equal(np.isnan(ledger.parameter), [[False, False, True, True], [False] * 4, [False] * 4])
    np.testing.assert_allclose(ledger.parameter[~np.isnan(ledger.parameter)], multiplier, rtol=1e-12)
    assert TRAINED in ledger.assumptions
    claims = phyloop.epsilon(tmp_path, delta=1e-6)
    three = [Spending(event=GaussianNoise(noise_multiplier=multiplier), count=3)]
    proved = claims[(claims["scope"] == "run") & (claims["standing"] == "proved")]["epsilon"]
    assert proved.tolist() == pytest.approx([account(three, delta=1e-6, accountant="exact")], rel=1e-6)
    account_run(tmp_path, delta=1e-6, accountants=(), relation=None, everything=False, csv_file=None)
    assert f"{proved.iloc[0]:.4g}" in capsys.readouterr().out


def test_flipped_bits_count_at_the_rate_that_was_drawn(tmp_path: Path) -> None:
    air = sent(tmp_path, link=ERROR_FREE, codec=FIXED, privacy=FLIPS, learning=LEARNING, samples=100)
    (rate,) = set(air.link["flip_probability"])
    found = ledger_in(tmp_path).parameter
    assert set(found[~np.isnan(found)]) == {rate}
    assert np.isnan(found[0]).sum() == 2


def test_a_scheme_counts_at_its_bound_of_every_round(tmp_path: Path) -> None:
    scheme = {"name": "probit", "epsilon": 1.0, "l1_clip": 1.0, "bound": "adaptive", "b": 20.0}
    air = sent(tmp_path, link=FADING, scheme=scheme)
    bounds = [one.numbers["b"] for one in air.rounds]
    assert len(set(bounds)) > 1
    losses = [schemes.read(scheme).privacy_loss(b, num_values=SIZE) for b in bounds]
    np.testing.assert_allclose(np.nanmax(ledger_in(tmp_path).parameter, axis=1), losses, rtol=1e-12)
    claims = phyloop.epsilon(tmp_path)
    assert np.isfinite(claims[~claims["channel_credited"]]["epsilon"]).all()


def test_without_a_mechanism_there_is_no_guarantee(tmp_path: Path) -> None:
    sent(tmp_path, link=FADING, codec=FIXED)
    assert np.isinf(phyloop.epsilon(tmp_path)["epsilon"]).all()


def test_an_app_without_a_round_has_no_ledger(tmp_path: Path) -> None:
    AirGrid(MemoryGrid(adds(UPDATES)), link=FADING, out=tmp_path).close()
    with pytest.raises(phyloop.ScenarioError, match="holds no ledger"):
        phyloop.epsilon(tmp_path)
    assert phyloop.load(tmp_path).rounds.empty
