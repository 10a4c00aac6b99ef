"""Dispersion of a recorded channel: spreads, correlation over frequency and of antennas against their closed forms, and
blocks of a trace against its snapshots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import phyloop
from phy.traces import recording
from phy.traces import trace as traces
from phy.traces.dispersion import channel_dispersion, falls_below
from phy.traces.statistics import channel_statistics
from phy.traces.trace import defects, open_trace
from phyloop.channel import save_channel

DELAY_S = 640e-9


def two_paths(path: Path, *, antennas: int = 2) -> Path:
    """Write two paths of equal power, 640 ns and 60 degrees apart, in 30 snapshots of three devices."""
    rng = np.random.default_rng(1)
    a = np.exp(2j * np.pi * rng.random((30, 3, antennas, 2)))
    a[:, :, 1] = a[:, :, 0]  # an antenna that hears the same
    tau = np.broadcast_to([1e-6, 1e-6 + DELAY_S], (30, 3, 2))
    azimuth = np.broadcast_to([150.0, -150.0], (30, 3, 2))
    position = np.arange(9.0).reshape(1, 3, 3)
    facts = {"azimuth_deg": azimuth, "position_m": position, "server_m": np.zeros(3), "snapshot_s": 0.1}
    return save_channel(path, a=a, tau_s=tau, names=["ann", "ben", "<b>eve"], source="two paths", **facts)


def test_two_equal_paths_have_the_spreads_and_the_correlation_of_their_closed_form(tmp_path: Path) -> None:
    found = channel_dispersion(open_trace(two_paths(tmp_path / "two.npz")))
    assert found.angular_spread_deg is not None
    expected = np.rad2deg(np.sqrt(-2.0 * np.log(np.cos(np.deg2rad(30.0)))))  # across 180 degrees
    np.testing.assert_allclose(found.angular_spread_deg, expected, rtol=1e-6)
    offsets_hz = np.linspace(0.0, 2e6, 41)
    # |cos(pi f tau)|, with delays as bins of 10 ns tell them: the second one begins 630 ns behind the first.
    seen_s = found.delays_s[-1]
    assert abs(seen_s - DELAY_S) <= found.delays_s[1] * 1.01
    curve = np.abs(np.cos(np.pi * offsets_hz * seen_s))
    np.testing.assert_allclose(found.over_frequency(offsets_hz), np.tile(curve, (3, 1)), atol=1e-9)
    np.testing.assert_allclose(found.antennas, np.ones((2, 2)), atol=1e-6)


def test_antennas_that_hear_independent_fades_do_not_correlate(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    h = rng.normal(size=(2000, 4, 2, 1)) + 1j * rng.normal(size=(2000, 4, 2, 1))
    save_channel(tmp_path / "h.npz", h=h, sample_rate_hz=1e6)
    found = channel_dispersion(open_trace(tmp_path / "h.npz")).antennas
    # Of 100 snapshots each: |R| is Rayleigh of mean sqrt(pi / 400); four devices, 4 standard errors.
    assert abs(found[0, 1] - np.sqrt(np.pi / 400.0)) < 4.0 * np.sqrt((4.0 - np.pi) / 400.0 / 4.0)


def test_a_curve_meets_a_level_between_two_of_its_points() -> None:
    assert falls_below(np.array([1.0, 0.8, 0.2]), 0.5) == pytest.approx(1.5)
    assert falls_below(np.array([1.0, 0.8]), 0.5) is None


@pytest.mark.parametrize("part", [7, 40, 1 << 18])
def test_blocks_of_any_size_give_the_numbers_of_whole_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    trace = open_trace(two_paths(tmp_path / "two.npz", antennas=3))
    usual = channel_statistics(trace)
    for module in (traces, recording):
        monkeypatch.setattr(module, "PART", part)
    again = open_trace(tmp_path / "two.npz")
    found = channel_statistics(again)
    for name in ("power", "spread_s", "narrow"):
        np.testing.assert_array_equal(getattr(found, name), getattr(usual, name))
    whole = np.array([again.read_snapshot(index).power for index in range(30)])
    np.testing.assert_allclose(found.power, whole, rtol=1e-12)
    np.testing.assert_array_equal(again.amplitudes, np.sqrt(sum(whole) / 30))  # to the last digit
    assert not any(wrong for wrong, _ in defects(again))


def test_the_page_holds_all_figures_and_nothing_from_elsewhere(tmp_path: Path) -> None:
    channel = phyloop.Channel(two_paths(tmp_path / "two.npz"))
    titles = list(channel.figures())
    assert len(titles) == 5
    html = channel.report(tmp_path / "two.html").read_text()
    assert html.count("data:image/svg+xml;base64,") == 5
    assert all(title in html for title in titles)
    assert "<b>eve" not in html
    assert "&lt;b&gt;eve" in html
    assert "http" not in html.replace("http-equiv", "")
    assert "azimuth spread [degrees]" in html


def test_a_file_that_could_not_be_simulated_has_no_page(tmp_path: Path) -> None:
    np.savez(tmp_path / "dead.npz", a=np.zeros((3, 2, 1, 1), complex), tau_s=np.zeros((3, 2, 1)))
    with pytest.raises(phyloop.ScenarioError, match="device 0 has no power in any snapshot"):
        phyloop.Channel(tmp_path / "dead.npz").report(tmp_path / "dead.html")
    assert not (tmp_path / "dead.html").exists()
