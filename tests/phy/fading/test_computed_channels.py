"""Channels that a class computes are met as recorded ones, and what is no channel is refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import phyloop
from phy.config import LinkConfig
from phy.config.channel_source import ChannelSource, channel_sources
from phy.engines.fused.fading.traces import lines_of
from phy.links.recorded import recorded_conflicts
from phy.traces.sources.two_path import TwoPath
from phyloop.channel import save_channel
from scenarios.contracts import channel as contract
from scenarios.schema.errors import ScenarioError


class Faulty(ChannelSource):
    """One tap of random phase, with a fault."""

    name: Literal["faulty"] = "faulty"
    fault: str
    num_devices: int = 3
    num_snapshots: int = 4

    def taps(self, snapshot: int, *, devices: Any, time_s: float) -> Any:
        """Return the taps with the fault."""
        del time_s
        found = np.ones((len(devices), 1, 2), complex)
        match self.fault:
            case "real":
                found = found.real
            case "nan":
                found[0] = np.nan
            case "shape":
                found = found[..., : 1 + snapshot % 2]
            case "unseeded":
                found *= np.random.default_rng().random()
            case "together":
                found /= len(devices)
            case "silent":
                found[devices == 2] = 0.0
        return found


def link_of(**channel: Any) -> LinkConfig:
    return LinkConfig.model_validate({"channel": {"model": "trace", **channel}, "ofdm": {"num_subcarriers": 72}})


def test_two_paths_have_their_closed_form() -> None:
    """H(f) = (1 + g exp(i phi - 2 pi i f tau)) / sqrt(1 + g^2): its power is known but for the phase, float32 apart."""
    source = TwoPath(delay_samples=7, second_db=-6.0, beat_hz=25.0, sample_rate_hz=20e6, seed=3)
    frequencies = np.linspace(-5e6, 5e6, 101)
    lines = lines_of(
        link_of(source=source).channel,
        frequencies_hz=frequencies,
        offsets_s=np.zeros(1),
        moves=False,
        num_antennas=1,
        threads=1,
    )
    assert lines is not None
    ratio, time_s = 10.0 ** (-6.0 / 20.0), 5 * source.snapshot_s
    found = lines.given(np.array([[2, 5]], np.uint32), np.zeros(1, np.float32)).reshape(2, -1)
    phase = 2.0 * np.pi * (np.random.default_rng((3, 2)).random() + 25.0 * time_s)
    expected = (1.0 + ratio * np.exp(1j * phase - 2j * np.pi * frequencies * 7 / 20e6)) / np.sqrt(1.0 + ratio**2)
    assert found[0] + 1j * found[1] == pytest.approx(expected, abs=1e-5)


def test_a_link_meets_a_source_a_file_and_an_array_as_the_same_channel(tmp_path: Path) -> None:
    source = TwoPath(num_devices=3, num_snapshots=6, sample_rate_hz=20e6)
    taps = np.stack([source.taps(k, devices=np.arange(3), time_s=k * 1e-3) for k in range(6)]).astype(np.complex64)
    file = save_channel(tmp_path / "same.npz", h=taps, sample_rate_hz=20e6, snapshot_s=1e-3)
    beside: Any = {"model": "trace", "coherence": "packet"}
    settings: Any = {"num_devices": 3, "num_bits": 3000, "ofdm": {"num_subcarriers": 72}, "power": {"snr_max_db": 6}}
    bits = np.random.default_rng(1).integers(0, 2, (3, 3000))
    received = [
        phyloop.Link(**settings, **channel).send(bits, seed=4, round=2)
        for channel in (
            {"channel": {**beside, "source": source.model_dump(mode="json")}},
            {"channel": {**beside, "file": str(file)}},
            {"channel": {**beside, "taps": taps}, "sample_rate_hz": 20e6, "snapshot_s": 1e-3},
        )
    ]
    assert 0 < received[0].bit_errors.sum() < 3 * 3000
    for one in received[1:]:
        assert np.array_equal(one.bits, received[0].bits)
        assert [rate.value for rate in one.ber_by_device] == [rate.value for rate in received[0].ber_by_device]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"channel": np.ones((2, 3, 1, 4)), "sample_rate_hz": 1e6}, "float64 of shape .* give complex taps"),
        ({"channel": np.ones((3, 1, 4), complex), "sample_rate_hz": 1e6}, "of shape .* give complex taps"),
        ({"channel": np.full((2, 3, 1, 4), np.nan + 0j), "sample_rate_hz": 1e6}, "write 0 for a missing tap"),
        ({"channel": np.ones((2, 3, 1, 4), complex)}, "sample_rate_hz: is the rate of the taps"),
        ({"channel": {"model": "awgn"}, "sample_rate_hz": 1e6}, "channel has none"),
        ({"channel": "awgn"}, "no section and no array"),
        ({"channel": np.ones((2, 1, 1, 4), complex), "sample_rate_hz": 1e6}, "has 1 devices, num_devices is 3"),
    ],
)
def test_arrays_that_are_no_channel_are_refused_in_one_sentence(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as refused:
        phyloop.Link(num_devices=3, num_bits=8, **arguments)
    assert len(refused.value.errors) == 1


def test_a_channel_has_a_file_or_a_source_and_needs_model_trace() -> None:
    for channel, words in (
        ({"model": "flat", "source": "two-path"}, "source belongs to model: trace"),
        ({"model": "trace", "source": "two-path", "file": "a.npz"}, "that of its file or that of its source"),
        ({"model": "trace", "source": "three-path"}, "two-path"),
    ):
        with pytest.raises(ScenarioError, match=words):
            phyloop.Link(num_bits=8, channel=channel)


@pytest.fixture
def faulty() -> Any:
    """Register the faulty source as a plug-in would, and forget it."""
    channel_sources.register(Faulty)
    yield Faulty
    channel_sources.forget(__name__)


@pytest.mark.parametrize(
    ("fault", "words"), [("real", "no complex"), ("nan", "no finite number"), ("silent", "no power")]
)
def test_taps_that_are_none_are_a_conflict(fault: str, words: str, faulty: Any) -> None:
    conflicts = [*recorded_conflicts(link_of(source=faulty(fault=fault)), num_devices=3)]
    assert [words in one.problem for one in conflicts] == [True]


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_the_source_of_the_library_keeps_the_contract(check: Any) -> None:
    check(TwoPath(num_devices=5))


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("shape", contract.every_device_has_taps),
        ("real", contract.every_device_has_taps),
        ("unseeded", contract.a_snapshot_is_the_same_again),
        ("together", contract.a_device_has_the_same_taps_alone),
        ("silent", contract.every_device_is_heard),
    ],
)
def test_a_faulty_source_breaks_the_contract(fault: str, check: Any) -> None:
    with pytest.raises(AssertionError):
        check(Faulty(fault=fault))
