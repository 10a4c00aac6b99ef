"""Sums of waves: against double precision, Sionna's TDL and CDL under the same keys, and the laws they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from radio import ERRORS_OF_A_CHECK, frequency_correlation, standard_errors_off
from scipy import special, stats

from phy.config import ChannelConfig
from phy.fading.build import build_propagation
from phy.fading.cdl import _mean_turn
from phy.fading.clusters import clusters_of
from phy.fading.correlation import clarke_correlation
from phy.fading.tdl import FLAT_WAVES, TDL_WAVES, tdl_profile
from phy.fading.waves import sum_of_waves
from phy.numerics.generator_override import override_generator

DELAY_SPREAD_S, CARRIER_HZ, SPEED_M_S, SAMPLING_HZ = 300e-9, 3.5e9, 30.0, 1e4
STEPS = 6


def some_keys(rows: int) -> NDArray[np.uint32]:
    return np.random.default_rng(9).integers(0, 1 << 32, (rows, 2), dtype=np.uint32)


def taps(keys: NDArray[np.uint32], instants: NDArray[Any], *, num_antennas: int = 1, **channel: Any) -> NDArray[Any]:
    import tensorflow as tf

    which = build_propagation(
        ChannelConfig(delay_spread_s=DELAY_SPREAD_S, carrier_frequency_hz=CARRIER_HZ, **channel),
        num_antennas=num_antennas,
    )
    each = np.broadcast_to(np.asarray(instants, np.float32), (len(keys), np.shape(instants)[-1]))
    found: NDArray[Any] = which.taps(tf.constant(keys), tf.constant(each)).numpy()
    return found


@pytest.mark.parametrize(("num_rows", "num_antennas", "num_instants"), [(3, 1, 40), (17, 3, 1), (1, 2, 5)])
@pytest.mark.parametrize("until_s", [0.1, 100.0])
def test_a_sum_of_waves_is_the_sum_of_exponentials(
    num_rows: int, num_antennas: int, num_instants: int, until_s: float
) -> None:
    """Up to half a million turns, in double precision from the same single-precision inputs."""
    rng = np.random.default_rng(1)
    shape = (num_rows, num_antennas, 4, 20)
    weights = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)
    doppler = rng.uniform(-5e3, 5e3, (num_rows, 4, 20)).astype(np.float32)
    instants = rng.uniform(0.0, until_s, (num_rows, num_instants)).astype(np.float32)

    def summed(turns: NDArray[Any]) -> NDArray[np.complex128]:
        waves = np.exp(2j * np.pi * turns.astype(float))
        return np.asarray(np.einsum("naps,npst->napt", weights.astype(complex), waves))

    exact = summed(doppler.astype(float)[..., None] * instants.astype(float)[:, None, None, :])
    off = np.abs(sum_of_waves()(weights, doppler, instants).numpy() - exact).max()
    # Twenty waves of amplitude 1.3, each with its phase good to 1e-7 turns and 2^-34 of f t, and rounding.
    assert off < 20 * 1.3 * 2.0 * np.pi * (1e-7 + 2.0**-34 * 5e3 * until_s) + 1e-5
    if until_s == 100.0:  # the product as float32 rounds it
        assert np.abs(summed(doppler[..., None] * instants[:, None, None, :]) - exact).max() > 10.0 * off


def sionna_tdl(letter: str, keys: NDArray[np.uint32], *, num_antennas: int, speed_m_s: float) -> NDArray[Any]:
    import tensorflow as tf
    from sionna.phy.channel.tr38901 import TDL

    along = float(np.arccos(0.7))
    block = TDL(
        letter,
        DELAY_SPREAD_S,
        CARRIER_HZ,
        min_speed=speed_m_s,
        num_rx_ant=num_antennas,
        los_angle_of_arrival=along,
    )
    with override_generator(tf.constant(keys)):
        gains, _ = block(len(keys), STEPS, SAMPLING_HZ)
    found: NDArray[Any] = gains.numpy()[:, 0, :, 0, 0]
    return found


@pytest.mark.parametrize("speed_m_s", [0.0, SPEED_M_S])
@pytest.mark.parametrize("letter", "ABCDE")
def test_a_tapped_delay_line_is_sionnas_under_the_same_keys(letter: str, speed_m_s: float) -> None:
    keys = some_keys(5)
    ours = taps(
        keys, np.arange(STEPS) / SAMPLING_HZ, num_antennas=2, model=f"tdl-{letter.lower()}", speed_m_s=speed_m_s
    )
    theirs = sionna_tdl(letter, keys, num_antennas=2, speed_m_s=speed_m_s)
    # Sionna's angles and phases are rounded in radians: 1e-6 per wave.
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("letter", "AD")
def test_the_comparison_with_sionna_sees_one_percent_of_speed(letter: str) -> None:
    keys = some_keys(5)
    ours = taps(keys, np.arange(STEPS) / SAMPLING_HZ, model=f"tdl-{letter.lower()}", speed_m_s=1.01 * SPEED_M_S)
    theirs = sionna_tdl(letter, keys, num_antennas=1, speed_m_s=SPEED_M_S)
    assert np.abs(ours - theirs).max() > 1e-3


@pytest.mark.parametrize("letter", "ABCDE")
def test_the_delay_profile_is_sionnas(letter: str) -> None:
    from sionna.phy.channel.tr38901 import TDL

    table = TDL(letter, DELAY_SPREAD_S, CARRIER_HZ)
    which = build_propagation(
        ChannelConfig(model=f"tdl-{letter.lower()}", delay_spread_s=DELAY_SPREAD_S),
        num_antennas=1,
    )
    np.testing.assert_allclose(which.delays_s, table.delays.numpy(), rtol=1e-6)
    np.testing.assert_allclose(which.powers, table.mean_powers.numpy(), rtol=1e-5)
    # TR 38.901 7.7.3: the normalised tables have an RMS delay spread of one; they are rounded to four places.
    mean = which.powers @ which.delays_s
    spread = np.sqrt(which.powers @ (which.delays_s - mean) ** 2)
    assert spread == pytest.approx(DELAY_SPREAD_S, rel=0.02)


def sionna_cdl(letter: str, keys: NDArray[np.uint32], *, num_antennas: int, speed_m_s: float) -> NDArray[Any]:
    import tensorflow as tf
    from sionna.phy.channel.tr38901 import CDL, Antenna, AntennaArray

    kind = {"polarization": "single", "polarization_type": "V", "antenna_pattern": "omni"}
    server = AntennaArray(num_rows=1, num_cols=num_antennas, carrier_frequency=CARRIER_HZ, **kind)
    device = Antenna(carrier_frequency=CARRIER_HZ, **kind)
    block = CDL(letter, DELAY_SPREAD_S, CARRIER_HZ, device, server, "downlink", min_speed=speed_m_s)
    with override_generator(tf.constant(keys)):
        gains, _ = block(len(keys), STEPS, SAMPLING_HZ)
    found: NDArray[Any] = gains.numpy()[:, 0, 0, 0]
    return found


@pytest.mark.parametrize(
    ("letter", "speed_m_s"),
    [
        ("A", SPEED_M_S),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("C", 0.0), ("D", SPEED_M_S), ("E", 0.0))),
    ],
)
def test_a_clustered_delay_line_is_sionnas_read_backwards(letter: str, speed_m_s: float) -> None:
    keys = some_keys(5)
    channel = {"model": f"cdl-{letter.lower()}", "speed_m_s": speed_m_s, "movement": "space"}
    ours = taps(keys, np.arange(STEPS) / SAMPLING_HZ, num_antennas=4, **channel)
    theirs = sionna_cdl(letter, keys, num_antennas=4, speed_m_s=speed_m_s)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)  # as above


@pytest.mark.slow
def test_clusters_leave_antennas_correlated_as_the_angles_at_the_server_say() -> None:
    """E[h_0 conj(h_d)] = sum over rays of P exp(-i pi d sin(zenith) sin(azimuth)), half a wavelength apart."""
    from sionna.phy.channel.tr38901 import CDL, Antenna

    kind = {"polarization": "single", "polarization_type": "V", "antenna_pattern": "omni"}
    device = Antenna(carrier_frequency=CARRIER_HZ, **kind)
    table = CDL("C", DELAY_SPREAD_S, CARRIER_HZ, device, device, "downlink")
    azimuth, zenith = table._aod.numpy()[0, 0, 0].astype(float), table._zod.numpy()[0, 0, 0].astype(float)
    powers = table.powers.numpy().astype(float)
    h = taps(some_keys(2000), np.zeros(1), num_antennas=3, model="cdl-c")[..., 0].astype(complex)
    for distance in (1, 2):
        # Azimuths and zeniths are coupled at random within a cluster, so they average separately.
        ray = np.exp(1j * np.pi * distance * np.sin(zenith)[:, :, None] * np.sin(azimuth)[:, None, :])
        expected = complex(powers @ ray.mean(axis=(1, 2)))
        product = (h[:, 0] * h[:, distance].conj()).sum(axis=1)
        # From which end Sionna counts the elements is its own affair: a mirrored array conjugates.
        along = min((expected, expected.conjugate()), key=lambda value: abs(product.mean() - value))
        assert abs(standard_errors_off(product.real, along.real)) < ERRORS_OF_A_CHECK
        assert abs(standard_errors_off(product.imag, along.imag)) < ERRORS_OF_A_CHECK


@pytest.mark.parametrize("rician_k", [0.0, 2.0])
def test_clarkes_channel_is_rayleigh_or_rician_at_any_instant(rician_k: float) -> None:
    channel: dict[str, Any] = {"fading": "rayleigh"}
    if rician_k:
        channel = {"fading": "rician", "rician_k_db": 10.0 * float(np.log10(rician_k))}
    instants = np.array([0.0, 7.0, 1000.0])
    h = taps(some_keys(4000), instants, num_antennas=2, coherence="doppler", speed_m_s=3.0, **channel)[:, :, 0]
    law = stats.ncx2(2, 2.0 * rician_k, scale=1.0 / (2.0 * (1.0 + rician_k))) if rician_k else stats.expon()
    for antenna, instant in ((0, 0), (1, 1), (0, 2)):
        power = np.abs(h[:, antenna, instant].astype(complex)) ** 2
        # p of a correct generator is uniform; 64 waves are 0.2 percent of probability away from a Gaussian, under
        # a tenth of what 4000 samples resolve.
        assert stats.kstest(power, law.cdf).pvalue > 1e-4
    # Years apart in coherence times, antennas and instants are independent but for the direct path.
    scattered = 1.0 / (1.0 + rician_k)
    cross = (h[:, 0, 0].astype(complex) * h[:, 1, 0].astype(complex).conj()).mean()
    assert abs(cross - (1.0 - scattered)) < 2.0 * ERRORS_OF_A_CHECK / np.sqrt(4000)


def test_time_averages_of_one_realisation_are_those_of_the_law() -> None:
    """Unit waves keep the power of every realisation; weights that were Gaussian would scatter it by 12 percent."""
    instants = np.random.default_rng(2).uniform(0.0, 100.0, 4000)
    h = taps(some_keys(16), instants, fading="rayleigh", coherence="doppler", speed_m_s=30.0)[:, 0, 0]
    power = (np.abs(h.astype(complex)) ** 2).mean(axis=1)
    assert (np.abs(power - 1.0) < ERRORS_OF_A_CHECK / np.sqrt(4000)).all()


def test_the_autocorrelation_is_the_bessel_function_of_clarke() -> None:
    lag = np.linspace(0.0, 0.01, 50)
    doppler_hz = ChannelConfig(model="tdl-a", speed_m_s=SPEED_M_S, carrier_frequency_hz=CARRIER_HZ).max_doppler_hz
    assert doppler_hz == pytest.approx(350.2, abs=0.1)
    declared = clarke_correlation(lag, doppler_hz=doppler_hz, los_power=0.0)
    np.testing.assert_allclose(declared, special.j0(2.0 * np.pi * doppler_hz * lag), atol=1e-15)
    # The direct path of TDL-D has most of the power and rotates.
    los = clarke_correlation(lag, doppler_hz=doppler_hz, los_power=tdl_profile("D").direct)
    assert tdl_profile("D").direct > 0.8
    assert (np.abs(los) > 0.7).all()


def test_the_fourth_moment_is_that_of_so_many_waves() -> None:
    """E|h|^4 = 2 - 1/S for S unit waves; of Rayleigh fading it is 2."""
    h = taps(some_keys(200_000 // 23), np.zeros(1), model="tdl-a").astype(complex)[:, 0, :, 0]
    powers = tdl_profile("A").powers
    samples = (np.abs(h) ** 4 / powers**2).ravel()
    assert abs(standard_errors_off(samples, 2.0 - 1.0 / TDL_WAVES)) < ERRORS_OF_A_CHECK
    assert FLAT_WAVES > 2 * TDL_WAVES


@pytest.mark.parametrize("movement", ["horizontal", "space"])
def test_directions_of_rays_average_to_the_declared_correlation_of_clusters(movement: Any) -> None:
    """Closed form and quadrature against a plain average over velocities."""
    rng = np.random.default_rng(4)
    zeniths = np.array([0.4, 1.5, 2.2])
    phase = 2.0 * np.pi * 300.0 * np.array([0.0, 1e-3, 3e-3])
    azimuth, zenith = rng.uniform(0.0, 2.0 * np.pi, 400_000), rng.uniform(0.0, np.pi, 400_000)
    if movement == "horizontal":
        zenith[:] = np.pi / 2.0
    along = np.sin(zenith) * np.cos(azimuth) * np.sin(zeniths)[:, None] + np.cos(zenith) * np.cos(zeniths)[:, None]
    for k, found in zip(phase, _mean_turn(phase, zeniths, movement).T, strict=True):
        samples = np.cos(k * along)
        off = np.abs(samples.mean(axis=1) - found)
        assert (off <= ERRORS_OF_A_CHECK * samples.std(axis=1) / np.sqrt(samples.shape[1]) + 1e-12).all()


@pytest.mark.parametrize("letter", ["A", "D"])
def test_the_rms_doppler_shift_of_clusters_is_that_of_their_angles(letter: str) -> None:
    """E[f^2] / f_D^2 = E[sin^2(zenith)] / 2 in the plane, and in space the mean of <ray, velocity>^2 by quadrature."""
    import tensorflow as tf

    clusters, squares = clusters_of(letter), {}
    for movement in ("horizontal", "space"):
        channel = ChannelConfig(model=f"cdl-{letter.lower()}", coherence="packet", speed_m_s=30.0, movement=movement)
        which: Any = build_propagation(channel, num_antennas=1)
        weights, doppler = which.draw(tf.constant(some_keys(4000)))
        power = np.abs(np.asarray(weights)[:, 0].astype(complex)) ** 2
        shifts = np.asarray(doppler, float) / channel.max_doppler_hz
        squares[movement] = (power * shifts**2).sum(axis=(1, 2)) / power.sum(axis=(1, 2))
    k, powers = float(clusters.k), clusters.powers.astype(float)
    zeniths = np.append(clusters.zeniths[0].astype(float).ravel(), float(clusters.direct_zeniths[0]))
    shares = np.append(np.repeat(powers / 20.0, 20), k) / (1.0 + k)
    velocity = (np.arange(2000) + 0.5) * np.pi / 2000
    across, along = np.sin(velocity)[:, None] * np.sin(zeniths), np.cos(velocity)[:, None] * np.cos(zeniths)
    expected = {
        "horizontal": float(shares @ np.sin(zeniths) ** 2 / 2.0),
        "space": float((across**2 / 2.0 + along**2).mean(axis=0) @ shares),
    }
    for movement, square in squares.items():
        assert abs(standard_errors_off(square, expected[movement])) < ERRORS_OF_A_CHECK
    # Planted: the other law of the velocity is found out.
    assert abs(standard_errors_off(squares["space"], expected["horizontal"])) > ERRORS_OF_A_CHECK
    assert 1.2 < np.sqrt(expected["horizontal"] / expected["space"]) < 1.42


def test_frequency_correlation_of_two_paths_beats() -> None:
    found = frequency_correlation([0.0, 1e-6], [0.5, 0.5], np.array([0.0, 0.25e6, 0.5e6, 1e6]))
    np.testing.assert_allclose(found, [1.0, 0.5 + 0.5j, 0.0, 1.0], atol=1e-12)


def test_nothing_is_traced_again_for_other_keys_and_instants() -> None:
    keys = some_keys(4)
    for shift in range(3):
        taps(keys + np.uint32(shift), np.arange(4.0) + shift, model="tdl-a", speed_m_s=1.0)
    before = sum_of_waves().experimental_get_tracing_count()
    taps(keys[::-1], np.arange(4.0) + 50.0, model="tdl-a", speed_m_s=1.0)
    assert sum_of_waves().experimental_get_tracing_count() == before
