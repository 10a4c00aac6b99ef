"""What may be credited to the errors of a recorded channel, whose neighbouring snapshots are alike for all devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl.uplink.channel_credit import errors_together, law_of_errors, packets_are_independent
from fl.uplink.senders import exchangeable
from phy.config import LinkConfig
from phyloop.channel import save_channel

GRID = {"num_subcarriers": 64, "subcarrier_spacing_hz": 30e3, "cyclic_prefix_length": 16}


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return the file of a recorded channel."""
    rng = np.random.default_rng(1)
    a = rng.normal(size=(10, 4, 1, 3)) + 1j * rng.normal(size=(10, 4, 1, 3))
    return str(save_channel(tmp_path / "t.npz", a=a, tau_s=rng.random((10, 4, 3)) * 1e-7, snapshot_s=0.1))


def link(file: str, coherence: str, **keys: Any) -> LinkConfig:
    """Return an uncoded QPSK link over a trace."""
    channel = {"model": "trace", "file": file, "coherence": coherence}
    return LinkConfig.model_validate({"channel": channel, **keys}).resolve_digital()


@pytest.mark.parametrize("coherence", ["packet", "round", "run"])
def test_packets_over_a_trace_are_not_independent(file: str, coherence: str) -> None:
    assert not packets_are_independent(link(file, coherence))
    fading = {"fading": "rayleigh", "coherence": "packet"}
    assert packets_are_independent(LinkConfig.model_validate({"channel": fading}).resolve_digital())


def test_a_probe_over_several_snapshots_is_one_look(file: str) -> None:
    one = link(file, "packet")
    assert errors_together(one) == max(8 * one.packet_size_bytes, one.probe_bits)
    assert errors_together(link(file, "round")) == 1


def test_errors_of_a_round_are_independent_in_a_narrow_band_alone(file: str) -> None:
    assert law_of_errors(link(file, "round")) == "independent"
    assert law_of_errors(link(file, "round", ofdm=GRID)) == "unknown"
    assert law_of_errors(link(file, "packet")) == "unknown"


def test_devices_of_a_trace_are_not_exchanged(file: str) -> None:
    assert not exchangeable(link(file, "round"))
