"""Who takes part, and under which index on the link."""

from __future__ import annotations

import numpy as np
import pytest

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.upload import upload_plan
from fl.uplink.participation import Participants, Participation, ParticipationConfig
from fl.uplink.senders import SenderIndex
from phy.config import LinkConfig

FADES = {"channel": {"model": "flat", "fading": "rayleigh"}}


def drawn(config: ParticipationConfig, *, rounds: int = 400, steps: int = 5, trial: int = 0) -> list[Participants]:
    who = Participation(config, samples=np.ones(30), steps=steps, seed=5, trial=trial)
    return [who.of(index) for index in range(rounds)]


def test_all_take_part_unless_told() -> None:
    (who,) = drawn(ParticipationConfig(), rounds=1)
    assert who.devices.tolist() == list(range(30))
    assert who.sends.all()
    assert (who.steps == 5).all()


def test_every_device_is_chosen_equally_often() -> None:
    config = ParticipationConfig(devices_per_round=6)
    chosen = np.stack([np.bincount(who.devices, minlength=30) for who in drawn(config)])
    assert (chosen.sum(axis=1) == 6).all()
    assert chosen.max() == 1
    share = chosen.mean(axis=0)
    assert np.abs(share - 0.2).max() < 4 * np.sqrt(0.2 * 0.8 / 400)


def test_devices_drop_out_and_straggle_as_often_as_told() -> None:
    who = drawn(ParticipationConfig(dropout=0.3, straggling=0.4))
    sends, steps = np.stack([one.sends for one in who]), np.stack([one.steps for one in who])
    n = sends.size
    assert abs(sends.mean() - 0.7) < 4 * np.sqrt(0.21 / n)
    assert abs((steps < 5).mean() - 0.4) < 4 * np.sqrt(0.24 / n)
    counts = np.bincount(steps[steps < 5], minlength=5)
    assert counts[0] == 0
    late = counts.sum()
    assert np.abs(counts[1:] / late - 0.25).max() < 4 * np.sqrt(0.1875 / late)


def test_another_probability_of_dropping_leaves_the_choice_as_it_was() -> None:
    few = drawn(ParticipationConfig(devices_per_round=6), rounds=20)
    dropping = drawn(ParticipationConfig(devices_per_round=6, dropout=0.5), rounds=20)
    assert all((a.devices == b.devices).all() for a, b in zip(few, dropping, strict=True))
    other = drawn(ParticipationConfig(devices_per_round=6), rounds=20, trial=1)
    assert any((a.devices != b.devices).any() for a, b in zip(few, other, strict=True))


@pytest.mark.parametrize(
    ("link", "count"),
    [
        ({}, 3),
        (FADES, 3),
        ({"channel": {"model": "flat", "fading": "rayleigh", "coherence": "run"}}, 8),
        ({"channel": {"model": "flat", "gain": [1.0] * 8}}, 8),
        ({"channel": {"model": "flat", "cell": {}}}, 8),
        ({"power": {"policy": "closed-loop", "loop": {"target": "ber"}}}, 8),
    ],
    ids=["constant", "fades anew", "fades once", "own gains", "own places", "own power"],
)
def test_indices_are_shared_only_where_no_device_has_a_channel_of_its_own(link: dict[str, object], count: int) -> None:
    config = FedAvgConfig.model_validate({"num_devices": 8, "participation": {"devices_per_round": 3}})
    assert SenderIndex(upload_plan(config), link=LinkConfig.model_validate(link)).count == count


def test_devices_that_are_chosen_by_their_channels_keep_their_indices() -> None:
    part = {"devices_per_round": 3, "selection": "best-channel"}
    config = FedAvgConfig.model_validate({"num_devices": 8, "participation": part})
    assert SenderIndex(upload_plan(config), link=LinkConfig.model_validate(FADES)).count == 8


@pytest.mark.parametrize(
    ("link", "empty"),
    [
        ({"packets": {"crc": "crc16"}}, (2,)),
        ({"packets": {"crc": "crc16"}, "channel": {"model": "flat", "gain": [1.0] * 8}}, (0, 1, 3, 4, 5, 6)),
        ({}, ()),
    ],
    ids=["shared", "own", "apart"],
)
def test_unused_indices_are_told_to_links_on_which_devices_may_meet(
    link: dict[str, object], empty: tuple[int, ...]
) -> None:
    config = FedAvgConfig.model_validate({"num_devices": 8, "participation": {"devices_per_round": 3}})
    assert SenderIndex(upload_plan(config), link=LinkConfig.model_validate(link)).unused(np.array([2, 7])) == empty


@pytest.mark.parametrize("link", [{}, {"channel": {"model": "flat", "gain": [1.0] * 8}}], ids=["shared", "own"])
def test_what_was_measured_at_an_index_is_that_of_its_device(link: dict[str, object]) -> None:
    config = FedAvgConfig.model_validate({"num_devices": 8, "participation": {"devices_per_round": 3}})
    index = SenderIndex(upload_plan(config), link=LinkConfig.model_validate(link))
    devices = np.array([2, 7])
    at = index.of(devices)
    rows = index.spread(np.array([[1.0], [2.0]], np.float32), at)
    assert rows.shape == (index.count, 1)
    assert index.owners(devices)[at].tolist() == [2, 7]
    told = index.place("snr_db", rows[:, 0], devices)
    assert np.flatnonzero(~np.isnan(told)).tolist() == [2, 7]
    assert told[[2, 7]].tolist() == [1.0, 2.0]
