"""Packets in fused kernels against Sionna's chain on the same bits and keys, and against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from packet_rows import (
    NOISE_POWER,
    Fused,
    Sent,
    assert_rows_are_alone,
    assert_same,
    assert_same_gain,
    departure,
    fused,
    payload,
    sent_by_sionna,
    spec_of,
)
from radio import standard_errors_off

from phy.compile import packet_chain
from phy.config import LinkConfig
from phy.engines.fused.packets import soft
from phy.engines.fused.packets.air import _carry
from phy.links.packets.chain import ChainSpec

GRID = {
    "num_subcarriers": 24,
    "num_symbols": 7,
    "pilot_symbols": [1, 5],
    "cyclic_prefix_length": 4,
    "guard_carriers": [1, 2],
    "dc_null": True,
}
LINKS: dict[str, dict[str, Any]] = {
    "ofdm-ls": {
        "modulation": "qpsk",
        "channel": {"model": "tdl-a", "coherence": "packet", "speed_m_s": 3.0},
        "ofdm": GRID,
        "csi": {"estimator": "ls"},
        "receiver": {"num_antennas": 2},
    },
    "ofdm-lmmse": {
        "modulation": "16qam",
        "channel": {"model": "tdl-d", "coherence": "round", "speed_m_s": 30.0},
        "ofdm": GRID,
        "csi": {"estimator": "lmmse"},
    },
    "clusters": {
        "modulation": "qpsk",
        "channel": {"model": "cdl-a", "coherence": "packet", "speed_m_s": 30.0},
        "ofdm": GRID,
        "csi": {"estimator": "ls"},
        "receiver": {"num_antennas": 2},
    },
    "single-carrier": {
        "modulation": "64qam",
        "channel": {"fading": "rician", "coherence": "doppler", "speed_m_s": 30.0},
        "csi": {"error_variance": 0.01},
        "packets": {"crc": "crc16"},
    },
    "flat": {
        "modulation": "16qam",
        "channel": {"fading": "rician", "coherence": "packet"},
        "csi": {"error_variance": 0.01},
        "receiver": {"num_antennas": 2},
    },
    "coded-exact": {
        "modulation": "64qam",
        "channel": {"fading": "nakagami", "coherence": "packet"},
        "coding": {"code": "repetition", "rate": "1/2", "demapper": "app"},
    },
    "clipped": {
        "modulation": "16qam",
        "channel": {"fading": "uniform-errors", "coherence": "packet"},
        "impairments": {"phase_error_deg": 8.0, "cfo_hz": 100.0, "clipping_db": 1.0},
    },
    "phase-per-symbol": {  # over several lines of symbols
        "modulation": "bpsk",
        "channel": {"fading": "rayleigh", "coherence": "symbol"},
        "coding": {"code": "repetition", "rate": "1/3"},
        "impairments": {"phase_error_deg": 30.0, "cfo_hz": 10.0},
    },
    "ofdm-late": {
        "modulation": "qpsk",
        "channel": {"model": "tdl-a", "coherence": "packet"},
        "ofdm": GRID,
        "csi": {"estimator": "ls"},
        "impairments": {"phase_error_deg": 20.0, "timing_offset_s": 3e-6},
    },
    "noma-symbols": {
        "access": "noma",
        "modulation": "16qam",
        "channel": {"fading": "rayleigh", "coherence": "packet"},
        "csi": {"error_variance": 0.01},
        "receiver": {"num_antennas": 2, "equalizer": "zf"},
        "noma": {"group_size": 3},
        "coding": {"code": "repetition", "rate": "1/2", "demapper": "app"},
    },
    "noma-packets": {
        "access": "noma",
        "modulation": "qpsk",
        "channel": {"fading": "rician", "coherence": "doppler", "speed_m_s": 20.0},
        "csi": {"error_variance": 0.01},
        "noma": {"detector": "sic-codeword"},
        "coding": {"code": "ldpc5g", "standard": "sionna"},
    },
    "noma-joint": {
        "access": "noma",
        "modulation": "qpsk",
        "channel": {"model": "tdl-a", "coherence": "packet", "speed_m_s": 3.0},
        "ofdm": GRID,
        "receiver": {"num_antennas": 2},
        "noma": {"group_size": 3, "detector": "ml"},
        "coding": {"code": "convolutional", "demapper": "app"},
    },
    "noma-joint-uncoded": {
        "access": "noma",
        "modulation": "16qam",
        "channel": {"fading": "nakagami", "coherence": "symbol"},
        "csi": {"error_variance": 0.01},
        "noma": {"detector": "ml"},
    },
}
ALONE = [name for name in LINKS if not name.startswith("noma")]


def link_of(name: str, **changes: Any) -> LinkConfig:
    return LinkConfig.model_validate({"access": "orthogonal", "engine": "fused", **LINKS[name], **changes})


@pytest.fixture(scope="module", params=LINKS)
def sent(request: pytest.FixtureRequest) -> Sent:
    return sent_by_sionna(link_of(request.param))


def test_both_engines_agree_under_the_same_keys(sent: Sent) -> None:
    assert sent.expected.llrs is not None
    assert 0.005 < sent.expected.label_errors.sum() / sent.expected.llrs.size < 0.3
    assert_same(sent.by(fused(sent.config)), sent.expected)


def test_threads_change_no_bit(sent: Sent) -> None:
    one, two = (sent.by(fused(sent.config, threads=threads)) for threads in (1, 2))
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_row_does_not_depend_on_its_batch(sent: Sent) -> None:
    assert_rows_are_alone(sent)


def test_power_control_sees_the_same_gain(sent: Sent) -> None:
    assert_same_gain(sent)


@pytest.mark.parametrize("sent", ["noma-symbols", "noma-packets"], indirect=True)
def test_users_are_detected_from_the_strongest_on(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = fused(sent.config)
    monkeypatch.setattr(np, "argsort", lambda values, **_: np.broadcast_to(np.arange(values.shape[1]), values.shape))
    with pytest.raises(AssertionError):
        assert_same(sent.by(chain), sent.expected)


def moved_pilot(chain: Fused) -> None:
    plane = chain._plan.plane
    chain._plan = chain._plan._replace(plane=plane._replace(pilot_rows=plane.pilot_rows + np.array([0, 1])))


def other_delays(chain: Fused) -> None:
    """Every path has its phase one carrier further."""
    plane = chain._plan.plane
    chain._plan = chain._plan._replace(plane=plane._replace(response=np.roll(plane.response, 1, axis=-1)))


def faster_devices(chain: Fused) -> None:
    fades = chain._plan.fades
    chain._plan = chain._plan._replace(fades=fades._replace(step_s=1.1 * fades.step_s))


def stronger_scatter(chain: Fused) -> None:
    fades = chain._plan.fades
    chain._plan = chain._plan._replace(fades=fades._replace(scattered_part=np.float32(1.01) * fades.scattered_part))


def one_percent_more_impaired(chain: Fused) -> None:
    law, more = chain._impairments, np.float32(1.01)
    assert law is not None
    chain._impairments = law._replace(
        clipping=more * law.clipping, phase=more * law.phase, reach=float(more) * law.reach
    )


def faults_of(config: LinkConfig) -> list[Callable[[Fused], None]]:
    """Faults in what the link makes use of."""
    if not config.impairments.none:
        return [one_percent_more_impaired]
    if config.ofdm == "none":
        return [faster_devices if config.channel.coherence == "doppler" else stronger_scatter]
    return [other_delays, faster_devices, *([] if config.csi == "perfect" else [moved_pilot])]


def test_a_fault_in_the_plan_is_detected(sent: Sent) -> None:
    for fault in faults_of(sent.config):
        chain = fused(sent.config)
        fault(chain)
        with pytest.raises(AssertionError):
            assert_same(sent.by(chain), sent.expected)


def test_noise_of_another_scale_is_detected(sent: Sent) -> None:
    with pytest.raises(AssertionError):
        assert_same(sent.by(fused(sent.config), noise_power=np.float32(1.02 * NOISE_POWER)), sent.expected)


@pytest.mark.parametrize("sent", ["coded-exact", "noma-symbols"], indirect=True)
def test_rows_demapped_one_by_one_have_the_bits_of_all_at_once(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    together = sent.by(fused(sent.config))
    monkeypatch.setattr(soft, "_SYMBOLS_AT_ONCE", 1)
    for first, second in zip(together, sent.by(fused(sent.config)), strict=True):
        np.testing.assert_array_equal(first, second)


def test_links_of_one_bit_per_axis_compile_no_demapper_of_many_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soft, "_demap", None)
    for modulation in ("bpsk", "qpsk"):
        fused(link_of("coded-exact", modulation=modulation)).send(payload(2), departure(2), None)
    with pytest.raises(TypeError, match="not callable"):
        fused(link_of("coded-exact")).send(payload(2), departure(2), None)


def test_links_that_differ_in_numbers_alone_run_one_kernel() -> None:
    """Another kernel would compile for seconds."""
    fused(link_of("ofdm-ls")).send(payload(2), departure(2), None)
    compiled = len(_carry.signatures)
    for config in (link_of("clusters"), link_of("ofdm-ls", modulation="64qam", receiver={"num_antennas": 3})):
        fused(config).send(payload(2), departure(2), None)
    assert len(_carry.signatures) == compiled


@pytest.mark.parametrize("antennas", [1, 2])
def test_grids_err_as_the_closed_form_of_rayleigh_fading_says(antennas: int) -> None:
    """23 taps of 20 waves: at every carrier all but Gaussian, so BPSK has Proakis (13.4-15) with known channels."""
    config = link_of("ofdm-ls", modulation="bpsk", csi="perfect", receiver={"num_antennas": antennas})
    rows, mean_snr = 4000, 2.0
    chain = fused(config)
    there = departure(rows)._replace(
        amplitude=np.ones((rows, 1), np.float32),
        gain=np.ones((rows, 1), np.float32),
        noise_power=np.float32(1.0 / mean_snr),
    )
    heard = chain.send(payload(rows), there, None)
    rates = heard.label_errors.sum(axis=(1, 2)) / chain.coded_bits
    mu = np.sqrt(mean_snr / (1.0 + mean_snr))
    alone = (1.0 - mu) / 2.0
    assert abs(standard_errors_off(rates, alone if antennas == 1 else alone**2 * (2.0 + mu))) < 4


@pytest.mark.parametrize(
    ("changes", "whole"),
    [
        ({}, True),
        ({"multiplexing": "ofdma"}, True),
        ({"coding": {"code": "ldpc5g"}}, True),
        ({"coding": {"code": "ldpc5g"}, "modulation": "16qam"}, True),
        ({"coding": {"code": "turbo"}}, True),
        ({"coding": {"code": "polar5g"}}, True),
        ({"coding": {"code": "polar5g", "list_size": 32, "standard": "sionna"}}, False),
        ({"channel": {"model": "cdl-a"}}, True),
        ({"ofdm": {**GRID, "domain": "time"}}, True),
        ({"impairments": {"cfo_hz": 10.0}}, True),
        ({"access": "noma", "csi": "perfect", "ofdm": {**GRID, "domain": "time"}}, False),
        ({"access": "noma"}, False),
        ({"access": "noma", "csi": "perfect"}, False),
        ({"access": "noma", "csi": "perfect", "receiver": {"num_antennas": 2, "equalizer": "zf"}}, True),
        ({"access": "noma", "csi": "perfect", "noma": {"detector": "ml"}}, True),
        ({"access": "noma", "csi": "perfect", "receiver": {"num_antennas": 1}}, True),
    ],
)
def test_auto_takes_kernels_where_they_have_the_whole_chain(
    changes: dict[str, Any], whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phy.engines.choice.sees_gpu", lambda: False)
    monkeypatch.setattr("phy.engines.choice.has_vectors", lambda: True)
    monkeypatch.setattr("phy.engines.sionna.packets.compiled_chain", ChainSpec.__repr__)
    config = link_of("ofdm-ls", engine="auto", **changes)
    assert isinstance(packet_chain(spec_of(config)), Fused) == whole
