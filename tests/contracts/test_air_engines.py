"""Both engines of superposition, flat or over OFDM: the same fades, the same noise, hence the same sums."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phy.compile import compile_air
from phy.config import LinkConfig
from phy.engines.fused.flat import air_taps
from phy.engines.fused.flat.air import FusedAir
from phy.engines.fused.flat.gains import measure_gains
from phy.engines.fused.flat.lanes import TILE
from phy.engines.fused.packets import sums as fused_sums
from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.fading.gains import BlockGains
from phy.links.link import Superposition
from phy.links.superposition import SuperpositionLink
from phy.links.superposition_ofdm.link import OfdmSuperposition

DEVICES, TRIALS = 5, (4, 2)
SYMBOLS = 9 * TILE + 77
"""More than one task of tiles, no whole byte, no whole packet."""
GRID = {"num_subcarriers": 73, "guard_carriers": [2, 1], "num_symbols": 7, "pilot_symbols": [1]}
ON_AIR = UplinkContext(seed=1, trials=TRIALS, round_index=3)

CHANNELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "awgn": ({"model": "awgn"}, {}),
    "awgn, said to change per symbol": ({"model": "flat", "fading": "constant", "coherence": "symbol"}, {}),
    "rayleigh per round": ({"fading": "rayleigh"}, {"power": {"policy": "truncated-inversion"}}),
    "rayleigh per packet": ({"fading": "rayleigh", "coherence": "packet"}, {"power": {"policy": "inversion"}}),
    "rayleigh per packet of few symbols": ({"fading": "rayleigh", "coherence": "packet"}, {"packet_size_bytes": 3}),
    "rician per symbol": ({"fading": "rician", "coherence": "symbol"}, {"csi": {"error_variance": 0.05}}),
    "nakagami per symbol": (
        {"fading": "nakagami", "coherence": "symbol"},
        {"power": {"policy": "truncated-inversion", "cutoff_db": -3.0}},
    ),
    "nakagami per run": ({"fading": "nakagami", "coherence": "run"}, {"csi": {"error_variance": 0.05}}),
    "3 antennas, rayleigh per round": (
        {"fading": "rayleigh"},
        {"receiver": {"num_antennas": 3}, "power": {"policy": "truncated-inversion", "cutoff_db": -3.0}},
    ),
    "6 antennas, zf, nakagami per packet": (
        {"fading": "nakagami", "coherence": "packet"},
        {"receiver": {"num_antennas": 6, "combining": "zf"}, "csi": {"error_variance": 0.05}},
    ),
    "2 antennas, mmse, rician per symbol": (
        {"fading": "rician", "coherence": "symbol"},
        {"receiver": {"num_antennas": 2, "combining": "mmse"}, "csi": {"error_variance": 0.05}},
    ),
    "4 antennas, blind, rayleigh per run": (
        {"fading": "rayleigh", "coherence": "run"},
        {"receiver": {"num_antennas": 4, "combining": "blind"}},
    ),
    "ofdm, awgn": ({"model": "awgn"}, {"ofdm": GRID}),
    "ofdm, rayleigh per round": ({"fading": "rayleigh"}, {"ofdm": GRID, "power": {"policy": "inversion"}}),
    "ofdm, nakagami per round": ({"fading": "nakagami"}, {"ofdm": GRID, "power": {"policy": "inversion"}}),
    "ofdm, tdl-a": (
        {"model": "tdl-a", "delay_spread_s": 1e-6},
        {"ofdm": GRID, "csi": {"error_variance": 0.05}, "power": {"policy": "truncated-inversion", "cutoff_db": -3.0}},
    ),
    "ofdm, tdl-d in motion": (
        {"model": "tdl-d", "speed_m_s": 30.0},
        {"ofdm": GRID, "power": {"policy": "truncated-inversion", "cutoff_db": -3.0}},
    ),
    "ofdm, rician under doppler": (
        {"fading": "rician", "coherence": "doppler", "speed_m_s": 3.0},
        {"ofdm": GRID, "csi": {"error_variance": 0.05}},
    ),
    "ofdm, symbols longer than a tile": (
        {"model": "tdl-a", "speed_m_s": 3.0},
        {"ofdm": {"num_subcarriers": 2100, "dc_null": True}, "power": {"policy": "inversion"}},
    ),
}


def link(modulation: str, channel: str, engine: str) -> LinkConfig:
    propagation, rest = CHANNELS[channel]
    return LinkConfig.model_validate(
        {
            "access": "superposition",
            "modulation": modulation,
            "channel": {"gain": [0.7, 1.3, 1.0, 1.0, 0.4], **propagation},
            "packet_size_bytes": 37,
            "engine": engine,
            **rest,
            "power": {"policy": "fixed", "snr_max_db": 12.0, **rest.get("power", {})},
        }
    )


def payload_of(kind: str) -> NDArray[Any]:
    rng = np.random.default_rng(1)
    if kind == "bpsk":
        return rng.integers(0, 256, (len(TRIALS), DEVICES, -(-SYMBOLS // 8)), dtype=np.uint8)
    real = rng.uniform(-1.0, 1.0, (len(TRIALS), DEVICES, SYMBOLS))
    return real * (0.6 + 0.8j) if kind == "complex" else real


def superposed(kind: str, channel: str, engine: str, *, jammed: bool = False) -> Superposition:
    config = link("bpsk" if kind == "bpsk" else "analog", channel, engine)
    jammers = None
    if jammed:
        jammers = np.zeros((len(TRIALS), DEVICES), bool)
        jammers[0, 1] = jammers[1, 4] = True
    uplink = compile_air(config, num_devices=DEVICES, num_symbols=SYMBOLS)
    return uplink.superpose(payload_of(kind), context=ON_AIR, caps={}, jammers=jammers)


def assert_same(one: Superposition, other: Superposition) -> None:
    """Sums to float32 rounding of terms no larger than the largest sum; counts exactly.

    At one symbol of the 90,000 that devices send a gain may lie within rounding of the cutoff of power control. Without
    fused multiply-add (`.ci/limit sse4`) one engine then sends it and the other does not.
    """
    scale = np.abs(other.received).max()
    at_the_cutoff = one.num_active != other.num_active
    assert np.count_nonzero(at_the_cutoff) <= 1
    assert np.abs(np.where(at_the_cutoff, 0.0, one.received - other.received)).max() < 3e-6 * scale
    np.testing.assert_allclose(one.energy_j, other.energy_j, rtol=1e-3 if at_the_cutoff.any() else 1e-4)
    np.testing.assert_allclose(one.decision.amplitude, other.decision.amplitude, rtol=1e-5)
    assert np.array_equal(one.airtime_s, other.airtime_s)


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks of a trial over OFDM."""
    monkeypatch.setattr(fused_sums, "_SYMBOLS_OF_A_TASK", 2000)


