"""Schemes and privacy mechanisms of an `AirGrid`, and settings that it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
from flower_app import ERROR_FREE, FADING, FIXED, NODES, MemoryGrid, adds, arrays, instructions

from fl.base.errors import LearningError
from fl.models.federated import Piece
from fl.schemes.coders.coder import Senders
from fl.schemes.scheme import schemes
from fl.uplink.build import build_response
from fl.uplink.transport import BitTransport
from phy.config import LinkConfig
from phy.engines.choice import with_engine
from phy.fading.block_taps import UplinkContext
from phyloop.flower import AirGrid
from scenarios.schema.errors import ScenarioError
from scenarios.studies.folders import study_in, write_report_of

SIZE = 600
UPDATES = {
    node: np.random.default_rng(number).normal(0.0, 0.1, SIZE).astype(np.float32) for number, node in enumerate(NODES)
}
ORDER = sorted(NODES)
FLIPS = {"mechanism": "bit-flipping", "epsilon": 40.0, "kappa": 1.0, "channel": "agnostic"}
LEARNING = {"rounds": 5, "local": {"clip": 1.0, "learning_rate": 0.1}}


def received(air: AirGrid) -> np.ndarray:
    """Return the updates that the server receives of all clients, `[K, M]`."""
    replies = air.send_and_receive(instructions(arrays(w=np.zeros(SIZE, np.float32))))
    own = {one.metadata.src_node_id: one.content.array_records["arrays"]["w"].numpy() for one in replies}
    return np.stack([own[node] for node in ORDER])


def aggregates(scheme: dict[str, Any], link: dict[str, Any], *, seed: int, rounds: int) -> list[np.ndarray]:
    """Return what the scheme itself makes of the updates of all clients in each round."""
    config, on_air = schemes.read(scheme), with_engine(LinkConfig.model_validate(link).resolve_digital())
    coder = config.build(pieces=(Piece(name="w", shape=(SIZE,), offset=0),))
    transport = BitTransport(
        on_air, protection=build_response(config, link=on_air), num_devices=4, num_bits=config.upload_bits(SIZE)
    )
    devices, found = np.arange(4), []
    for index in range(rounds):
        context = UplinkContext(seed=seed, trials=(0,), round_index=index)
        plan = transport.begin(context)
        coder.begin(context, devices=devices, flip_rate=plan.observed.get("probed_low", np.zeros(4)))
        payload = coder.encode(np.stack([UPDATES[node] for node in ORDER]), devices=devices, context=context)
        arrived, _ = transport.send(payload, plan=plan, context=context)
        factor = np.ones(4) if plan.factor is None else plan.factor
        senders = Senders(devices=devices, context=context, weights=np.full(4, 0.25), factor=factor)
        found.append(coder.aggregate(arrived, senders))
    return found


@pytest.mark.parametrize(
    "scheme",
    [
        {"name": "sign", "vote": "mean"},
        {"name": "sign", "vote": "mean", "epsilon": 2.0},
        {"name": "probit"},
        {
            "name": "probit",
            "epsilon": 1.0,
            "l1_clip": 1.0,
            "bound": "adaptive",
            "channel": "native",
            "confidence": 0.99,
        },
        {"name": "jopeq"},
        {"name": "mvu"},
    ],
    ids=lambda scheme: "-".join(str(value) for value in scheme.values()),
)
def test_the_mean_of_the_clients_is_the_aggregate_of_the_scheme(scheme: dict[str, Any]) -> None:
    air = AirGrid(MemoryGrid(adds(UPDATES)), link=FADING, scheme=scheme, seed=2)
    for expected in aggregates(scheme, FADING, seed=2, rounds=3):
        np.testing.assert_allclose(received(air).mean(axis=0), expected, rtol=1e-4, atol=1e-5)


def test_laplace_over_an_error_free_link_adds_its_noise() -> None:
    scheme = {"name": "laplace", "epsilon": 3.0}
    (expected,) = aggregates(scheme, ERROR_FREE, seed=2, rounds=1)
    own = received(AirGrid(MemoryGrid(adds(UPDATES)), link=ERROR_FREE, scheme=scheme, seed=2)).mean(axis=0)
    np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-6)


def test_gaussian_noise_has_the_variance_of_the_mechanism(tmp_path: Path) -> None:
    air = AirGrid(
        MemoryGrid(adds(UPDATES)),
        link=ERROR_FREE,
        privacy={"mechanism": "gaussian", "epsilon": 10.0},
        learning=LEARNING,
        samples=[100, 200, 400, 800],
        out=tmp_path,
    )
    noise = received(air) - np.stack([UPDATES[node] for node in ORDER])
    spread = noise.std(axis=1)
    # Sensitivity 2 eta G / |D_n|: twice the samples, half the noise.
    np.testing.assert_allclose(spread[:-1] / spread[1:], 2.0, rtol=0.15)
    sigma = air.rounds[0].numbers["sigma"]
    np.testing.assert_allclose(spread[0], sigma, rtol=0.1)
    page = write_report_of(study_in(tmp_path), tmp_path).html.read_text()
    assert f"{sigma:.4g}" in page
    assert "10 (as printed)" in page


def test_bits_flip_at_the_rate_of_the_mechanism() -> None:
    air = AirGrid(
        MemoryGrid(adds(UPDATES)), link=ERROR_FREE, codec=FIXED, privacy=FLIPS, learning=LEARNING, samples=100
    )
    own = received(air)
    (asked,) = set(air.link["flip_probability"])
    assert 0.0 < asked < 0.5
    # The first bit of a code is the sign: flipped, it moves a number of the bound 1 by 1.
    moved = np.abs(own - np.stack([UPDATES[node] for node in ORDER])) > 0.75
    assert 0.0 < moved.mean() < 2 * asked


def test_a_budget_ends_with_its_rounds() -> None:
    privacy = {"mechanism": "gaussian", "budget": {"epsilon": 20.0}}
    learning = {**LEARNING, "rounds": 1}
    air = AirGrid(MemoryGrid(adds(UPDATES)), link=ERROR_FREE, privacy=privacy, learning=learning, samples=100)
    received(air)
    with pytest.raises(LearningError, match=r"protects 1 round, and the app sends another"):
        received(air)


REFUSED = [
    ({"scheme": "cpa"}, "bits of all clients together"),
    ({"scheme": {"name": "sign", "vote": "majority"}}, "bits of all clients together"),
    ({"scheme": "median"}, "one update per client"),
    ({"lost": "keep"}, "must be drop or previous"),
    ({"link": {"channel": {"fading": "raylei"}}}, "link.channel.fading"),
    ({"codec": {"name": "fixed-point", "bits": 3}}, "learning.codec"),
    ({"link": {"access": "superposition"}}, "link.access"),
    ({"privacy": {"mechanism": "gaussian", "epsilon": 1.0}, "learning": LEARNING}, "number of samples of each client"),
    ({"privacy": {"mechanism": "gaussian", "epsilon": 1.0}, "samples": 9}, "learning.local.clip"),
    (
        {"privacy": {"mechanism": "gaussian", "epsilon": 1.0, "budget": {"epsilon": 9.0, "calibrate": False}}},
        "only watches",
    ),
    ({"link": {**FADING, "channel": {"gain": [1.0, 2.0]}}}, "gain has length 2"),
    (
        {"privacy": {"mechanism": "bit-flipping", "epsilon": 1.0, "kappa": 1.0}, "samples": 9, "learning": LEARNING},
        "1e38",
    ),
]


AT_ONCE = [
    ({"link": {"access": "superposition"}}, "link.access"),
    ({"codec": FIXED, "scheme": "probit"}, "aggregation probit makes its own bits and never uses codec fixed-point"),
    ({"learning": {"downlink_codec": "binary32"}}, "the downlink is ideal"),
    ({"learning": {"timing": {"deadline_s": 2.0}}}, "devices whose training is simulated"),
]


@pytest.mark.parametrize(("settings", "words"), AT_ONCE, ids=[words for _, words in AT_ONCE])
def test_settings_that_exclude_each_other_are_refused_at_once(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        AirGrid(MemoryGrid(adds(UPDATES)), **{"link": FADING, **settings})


def test_a_grid_is_shown_with_its_link() -> None:
    air = AirGrid(MemoryGrid(adds(UPDATES)), link=FADING, codec=FIXED)
    received(air)
    assert repr(air) == "<AirGrid: qpsk, channel rayleigh, power fixed, 8 dB, 1 round measured>"


@pytest.mark.parametrize(("settings", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_settings_that_cannot_serve_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        received(AirGrid(MemoryGrid(adds(UPDATES)), **{"link": FADING, **settings}))
