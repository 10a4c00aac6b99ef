"""Contract of every Frontend: single carrier or grid, both domains, each kind of channel knowledge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phy.config import ChannelConfig, CsiError, CsiEstimation, LinkConfig, OfdmConfig, ReceiverConfig
from phy.frontends.build import build_frontend
from phy.stages import Frontend, Launch, Observation

ROWS, USERS, ANTENNAS, NUM_SYMBOLS = 64, 2, 2, 70
"""Rows for the law of large numbers: another number for the other tests would be compiled anew."""

CHANNELS = {
    "rayleigh": ChannelConfig(fading="rayleigh", coherence="packet"),
    "by symbol": ChannelConfig(fading="rician", coherence="symbol"),
    "tdl moving": ChannelConfig(model="tdl-a", coherence="packet", speed_m_s=10.0),
}
KNOWLEDGE: dict[str, Any] = {
    "perfect": "perfect",
    "error": CsiError(error_variance=0.1),
    "ls": CsiEstimation(estimator="ls"),
    "lmmse": CsiEstimation(estimator="lmmse"),
}
CASES = [
    ("single", "rayleigh", "perfect"),
    ("single", "by symbol", "error"),
    *(
        (domain, channel, csi)
        for domain in ("frequency", "time")
        for channel, csi in (
            ("rayleigh", "perfect"),
            ("by symbol", "error"),
            ("tdl moving", "error"),
            ("tdl moving", "ls"),
            ("tdl moving", "lmmse"),
        )
    ),
]


def build(waveform: str, channel: str, csi: str, *, num_symbols: int = NUM_SYMBOLS) -> Frontend:
    grid: Any = "none"
    if waveform != "single":
        grid = OfdmConfig(
            num_subcarriers=16, cyclic_prefix_length=4, num_symbols=5, pilot_symbols=(0, 3), domain=waveform
        )
    config = LinkConfig(
        access="noma",
        modulation="qpsk",
        channel=CHANNELS[channel],
        ofdm=grid,
        csi=KNOWLEDGE[csi],
        receiver=ReceiverConfig(num_antennas=ANTENNAS),
    )
    return build_frontend(config, num_users=USERS, num_symbols=num_symbols)


def launch(*, rows: int = ROWS, num_symbols: int = NUM_SYMBOLS, seed: int = 4) -> Launch:
    """QPSK, random powers; NumPy."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (2, rows, USERS, num_symbols))
    return Launch(
        ((1 - 2 * bits[0] + 1j * (1 - 2 * bits[1])) / np.sqrt(2)).astype(np.complex64),
        rng.uniform(0.5, 2.0, (rows, USERS)).astype(np.float32),
        rng.uniform(0.5, 2.0, (rows, USERS)).astype(np.float32),
        *(rng.integers(0, 1 << 32, (rows, USERS, 2), dtype=np.uint32) for _ in range(3)),
        rng.integers(0, 1 << 32, (rows, 2), dtype=np.uint32),
        rng.uniform(0.0, 1.0, rows).astype(np.float32),
        np.float32(0.1),
    )


def compiled(frontend: Frontend) -> Any:
    import tensorflow as tf

    run = tf.function(frontend.observe, autograph=False)

    def call(sent: Launch) -> Observation:
        return Observation(*(np.asarray(v) for v in run(Launch(*(tf.constant(v) for v in sent)))))

    call.function = run
    return call


LATER = {("frequency", "rayleigh", "perfect"), ("time", "by symbol", "error"), ("time", "tdl moving", "ls")}
"""Their channel and knowledge are met in the other domain, and their domain with others."""


@pytest.fixture(
    params=[pytest.param(case, marks=pytest.mark.slow) if case in LATER else case for case in CASES],
    ids=["-".join(case) for case in CASES],
    scope="module",
)
def case(request: pytest.FixtureRequest) -> tuple[Frontend, Any]:
    frontend = build(*request.param)
    return frontend, compiled(frontend)


def rows_of(observation: Observation, rows: Any) -> list[NDArray[Any]]:
    return [part[rows] for part in observation if part.ndim]


def test_an_observation_has_the_shapes_and_types_of_the_interface(case: tuple[Frontend, Any]) -> None:
    frontend, observe = case
    got = observe(launch())
    assert frontend.num_symbols == NUM_SYMBOLS
    assert frontend.channel_uses >= NUM_SYMBOLS
    assert frontend.airtime_s > 0.0
    expected = {
        "received": ((ROWS, ANTENNAS, NUM_SYMBOLS), np.complex64),
        "channel": ((ROWS, USERS, ANTENNAS, NUM_SYMBOLS), np.complex64),
        "channel_error": ((ROWS, USERS, NUM_SYMBOLS), np.float32),
        "noise_power": ((), np.float32),
        "transmit_energy": ((ROWS, USERS), np.float32),
        "signal_energy": ((ROWS, USERS), np.float32),
        "noise_energy": ((ROWS,), np.float32),
    }
    for name, (shape, dtype) in expected.items():
        part = getattr(got, name)
        assert (part.shape, part.dtype) == (shape, dtype), name
        assert np.isfinite(part).all()
    assert got.noise_power == np.float32(0.1)
    assert (got.channel_error >= 0.0).all()