@pytest.mark.parametrize("channel", CHANNELS)
def test_both_engines_receive_the_same_sums(channel: str) -> None:
    assert_same(*(superposed("real", channel, engine) for engine in ("fused", "sionna")))


@pytest.mark.parametrize("channel", [name for name in CHANNELS if "ofdm" not in name and "antennas" not in name])
def test_power_control_decides_on_the_same_gains(channel: str) -> None:
    config = link("analog", channel, "fused")
    block = 8 * config.packet_size_bytes
    flat = FlatChannel(config, num_devices=DEVICES, num_symbols=SYMBOLS, packet_symbols=block)
    found, expected = measure_gains(flat, ON_AIR, threads=2), flat.block_gains(ON_AIR)
    for field in fields(BlockGains):  # float32, of taps that may be faint
        np.testing.assert_allclose(getattr(found, field.name), getattr(expected, field.name), 1e-4, err_msg=field.name)


@pytest.mark.parametrize("channel", ["rayleigh per packet", "rayleigh per packet of few symbols", "ofdm, tdl-a"])
@pytest.mark.parametrize("kind", ["bpsk", "complex"])
def test_both_engines_agree_for_every_kind_of_symbol(kind: str, channel: str) -> None:
    assert_same(*(superposed(kind, channel, engine) for engine in ("fused", "sionna")))


@pytest.mark.parametrize(
    "channel",
    [
        "rayleigh per round",
        "nakagami per symbol",
        "3 antennas, rayleigh per round",
    ],
)
def test_both_engines_add_the_same_jammers(channel: str) -> None:
    jammed = [superposed("real", channel, engine, jammed=True) for engine in ("fused", "sionna")]
    assert_same(*jammed)
    assert not np.allclose(jammed[0].received, superposed("real", channel, "fused").received)


def test_the_cutoff_case_has_a_cutoff_symbol() -> None:
    active = superposed("real", "nakagami per symbol", "fused").num_active
    assert active.min() < DEVICES == active.max()


@pytest.mark.parametrize("channel", ["rayleigh per round", "rician per symbol", "6 antennas, zf, nakagami per packet"])
def test_any_number_of_threads_gives_the_same_bits(channel: str) -> None:
    config = link("analog", channel, "fused")

    def with_threads(threads: int) -> Superposition:
        chain = FusedAir(config, threads=threads)
        radio = SuperpositionLink(config, num_devices=DEVICES, num_symbols=SYMBOLS, chain=chain)
        return radio.superpose(payload_of("real"), context=ON_AIR, caps={})

    alone, together = with_threads(1), with_threads(3)
    assert alone.received.tobytes() == together.received.tobytes()
    assert np.array_equal(alone.energy_j, together.energy_j)


