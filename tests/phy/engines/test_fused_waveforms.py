"""Packets whose OFDM symbols are carried as samples: fused kernels against Sionna's chain on the same bits and keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import types
from packet_rows import (
    Sent,
    assert_rows_are_alone,
    assert_same,
    assert_same_gain,
    departure,
    fused,
    payload,
    sent_by_sionna,
)

from phy.config import LinkConfig
from phy.config.delays import delay_tables
from phy.engines.fused.packets.air import _carry
from phy.engines.fused.packets.chain import FusedPacketChain

GRID = {
    "num_subcarriers": 24,
    "num_symbols": 7,
    "pilot_symbols": [1, 5],
    "cyclic_prefix_length": 4,
    "guard_carriers": [1, 2],
    "dc_null": True,
}
IN_TIME = {**GRID, "domain": "time"}
IMPAIRMENTS = {"cfo_hz": 300.0, "clipping_db": 1.0, "phase_error_deg": 8.0, "timing_offset_s": 2e-6}
LINKS: dict[str, dict[str, Any]] = {
    "offset": {
        "channel": {"model": "tdl-a", "coherence": "packet", "speed_m_s": 3.0},
        "ofdm": GRID,
        "csi": {"estimator": "ls"},
        "receiver": {"num_antennas": 2},
        "impairments": {"cfo_hz": 500.0},
    },
    "clipped": {
        "modulation": "64qam",
        "channel": {"model": "tdl-d", "coherence": "round", "speed_m_s": 30.0},
        "ofdm": GRID,
        "csi": {"estimator": "lmmse"},
        "impairments": {"clipping_db": 2.0},
    },
    "all-impairments": {
        "modulation": "16qam",
        "channel": {"fading": "rayleigh", "coherence": "packet"},
        "ofdm": GRID,
        "csi": {"error_variance": 0.01},
        "impairments": IMPAIRMENTS,
    },
    "time-awgn": {"modulation": "16qam", "channel": {"fading": "constant"}, "ofdm": IN_TIME},
    "time-still": {
        "channel": {"model": "tdl-a", "coherence": "packet"},
        "ofdm": IN_TIME,
        "csi": {"estimator": "ls"},
        "receiver": {"num_antennas": 2},
        "coding": {"code": "ldpc5g", "rate": "1/2", "standard": "sionna"},
    },
    "time-moving": {  # fast, and later than the prefix: interference between symbols and carriers
        "channel": {"model": "tdl-c", "coherence": "packet", "delay_spread_s": 3e-6, "speed_m_s": 60.0},
        "ofdm": IN_TIME,
    },
    "time-late": {  # still, and later than the prefix
        "channel": {"model": "tdl-a", "coherence": "packet", "delay_spread_s": 3e-6},
        "ofdm": IN_TIME,
        "receiver": {"num_antennas": 2},
        "impairments": {"cfo_hz": 300.0},
    },
    "time-slow-late": {  # path gains of late paths at few instants of a slot
        "channel": {"model": "tdl-d", "coherence": "packet", "delay_spread_s": 3e-6, "speed_m_s": 1.0},
        "ofdm": IN_TIME,
        "csi": {"estimator": "ls"},
    },
    "time-slow-estimated": {  # path gains at few instants of a slot, interpolated in between
        "channel": {"model": "tdl-a", "coherence": "packet", "speed_m_s": 3.0},
        "ofdm": {**IN_TIME, "num_symbols": 14},
        "csi": {"estimator": "lmmse"},
    },
    "time-wide": {  # more carriers than a line of a kernel holds
        "modulation": "bpsk",
        "coding": {"code": "repetition", "rate": "1/3"},
        "channel": {"model": "tdl-a", "coherence": "packet"},
        "ofdm": {"num_subcarriers": 1600, "num_symbols": 2, "pilot_symbols": [0], "domain": "time"},
        "csi": {"estimator": "ls"},
        "impairments": {"cfo_hz": 500.0},
    },
    "time-per-symbol": {
        "channel": {"fading": "rician", "coherence": "symbol"},
        "ofdm": IN_TIME,
        "csi": {"error_variance": 0.02},
    },
    "time-all-impairments": {
        "channel": {"model": "cdl-a", "coherence": "packet", "speed_m_s": 30.0},
        "ofdm": {**IN_TIME, "num_subcarriers": 25},
        "csi": {"estimator": "ls"},
        "impairments": IMPAIRMENTS,
    },
}


def link_of(name: str) -> LinkConfig:
    return LinkConfig.model_validate({"access": "orthogonal", "engine": "fused", "modulation": "qpsk", **LINKS[name]})


@pytest.fixture(scope="module", params=LINKS)
def sent(request: pytest.FixtureRequest) -> Sent:
    return sent_by_sionna(link_of(request.param))


def test_both_engines_agree_under_the_same_keys(sent: Sent) -> None:
    assert sent.expected.llrs is not None
    assert 0.002 < sent.expected.label_errors.sum() / sent.expected.llrs.size < 0.3
    assert_same(sent.by(fused(sent.config)), sent.expected)


def test_power_control_sees_the_same_gain(sent: Sent) -> None:
    assert_same_gain(sent)


def test_neither_threads_nor_packets_at_once_change_a_bit(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    together = sent.by(fused(sent.config, threads=1))
    monkeypatch.setattr("phy.engines.fused.waveform.carriers._SAMPLES_AT_ONCE", 1)
    for first, second in zip(sent.by(fused(sent.config, threads=2)), together, strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_row_does_not_depend_on_its_batch(sent: Sent) -> None:
    assert_rows_are_alone(sent)


def changed(chain: FusedPacketChain, **parts: Any) -> None:
    assert chain._waveforms is not None
    object.__setattr__(chain._waveforms, "plan", chain._waveforms.plan._replace(**parts))


def one_percent_more_impaired(chain: FusedPacketChain) -> None:
    assert chain._waveforms is not None
    law, more = chain._waveforms.plan.samples, np.float32(1.01)
    assert law is not None
    changed(chain, samples=law._replace(clipping=more * law.clipping, reach=float(more) * law.reach))


def offset_from_the_prefix_on(chain: FusedPacketChain) -> None:
    """Samples are counted without prefixes."""
    assert chain._waveforms is not None
    law = chain._waveforms.plan.samples
    assert law is not None
    changed(chain, samples=law._replace(numbers=np.arange(len(law.numbers), dtype=np.uint32)))


def later_by_a_sample(chain: FusedPacketChain) -> None:
    """Late paths miss one sample more."""
    assert chain._waveforms is not None
    late = chain._waveforms.plan.late
    assert late is not None
    changed(chain, late=late._replace(missed=late.missed + 1))


def other_delays(chain: FusedPacketChain) -> None:
    """Late paths come a fiftieth of a sample early."""
    assert chain._waveforms is not None
    late = chain._waveforms.plan.late
    assert late is not None
    bins = np.fft.fftfreq(late.turns.shape[2])
    turns = (late.turns[:, 0] + 1j * late.turns[:, 1]) * np.exp(2j * np.pi * 0.02 * bins)
    changed(chain, late=late._replace(turns=np.stack([turns.real, turns.imag], 1).astype(np.float32)))


def gains_that_hold(chain: FusedPacketChain) -> None:
    """Within a window gains stay as they are in its middle."""
    assert chain._waveforms is not None
    motion = chain._waveforms.plan.motion
    assert motion is not None
    changed(chain, motion=motion._replace(weights=0.0 * motion.weights))


def faults_of(config: LinkConfig) -> list[Callable[[FusedPacketChain], None]]:
    """Faults in what the link makes use of."""
    assert config.ofdm != "none"
    faults = [] if config.impairments.none else [one_percent_more_impaired]
    faults += [offset_from_the_prefix_on] if config.impairments.cfo_hz else []
    if config.interferes:
        faults += [gains_that_hold] if config.channel.max_doppler_hz else []
        last_s = delay_tables()[config.channel.model].delays.max() * config.channel.delay_spread_s
        faults += [later_by_a_sample, other_delays] if last_s > config.ofdm.prefix_s else []
    return faults


def test_a_fault_in_the_plan_is_detected(sent: Sent) -> None:
    faults = faults_of(sent.config)
    assert bool(faults) == sent.config.mixes_carriers
    for fault in faults:
        chain = fused(sent.config)
        assert isinstance(chain, FusedPacketChain)
        fault(chain)
        with pytest.raises(AssertionError):
            assert_same(sent.by(chain), sent.expected)


@pytest.mark.parametrize(("speed_m_s", "instants"), [(0.1, 3), (150.0, 7 * 4 + 1)])
def test_a_slow_channel_is_computed_at_few_instants_of_a_slot(speed_m_s: float, instants: int) -> None:
    """A fast one at its four instants of each OFDM symbol."""
    channel = {"model": "tdl-a", "coherence": "packet", "speed_m_s": speed_m_s}
    chain = fused(LinkConfig.model_validate({**link_of("time-still").model_dump(), "channel": channel}))
    assert isinstance(chain, FusedPacketChain)
    assert chain._waveforms is not None
    assert chain._waveforms.plan.line.plane.instants == instants


def test_waveforms_that_do_not_interfere_stay_on_their_carriers() -> None:
    """Every bit, energy and soft value as in the frequency domain."""
    time = link_of("time-still")
    assert time.ofdm != "none"
    frequency = time.model_copy(update={"ofdm": time.ofdm.model_copy(update={"domain": "frequency"})})
    rows = departure(6)
    arrivals = []
    for config in (time, frequency):
        chain = fused(config)
        arrivals.append(chain.send(payload(6), rows, np.zeros((6, 1, chain.coded_bits), np.float32)))
    for one, other in zip(*arrivals, strict=True):
        np.testing.assert_array_equal(one, other)


def test_waveforms_of_the_same_channel_knowledge_run_one_kernel_of_the_receiver_over_any_channel() -> None:
    config = link_of("offset")
    fused(config).send(payload(2), departure(2), None)
    compiled = len(_carry.signatures)
    impairments = {"clipping_db": 3.0, "timing_offset_s": 1e-6}
    changed_link = LinkConfig.model_validate({**config.model_dump(), "modulation": "64qam", "impairments": impairments})
    fused(changed_link).send(payload(2), departure(2), None)
    flat = {"fading": "rayleigh", "coherence": "packet"}
    fused(LinkConfig.model_validate({**config.model_dump(), "channel": flat})).send(payload(2), departure(2), None)
    assert len(_carry.signatures) == compiled
    own = next(signature for signature in _carry.signatures if signature[2] != types.none)
    # Impairments, labels, waves, path gains and carriers at nodes: packets have them already when they arrive.
    assert [own[place] for place in (1, 6, 15, 16, 17)] == [types.none] * 5
