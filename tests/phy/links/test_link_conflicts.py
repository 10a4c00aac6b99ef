"""Conflicts and warnings of a link, and the gains of its devices, checked before a run."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, standard_errors_off

from phy.compile import compile_air, compile_digital
from phy.config import ChannelConfig, LinkConfig
from phy.config.conflict import Conflict
from phy.config.delays import interference_share, line_of_sight_k, power_delay_profile
from phy.fading.gains import check_gains, device_gains
from phy.links.conflicts import link_conflicts
from phy.links.link import LinkError
from phy.links.warnings import link_warnings

MODELS = [f"{kind}-{letter}" for kind in ("tdl", "cdl") for letter in "abcde"]
GRID: dict[str, Any] = {"num_subcarriers": 16, "cyclic_prefix_length": 4}
TDL = {"model": "tdl-a"}
LOOP = {"policy": "closed-loop"}


def link(access: str = "orthogonal", modulation: str = "qpsk", **parts: Any) -> LinkConfig:
    return LinkConfig.model_validate({"access": access, "modulation": modulation, **parts})


EVERY_SECTION = link(
    coding={"code": "ldpc5g"}, ofdm=GRID, csi={"estimator": "ls"}, channel={"cell": {"shadowing": True}}
)


def conflicts_of(config: LinkConfig, *, num_devices: int = 4, payload_bits: int = 1000) -> list[Conflict]:
    return list(link_conflicts(config, num_devices=num_devices, payload_bits=payload_bits))


# First key to blame, a word of the problem, a word of the remedy; `conflicts.yaml` has those of whole scenarios.
IMPOSSIBLE: dict[str, tuple[LinkConfig, str, str, str]] = {
    "a check sum of a sum": (link("superposition", packets={"crc": "crc16"}), "packets.policy", "no packets", "leave"),
    "users that cannot be separated": (
        link("noma", noma={"ladder_db": [0, 0]}),
        "noma.ladder_db",
        "within 0 dB",
        "leave noma.ladder_db out",
    ),
    "a rate that a code has not": (
        link(coding={"code": "convolutional", "rate": 0.6}),
        "coding.block_length",
        "convolutional cannot do rate 0.6",
        "ldpc5g",
    ),
    "a rate beyond any code, by MCS and blocks": (
        link(modulation="auto", mcs=28, coding={"code": "ldpc5g", "block_length": 11, "standard": "sionna"}),
        "coding.block_length",
        "blocks from 12 to 8448",
        "auto",
    ),
    "soft values under independent flips": (
        link(error_model="iid", packets={"policy": "retransmit-combine"}),
        "packets.policy",
        "flips of error model iid have none",
        "packets.policy: retransmit",
    ),
    "a closed form of a closed loop": (link(error_model="analytic", power=LOOP), "power.policy", "no closed", "fixed"),
    "a closed loop on flips": (link(error_model="iid", power=LOOP), "power.policy", "no measurement", "fixed"),
}

SILENT = {"policy": "truncated-inversion"}
IMPOSSIBLE |= {
    "gains of other devices": (link(channel={"gain": [1.0, 2.0]}), "channel.gain", "has length 2", "num_devices: 2"),
    "flips of no bits": (link("superposition", "bpsk", error_model="iid"), "error_model", "detects none", "measured"),
    "cutoff above all": (
        link(power={**SILENT, "cutoff_db": 1}),
        *("power.cutoff_db", "every device is silent", "cutoff_db: 0"),
    ),
    "silence within a transmission": (
        link(power=SILENT, channel={"fading": "rayleigh", "coherence": "packet"}),
        *("channel.coherence", "for a whole transmission", "coherence: round"),
    ),
    "a closed form of an estimate": (
        link(error_model="analytic", csi={"error_variance": 0.1}, power={"policy": "fixed"}),
        *("error_model", "perfect csi only", "error_model: iid, or error_model: measured"),
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE, ids=lambda case: case.replace(" ", "_"))
def test_exclusive_settings_are_one_conflict_with_key_and_remedy(case: str) -> None:
    config, key, problem, remedy = IMPOSSIBLE[case]
    (found,) = conflicts_of(config)
    assert found.keys[0] == key
    assert problem in found.problem
    assert remedy in found.remedy
    assert not re.search(r"[.;]$|\n|Config\(", f"{found.problem}, {found.remedy}")
    for name in found.keys:
        attrgetter(name)(EVERY_SECTION)  # raises for a key that does not exist


@pytest.mark.parametrize(
    "config",
    [
        link(),
        link(modulation="auto", mcs=27),
        link(power=LOOP),
        link(power={**LOOP, "loop": {"target": "bler"}}, packets={"policy": "retransmit-combine"}),
        link(channel={**TDL, "coherence": "doppler", "speed_m_s": 30}, ofdm=GRID, csi={"estimator": "lmmse"}),
        link(multiplexing="ofdma", ofdm={**GRID, "guard_carriers": [6, 6]}),
        link(coding={"code": "polar5g", "rate": 0.3}, packets={"policy": "drop", "crc": "crc24a"}),
        link(channel={"cell": {"positions_m": [[40, 30]] * 4}}),
        link("noma", noma={"detector": "ml"}, coding={"code": "ldpc5g"}),
        link("noma", noma={"detector": "lmmse", "group_size": 4}, receiver={"num_antennas": 4}, ofdm=GRID),
        link("superposition", "bpsk", ofdm=GRID, channel={**TDL, "coherence": "doppler", "speed_m_s": 3}),
        link("superposition", "analog", ofdm=GRID, csi={"estimator": "ls"}, impairments={"timing_offset_s": 1e-7}),
        link("superposition", "analog", impairments={"clipping_db": 3, "cfo_hz": 5, "phase_error_deg": 10}),
        link(error_model="analytic", coding={"code": "ldpc5g"}, channel=TDL, ofdm=GRID, power={"policy": "fixed"}),
    ],
    ids=lambda config: f"{config.access}-{config.modulation}",
)
def test_a_valid_link_has_no_conflict(config: LinkConfig) -> None:
    assert conflicts_of(config) == []


def test_the_last_short_packet_must_fit_the_code_too() -> None:
    """3000 bits in packets of 128 bytes: the rest of 952 bits would take a block of its own."""
    coding = {"code": "polar5g", "rate": 0.9, "block_length": 1000, "standard": "sionna"}
    config = link(coding=coding, packet_size_bytes=128)
    assert "blocks from 12 to 979" in conflicts_of(config, payload_bits=3000)[0].problem


def test_an_invalid_superposition_is_not_built() -> None:
    config = link("superposition", "bpsk", receiver={"num_antennas": 2, "combining": "blind"})
    with pytest.raises(LinkError, match="channels of mean zero only, and a fixed path has a mean; write combining"):
        compile_air(config, num_devices=2, num_symbols=8)


SHORT: dict[str, Any] = {"num_subcarriers": 64, "subcarrier_spacing_hz": 15e3, "cyclic_prefix_length": 2}


@pytest.mark.parametrize(
    ("domain", "words"),
    [("time", "expect interference between symbols near"), ("frequency", "leaves out the interference it causes")],
)
def test_a_short_prefix_is_a_warning_with_the_interference_level(domain: str, words: str) -> None:
    channel = {"model": "tdl-a", "delay_spread_s": 1e-6}
    config = link(channel=channel, ofdm={**SHORT, "domain": domain})
    assert conflicts_of(config) == []
    (sentence,) = link_warnings(config)
    assert sentence.startswith("link.ofdm.cyclic_prefix_length: the last path of tdl-a comes 9.66 us late")
    assert "the prefix lasts 2.08 us" in sentence
    assert words in sentence
    delays, powers = power_delay_profile("tdl-a")
    share = interference_share(delays * 1e-6, powers, prefix_s=2 / (64 * 15e3), useful_s=1 / 15e3)
    assert f"near {10 * np.log10(share):.0f} dB" in sentence


@pytest.mark.parametrize(
    "parts",
    [
        {"ofdm": {**SHORT, "cyclic_prefix_length": 10}, "channel": {"model": "tdl-a", "delay_spread_s": 1e-6}},
        {"ofdm": SHORT, "channel": {"model": "tdl-a", "delay_spread_s": 0.0}},
        {"ofdm": {**SHORT, "cyclic_prefix_length": 0}, "channel": {"fading": "rayleigh"}},
        {"channel": {"fading": "rayleigh"}},
    ],
)
def test_a_prefix_that_suffices_is_no_warning(parts: dict[str, Any]) -> None:
    assert list(link_warnings(link(**parts))) == []


@pytest.mark.parametrize("model", MODELS)
def test_profiles_have_unit_power_and_the_delay_spread_they_are_scaled_to(model: str) -> None:
    delays, powers = power_delay_profile(model)
    assert powers.sum() == pytest.approx(1.0)
    assert delays.min() == 0.0
    mean = (powers * delays).sum()
    # TR 38.901 7.7 gives delays in units of the RMS delay spread, to four digits; the table of model D yields 0.994.
    assert np.sqrt((powers * (delays - mean) ** 2).sum()) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("model", MODELS)
def test_profiles_and_the_fixed_path_are_sionnas(model: str) -> None:
    from sionna.phy.channel.tr38901 import TDL as SionnaTdl  # noqa: N811

    # TDL models are the CDL models seen by one antenna: same delays, same powers, fixed path first (7.7.2).
    theirs = SionnaTdl(model[-1].upper(), 1.0, 3.5e9)
    _, powers = power_delay_profile(model)
    fixed = float(theirs.mean_power_los) if model[-1] in "de" else 0.0
    k = line_of_sight_k(model)
    assert k == pytest.approx(fixed / (1.0 - fixed), rel=1e-5)
    if model.startswith("tdl"):
        # Sionna has fixed and scattered power of the first tap as one.
        ours = np.append(powers[:2].sum(), powers[2:]) if fixed else powers
        np.testing.assert_allclose(np.sort(ours), np.sort(np.asarray(theirs.mean_powers)), rtol=1e-4)


def test_rician_fading_has_the_k_that_was_written_and_rayleigh_none() -> None:
    assert ChannelConfig(fading="rician", rician_k_db=10.0).law.rician_k == pytest.approx(10.0)
    assert ChannelConfig(fading="rayleigh", rician_k_db=10.0).law.rician_k == 0.0


def interference_of(
    delays: NDArray[np.int64], powers: NDArray[np.float64], *, prefix: int, size: int, realisations: int = 400
) -> NDArray[np.float64]:
    """Interference power of each realisation by plain NumPy: OFDM symbols through a delay line, less the wanted part.

    The wanted part of a path that comes e samples beyond the prefix is what its own symbol leaves in the window.
    """
    rng = np.random.default_rng(3)
    shape = (realisations, 4, size)
    sent = (rng.choice([-1.0, 1.0], shape) + 1j * rng.choice([-1.0, 1.0], shape)) / np.sqrt(2)
    body = np.fft.ifft(sent, norm="ortho")
    samples = np.concatenate([body[..., size - prefix :], body], axis=-1).reshape(realisations, -1)
    gains = np.sqrt(powers / 2) * (rng.normal(size=(realisations, 2, len(powers))) * [[1.0], [1j]]).sum(axis=1)
    received = np.zeros_like(samples)
    wanted = np.zeros((realisations, size), complex)
    for gain, delay in zip(gains.T, delays, strict=True):
        received[:, delay:] += gain[:, None] * samples[:, : samples.shape[1] - delay]
        stays = 1.0 - min(max(delay - prefix, 0) / size, 1.0)
        wanted += stays * gain[:, None] * np.exp(-2j * np.pi * delay * np.arange(size) / size)
    window = received.reshape(realisations, 4, size + prefix)[:, -1, prefix:]
    return (np.abs(np.fft.fft(window, norm="ortho") - wanted * sent[:, -1]) ** 2).mean(axis=-1)


@pytest.mark.parametrize(
    ("delays", "powers"),
    [([0, 9, 15], [0.5, 0.3, 0.2]), ([0, 40], [0.9, 0.1]), ([5, 6], [0.5, 0.5])],
    ids=["two late paths", "later than a whole symbol", "one sample late"],
)
def test_interference_of_late_paths_is_that_of_ofdm_in_numpy(delays: list[int], powers: list[float]) -> None:
    size, prefix = 32, 5

    def expected(prefix: int) -> float:
        return interference_share(np.array(delays, float), np.array(powers), prefix_s=prefix, useful_s=size)

    measured = interference_of(np.array(delays), np.array(powers), prefix=prefix, size=size)
    assert abs(standard_errors_off(measured, expected(prefix))) < ERRORS_OF_A_CHECK
    # A prefix of one sample less would be seen; beyond a whole symbol nothing is left to lose.
    if max(delays) < size:
        assert abs(standard_errors_off(measured, expected(prefix - 1))) > ERRORS_OF_A_CHECK


def test_a_prefix_that_covers_all_paths_leaves_no_interference() -> None:
    delays, powers = np.array([0, 3, 5]), np.array([0.5, 0.3, 0.2])
    assert interference_share(delays.astype(float), powers, prefix_s=5, useful_s=32) == 0.0
    assert interference_of(delays, powers, prefix=5, size=32, realisations=4).max() < 1e-25


def test_gains_are_listed_or_one_for_all_and_a_cell_multiplies_them() -> None:
    trials = (0, 3)

    def of(**channel: Any) -> NDArray[np.float32]:
        return device_gains(ChannelConfig(**channel), num_devices=2, seed=4, trials=trials)

    assert np.array_equal(of(gain=0.5), np.full((2, 2), 0.5, np.float32))
    assert np.array_equal(of(gain=(0.5, 2.0)), np.array([[0.5, 2.0]] * 2, np.float32))
    cell = of(cell={"shadowing": True})
    assert len(np.unique(cell)) == 4
    np.testing.assert_allclose(of(cell={"shadowing": True}, gain=(0.5, 2.0)), cell * [0.5, 2.0], rtol=1e-6)
    later = device_gains(ChannelConfig(cell={"shadowing": True}), num_devices=2, seed=4, trials=(3,))
    assert np.array_equal(later[0], cell[1])


WRONG_LENGTHS: list[tuple[dict[str, Any], str]] = [
    ({"gain": (1.0, 2.0)}, "gain has length 2, num_devices is 3"),
    ({"cell": {"positions_m": [[40, 30]]}}, "positions_m has length 1, num_devices is 3"),
]


@pytest.mark.parametrize(("channel", "words"), WRONG_LENGTHS)
@pytest.mark.parametrize(
    ("access", "parts"),
    [
        ("orthogonal", {}),
        ("orthogonal", {"coding": {"code": "repetition"}}),
        ("superposition", {}),
        ("superposition", {"ofdm": GRID}),
    ],
    ids=["plain", "packets", "air", "air over OFDM"],
)
def test_devices_without_a_gain_are_noticed_when_the_link_is_built(
    access: str, parts: dict[str, Any], channel: dict[str, Any], words: str
) -> None:
    config = link(access, "bpsk", channel=channel, **parts)
    build = partial(compile_air, num_symbols=8) if access == "superposition" else partial(compile_digital, num_bits=8)
    with pytest.raises((ValueError, LinkError), match=words):
        build(config, num_devices=3)
    with pytest.raises(ValueError, match=words):
        check_gains(config, num_devices=3)


def test_conflicts_and_warnings_need_no_tensorflow() -> None:
    script = (
        "import sys; from phy.config import LinkConfig; from phy.links.conflicts import link_conflicts;"
        "from phy.links.warnings import link_warnings;"
        "config = LinkConfig.model_validate({'access': 'noma', 'modulation': 'qpsk', 'channel': {'model': 'tdl-a'},"
        "'ofdm': {'cyclic_prefix_length': 0}, 'coding': {'code': 'ldpc5g'}});"
        "assert not list(link_conflicts(config, num_devices=2, payload_bits=100)); assert list(link_warnings(config));"
        "assert not {'tensorflow', 'sionna'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