def test_a_row_does_not_depend_on_its_batch(case: tuple[Frontend, Any]) -> None:
    _, observe = case
    sent = launch()
    order = np.random.default_rng(1).permutation(ROWS)
    shuffled = observe(Launch(*(part[order] if part.ndim else part for part in sent)))
    others = launch(seed=9)
    mixed = observe(
        Launch(*(np.concatenate([a[:3], b[3:]]) if a.ndim else a for a, b in zip(sent, others, strict=True)))
    )
    got = observe(sent)
    for ours, theirs, among_others in zip(
        rows_of(got, order), rows_of(shuffled, slice(None)), rows_of(mixed, slice(0, 3)), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(among_others, ours[np.argsort(order)][:3])


def test_a_smaller_batch_has_the_same_numbers(case: tuple[Frontend, Any]) -> None:
    _, observe = case
    sent = launch()
    few = observe(Launch(*(part[:3] if part.ndim else part for part in sent)))
    for ours, theirs in zip(rows_of(observe(sent), slice(0, 3)), rows_of(few, slice(None)), strict=True):
        # Another shape is another compiled program: sums may be ordered differently.
        np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-4)


def test_a_silent_user_has_no_effect(case: tuple[Frontend, Any]) -> None:
    _, observe = case
    sent = launch()
    amplitude = sent.amplitude.copy()
    amplitude[:, 1] = 0.0
    got = observe(sent._replace(amplitude=amplitude))
    assert not got.channel[:, 1].any()
    assert not got.channel_error[:, 1].any()
    assert not got.transmit_energy[:, 1].any()
    assert not got.signal_energy[:, 1].any()
    noise = launch(seed=8)
    other = observe(sent._replace(amplitude=amplitude, symbols=np.stack([sent.symbols[:, 0], noise.symbols[:, 1]], 1)))
    np.testing.assert_array_equal(got.received, other.received)


def test_powers_and_keys_trace_nothing_anew(case: tuple[Frontend, Any]) -> None:
    _, observe = case
    observe(launch())
    traces = observe.function.experimental_get_tracing_count()
    observe(launch(seed=11)._replace(noise_power=np.float32(3.0)))
    assert observe.function.experimental_get_tracing_count() == traces


def test_received_is_channel_times_symbol_up_to_noise_and_what_is_not_known(case: tuple[Frontend, Any]) -> None:
    _, observe = case
    sent = launch()._replace(noise_power=np.float32(1e-4))
    got = observe(sent)
    left = got.received - np.einsum("ruan,run->ran", got.channel, sent.symbols)
    power = (np.abs(np.einsum("ruan,run->ran", got.channel, sent.symbols)) ** 2).mean()
    known_to_err = got.channel_error.sum(axis=1).mean()
    # Motion within a slot of 0.4 ms is an error that no variance of least squares tells; it stays below this.
    assert (np.abs(left) ** 2).mean() < 2.0 * known_to_err + 1e-3 * power


def test_mean_power_is_a_positive_number_for_every_user(case: tuple[Frontend, Any]) -> None:
    import tensorflow as tf

    frontend, _ = case
    sent = launch()
    run = tf.function(frontend.mean_power, autograph=False)
    power = np.asarray(run(tf.constant(sent.channel_key), tf.constant(sent.start_s)))
    assert power.shape == (ROWS, USERS)
    assert power.dtype == np.float32
    assert (power > 0.0).all()


@pytest.mark.parametrize(
    ("waveform", "num_symbols"),
    [("single", 1), *((domain, num_symbols) for domain in ("frequency", "time") for num_symbols in (1, 48, 49))],
)
def test_packets_of_any_length_go_through(waveform: str, num_symbols: int) -> None:
    """One symbol, and on a grid of 48 data elements a slot filled to its end and one more."""
    observe = compiled(build(waveform, "rayleigh", "perfect", num_symbols=num_symbols))
    sent = launch(num_symbols=num_symbols)._replace(noise_power=np.float32(0.0))
    got = observe(sent)
    assert got.received.shape == (ROWS, ANTENNAS, num_symbols)
    assert np.abs(got.received - np.einsum("ruan,run->ran", got.channel, sent.symbols)).max() < 1e-5