def test_threads_and_tasks_over_ofdm_change_no_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waves start afresh with every slot: neither threads nor the cut into tasks shows."""
    config = link("analog", "ofdm, tdl-d in motion", "fused")

    def with_threads(threads: int) -> Superposition:
        radio = OfdmSuperposition(
            config,
            num_devices=DEVICES,
            num_symbols=SYMBOLS,
            sums_of=lambda one, layout: fused_sums.FusedSums(one, layout, threads=threads),
        )
        return radio.superpose(payload_of("real"), context=ON_AIR, caps={})

    together = with_threads(3)
    monkeypatch.setattr(fused_sums, "_SYMBOLS_OF_A_TASK", 1 << 15)
    alone = with_threads(1)
    np.testing.assert_allclose(alone.decision.level, together.decision.level, rtol=1e-12)
    assert alone.received.tobytes() == together.received.tobytes()
    np.testing.assert_allclose(alone.energy_j, together.energy_j, rtol=1e-6)


def test_a_fused_sum_over_ofdm_needs_no_tensorflow() -> None:
    code = (
        "import sys; import numpy as np; from phy.compile import compile_air; from phy.config import LinkConfig; "
        "from phy.fading.block_taps import UplinkContext; "
        "link = LinkConfig.model_validate({'access': 'superposition', 'modulation': 'analog', 'engine': 'fused', "
        "'ofdm': {}, 'channel': {'model': 'tdl-a'}, 'power': {'policy': 'inversion'}}); "
        "radio = compile_air(link, num_devices=2, num_symbols=50); "
        "radio.superpose(np.ones((1, 2, 50)), context=UplinkContext(seed=1, trials=(0,)), caps={}); "
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_more_devices_than_a_tile_have_each_a_tap_of_their_own() -> None:
    """Sent alone, each arrives as in the sum of all: tile borders lose nobody."""
    num_devices = TILE + 3
    config = LinkConfig.model_validate(
        {
            "access": "superposition",
            "modulation": "analog",
            "engine": "fused",
            "channel": {"fading": "rayleigh"},
            "power": {"policy": "fixed"},
        }
    )
    radio = compile_air(config, num_devices=num_devices, num_symbols=4)
    context = UplinkContext(seed=1, trials=(0,))
    quiet = radio.superpose(np.zeros((1, num_devices, 4)), context=context, caps={}).received
    found = []
    for device in (0, TILE - 1, TILE, TILE + 2):
        payload = np.zeros((1, num_devices, 4))
        payload[0, device] = 1.0
        found.append(complex((radio.superpose(payload, context=context, caps={}).received - quiet)[0, 0]))
    channel = FlatChannel(config, num_devices=num_devices, num_symbols=4, packet_symbols=8)
    level = radio.superpose(np.zeros((1, num_devices, 4)), context=context, caps={}).decision.level[0]
    expected = level * channel.block_gains(context).gain_sum[0, [0, TILE - 1, TILE, TILE + 2]] / 4
    # The difference of two sums near noise of unit size, in float32.
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_coefficients_are_those_of_the_equation() -> None:
    """One tap, one estimate, by hand: A conj(h^) h / |h^|^2 of an honest device that inverts."""
    from phy.engines.fused.flat.lanes import NUM_LANES, OF_TAPS
    from phy.engines.fused.flat.taps import tap_law
    from phy.numerics.compiled import kernel

    @kernel
    def added(law: Any, keys: Any, gain: Any, level: Any, words: Any, lanes: Any) -> None:
        air_taps.added_at_positions(
            law, None, True, keys, np.uint32(1), gain, level, np.float32(0.0), 0, words, lanes, OF_TAPS, 8
        )

    config = link("analog", "rician per symbol", "fused")
    config = config.model_copy(update={"power": config.power.model_copy(update={"policy": "inversion"})})
    channel = FlatChannel(config, num_devices=DEVICES, num_symbols=8, packet_symbols=8)
    lanes = np.zeros(NUM_LANES, np.float32)
    keys = np.arange(6, dtype=np.uint32)
    level, gain = np.float32(1.5), np.float32(0.7)
    added(tap_law(channel), keys, gain, level, lanes.view(np.uint32), lanes)
    h = gain * (lanes[air_taps.TAP_REAL :][:8] + 1j * lanes[air_taps.TAP_IMAG :][:8])
    error = lanes[air_taps.KNOWN_REAL :][:8] + 1j * lanes[air_taps.KNOWN_IMAG :][:8]
    known = h + gain * np.sqrt(0.05) * error
    added = lanes[OF_TAPS + air_taps.ADDED_REAL :][:8] + 1j * lanes[OF_TAPS + air_taps.ADDED_IMAG :][:8]
    np.testing.assert_allclose(added, level * h / known, rtol=2e-6)
    np.testing.assert_allclose(lanes[OF_TAPS + air_taps.SENT_POWER :][:8], (level / np.abs(known)) ** 2, rtol=3e-6)
