"""Several antennas that are combined towards the sum: against a slow oracle, closed forms, and one antenna."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.antenna_sums import combined, combiner, rayleigh_taps
from radio import ERRORS_OF_A_CHECK, context, link_config, standard_errors_off
from scipy import stats

from phy.compile import compile_air
from phy.config import LinkConfig, ReceiverConfig
from phy.engines.fused.flat.antennas import combined_taps
from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.links.link import LinkError, Superposition

COMBINERS = ("mrc", "zf", "mmse", "blind")
GAINS = (0.7, 1.3, 1.0, 0.4)


def air(num_antennas: int, combining: Any = "mrc", **link: Any) -> LinkConfig:
    receiver = ReceiverConfig(num_antennas=num_antennas, combining=combining)
    settings: dict[str, Any] = {"fading": "rayleigh", "policy": "inversion", **link}
    return link_config("analog", access="superposition", receiver=receiver, **settings)


def superpose(config: LinkConfig, payload: NDArray[Any], *, where: UplinkContext, jammers: Any = None) -> Superposition:
    uplink = compile_air(config, num_devices=payload.shape[1], num_symbols=payload.shape[2])
    return uplink.superpose(payload, context=where, caps={}, jammers=jammers)


def unit_symbols(*shape: int, seed: int = 5) -> NDArray[np.complex128]:
    """QPSK symbols of power 1."""
    bits = np.random.default_rng(seed).integers(0, 2, (2, *shape))
    return np.asarray((1.0 - 2.0 * bits[0] + 1j * (1.0 - 2.0 * bits[1])) / np.sqrt(2.0))


def taps_of_symbols(
    config: LinkConfig, where: UplinkContext, *, num_devices: int, num_symbols: int
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """The oracle's channels and estimates of each symbol `[trials, symbols, antennas, devices]`."""
    block = {"symbol": 1, "packet": 8 * config.packet_size_bytes}.get(config.channel.coherence, num_symbols)
    taps = rayleigh_taps(config, where, num_devices=num_devices, num_blocks=-(-num_symbols // block))
    channel, estimate = (np.repeat(one, block, axis=1)[:, :num_symbols] for one in taps)
    return channel, estimate


@pytest.mark.parametrize("coherence", ["round", "packet", "symbol"])
@pytest.mark.parametrize("combining", COMBINERS)
@pytest.mark.parametrize("policy", ["fixed", "inversion"])
def test_the_combined_sum_is_that_of_a_loop_over_antennas(coherence: str, combining: str, policy: str) -> None:
    """With estimation errors, a silent device and a jammer; without noise, which two sums share. In float32."""
    num_symbols = 23
    where = UplinkContext(seed=3, trials=(4, 1), round_index=2, silent=(2,))
    config = air(
        6,
        combining,
        coherence=coherence,
        policy=policy,
        csi_error=0.1,
        snr_max_db=6.0,
        channel={"gain": GAINS},
        packet_size_bytes=1,
    )
    x = unit_symbols(2, 4, num_symbols)
    jammers = np.zeros((2, 4), bool)
    jammers[1, 3] = True
    heard, noise = (superpose(config, payload, where=where, jammers=jammers) for payload in (x, 0.0 * x))
    channel, estimate = taps_of_symbols(config, where, num_devices=4, num_symbols=num_symbols)
    for t in range(2):
        expected, power = combined(
            x[t],
            channel[t],
            estimate[t],
            config=config,
            gains=np.array(GAINS),
            level=float(heard.decision.level[t]),
            on_air=np.array([0, 1, 3]),
            jammers=(3,) if t == 1 else (),
        )
        found = heard.received[t] - noise.received[t]
        np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())
        assert heard.noise_power[t] == pytest.approx(power.mean(), rel=1e-4)


@pytest.mark.parametrize("combining", COMBINERS)
def test_the_noise_is_that_behind_the_combiner(combining: str) -> None:
    """n s^2 / (N0 ||f||^2) is chi-square of n degrees, each symbol with a combiner of its own; tails as 4 errors."""
    noise_power, num_symbols = 2.5, 40_000
    config = air(3, combining, coherence="symbol", snr_max_db=0.0, channel={"noise_power": noise_power})
    where = context(1)
    heard = superpose(config, np.zeros((1, 2, num_symbols)), where=where)
    _, estimate = taps_of_symbols(config, where, num_devices=2, num_symbols=num_symbols)
    level = 2.0 * noise_power / config.max_power
    power = np.array(
        [
            np.linalg.norm(combiner(one, combining=combining, level=level, gains=np.ones(2))) ** 2
            for one in estimate[0, :4000]
        ]
    )
    z = heard.received[0, :4000].astype(complex) / np.sqrt(noise_power * power)
    low, high = stats.chi2.ppf([stats.norm.sf(4.0), stats.norm.cdf(4.0)], len(z))
    for part in (z.real, z.imag):
        assert low < (part**2).sum() < high


@pytest.mark.parametrize("snr_db", [-10.0, 0.0, 20.0])
@pytest.mark.parametrize(
    ("combining", "num_antennas", "num_devices"),
    [
        (combining, antennas, devices)
        for combining in COMBINERS
        for antennas in (1, 2, 8, 64)
        for devices in (1, 5, 20)
        if combining != "zf" or antennas >= devices
    ],
)
def test_the_mean_square_error_is_its_closed_form(
    combining: str, num_antennas: int, num_devices: int, snr_db: float
) -> None:
    """Given the channels, with sigma^2 = 2 N0, A = sqrt(P0) and unit symbols,

        mrc, inversion   sigma^2 / (P0 min_k |g_k|^2)
        zf               sigma^2 / P0 1^T (H^H H)^-1 1
        mmse             1^T (I + P0 / sigma^2 H^H H)^-1 1
        blind            sum_k |f^H h_k - 1|^2 + sigma^2 / P0 ||f||^2

    The error of a trial over that has mean 1; standard error from the spread of independent trials.
    """
    num_trials, num_symbols = 60, 64
    config, where = air(num_antennas, combining, snr_max_db=snr_db), context(num_trials)
    x = unit_symbols(num_trials, num_devices, num_symbols)
    heard = superpose(config, x, where=where)
    error = np.abs(heard.received / heard.decision.amplitude[:, None] - x.sum(axis=1)) ** 2
    noise, ones = 2.0 / config.max_power, np.ones(num_devices)
    channel = rayleigh_taps(config, where, num_devices=num_devices, num_blocks=1)[0][:, 0]
    turned = np.array([combiner(h, combining=combining, level=noise, gains=ones) for h in channel])
    arrived = np.einsum("tn,tnk->tk", np.conj(turned), channel)
    gram = np.einsum("tnk,tnj->tkj", np.conj(channel), channel)
    expected = {
        "mrc": lambda: noise / (np.abs(arrived) ** 2).min(axis=1),
        "zf": lambda: noise * np.einsum("k,tkj,j->t", ones, np.linalg.inv(gram), ones).real,
        "mmse": lambda: np.einsum("k,tkj,j->t", ones, np.linalg.inv(np.eye(num_devices) + gram / noise), ones).real,
        "blind": lambda: (np.abs(arrived - 1.0) ** 2).sum(axis=1) + noise * (np.abs(turned) ** 2).sum(axis=1),
    }[combining]()
    assert abs(standard_errors_off(error.mean(axis=1) / expected, 1.0)) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize("csi_error", [0.0, 0.5])
@pytest.mark.parametrize("num_devices", [1, 5, 20])
@pytest.mark.parametrize("num_antennas", [2, 8, 64])
def test_the_error_of_blind_combining_falls_as_one_over_the_antennas(
    num_antennas: int, num_devices: int, csi_error: float
) -> None:
    """(1 + v) K (K + sigma^2 / P0) / N over Rayleigh fading, v the variance of estimation errors.

    E |s^_n|^2 |h_nk|^2 - 1 = K + v K per antenna, and ||f||^2 = K (1 + v) / N on average.
    """
    num_trials = 6000
    config = air(num_antennas, "blind", snr_max_db=0.0, csi_error=csi_error)
    x = unit_symbols(num_trials, num_devices, 4)
    heard = superpose(config, x, where=context(num_trials))
    error = np.abs(heard.received / heard.decision.amplitude[:, None] - x.sum(axis=1)) ** 2
    expected = (1.0 + csi_error) * num_devices * (num_devices + 2.0) / num_antennas
    assert abs(standard_errors_off(error.mean(axis=1), expected)) < ERRORS_OF_A_CHECK


def test_the_error_of_zero_forcing_is_that_of_the_wishart_law() -> None:
    """1^T (H^H H)^-1 1 = K / Gamma(N - K + 1), of mean K / (N - K): the error is sigma^2 / P0 K / (N - K)."""
    num_trials, num_devices, num_antennas = 4000, 5, 12
    x = unit_symbols(num_trials, num_devices, 4)
    heard = superpose(air(num_antennas, "zf", snr_max_db=3.0), x, where=context(num_trials))
    error = np.abs(heard.received / heard.decision.amplitude[:, None] - x.sum(axis=1)) ** 2
    expected = 2.0 / 10.0**0.3 * num_devices / (num_antennas - num_devices)
    assert abs(standard_errors_off(error.mean(axis=1), expected)) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize("coherence", ["round", "symbol"])
def test_the_first_antenna_is_that_of_a_link_with_one(coherence: str) -> None:
    """A combiner of one antenna only turns the phase: all gains that power control sees are those without it."""
    config = air(1, coherence=coherence, csi_error=0.1, policy="truncated-inversion", channel={"gain": GAINS})
    where, size = context(3), 100
    channel = FlatChannel(config, num_devices=4, num_symbols=size, packet_symbols=8)
    found, alone = combined_taps(channel, where, link=config).gains, channel.block_gains(where)
    for name in ("weight_power", "gain_sum", "gain_peak", "arrival_peak", "active_symbols"):
        np.testing.assert_allclose(getattr(found, name), getattr(alone, name), rtol=1e-5, err_msg=name)


def test_devices_stay_silent_in_a_fade_behind_the_combiner() -> None:
    """Cutoff at the mean power gain of one antenna; who is on the air arrives with one amplitude."""
    config = air(2, policy="truncated-inversion", cutoff_db=0.0, snr_max_db=90.0)
    x = unit_symbols(40, 6, 3)
    where = context(40)
    heard = superpose(config, x, where=where)
    channel = rayleigh_taps(config, where, num_devices=6, num_blocks=1)[0][:, 0]
    turned = np.array([combiner(h, combining="mrc", level=0.0, gains=np.ones(6)) for h in channel])
    reach = np.abs(np.einsum("tn,tnk->tk", np.conj(turned), channel))
    np.testing.assert_array_equal(heard.decision.active, reach >= 1.0)
    some = heard.decision.active.any(axis=1)
    found = heard.received[some] / heard.decision.amplitude[some, None]
    np.testing.assert_allclose(found, (x * heard.decision.active[..., None]).sum(axis=1)[some], atol=2e-3)


def test_more_antennas_lower_the_error_of_optimal_power_control() -> None:
    """Policy mse-optimal takes the gains behind the combiner: its error lies below that of inversion."""
    x, errors = unit_symbols(200, 5, 64), {}
    for policy in ("mse-optimal", "inversion"):
        for antennas in (2, 8):
            heard = superpose(air(antennas, policy=policy, snr_max_db=5.0), x, where=context(200))
            error = np.abs(heard.received / heard.decision.scale[:, None] - x.sum(axis=1)) ** 2
            errors[policy, antennas] = error.mean()
    for antennas in (2, 8):
        assert errors["mse-optimal", antennas] < errors["inversion", antennas]
    assert errors["mse-optimal", 8] < errors["mse-optimal", 2]


@pytest.mark.parametrize("combining", ["mrc", "mmse"])
def test_permuting_devices_with_their_gains_changes_nothing(combining: str) -> None:
    """Without fading, where every device has the same taps. Sums in another order differ by float32 rounding."""
    order, x = np.array([3, 0, 1, 2]), unit_symbols(2, 4, 50)
    heard, permuted = (
        superpose(
            air(3, combining, fading="constant", channel={"gain": tuple(np.array(GAINS)[o])}), x[:, o], where=context(2)
        )
        for o in (np.arange(4), order)
    )
    np.testing.assert_allclose(permuted.received, heard.received, atol=1e-5 * np.abs(heard.received).max())


@pytest.mark.parametrize(
    ("link", "says"),
    [
        (
            {"combining": "zf"},
            r"zf aligns 4 devices with as many antennas at least, the receiver has 2; write",
        ),
        ({"combining": "zf", "fading": "constant", "num_antennas": 4}, "without fading is the same at all antennas"),
        ({"combining": "blind", "fading": "rician"}, "averages out channels of mean zero only"),
        ({"combining": "mmse", "policy": "truncated-inversion"}, "no channel that policy truncated-inversion could"),
        (
            {"combining": "blind", "policy": "mse-optimal"},
            "no channel that policy mse-optimal could follow",
        ),
    ],
    ids=str,
)
def test_combiners_say_what_they_need(link: dict[str, Any], says: str) -> None:
    config = air(link.pop("num_antennas", 2), link.pop("combining"), **link)
    with pytest.raises(LinkError, match=says):
        compile_air(config, num_devices=4, num_symbols=10)
