"""Clustered delay lines of TR 38.901 7.7.1 through Sionna's `CDL`, at any instants.

The device has one omnidirectional antenna of vertical polarisation, the server a horizontal linear array of such
antennas half a wavelength apart. With equal polarisations the polarisation matrix leaves one unit phasor per ray, so
that the mean power of each antenna is the sum of the table's powers, 1, without further scaling.

The channel is Sionna's downlink, read backwards by reciprocity. In its uplink Sionna 1.2.2 computes the Doppler shifts
from the angles at the server although the device moves (`ChannelCoefficientsGenerator._step_11_doppler_matrix` uses the
angles of arrival for either `moving_end`); without motion the two agree in law.

Sionna draws velocities in space, azimuth and zenith uniform. Devices of TR 38.901 move in the horizontal plane (Tables
7.2-1 to 7.2-3, and the examples of 7.6.3 and 7.7): of a velocity drawn in space the azimuth is kept.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from phy.config.base import SPEED_OF_LIGHT_M_S
from phy.fading.clusters import Clusters, clusters_of
from phy.fading.waves import PlaneWaves
from phy.numerics.generator_override import override_generator
from phy.numerics.lazy_tensorflow import tf

Movement = Literal["horizontal", "space"]

_ZENITH_NODES = 400
"""Gauss-Legendre nodes over the zenith of the velocity: exact to 1e-9 up to lags of some 100 turns."""


def clustered_delay_line(
    letter: str,
    *,
    delay_spread_s: float,
    carrier_frequency_hz: float,
    speed_m_s: float,
    movement: Movement,
    num_antennas: int,
) -> PlaneWaves:
    """CDL-`letter` with delays in ascending order, as Sionna returns them."""
    clusters = clusters_of(letter)
    order = clusters.order(delay_spread_s)
    powers = clusters.mean_powers[order]
    wavelength_m = float(np.float32(SPEED_OF_LIGHT_M_S / carrier_frequency_hz))
    return PlaneWaves(
        num_antennas=num_antennas,
        delays_s=clusters.delays_s(delay_spread_s)[order],
        powers=powers / powers.sum(),
        draw=lambda key: _draw(letter, delay_spread_s, carrier_frequency_hz, speed_m_s, movement, num_antennas)(key),
        correlation=partial(
            _correlation, clusters=clusters, order=order, doppler_hz=speed_m_s / wavelength_m, movement=movement
        ),
        moves=speed_m_s > 0.0,
    )


def _model(
    letter: str,
    delay_spread_s: float,
    carrier_frequency_hz: float,
    speed_m_s: float,
    movement: Movement,
    num_antennas: int,
) -> Any:
    from sionna.phy.channel.tr38901 import CDL, Antenna, AntennaArray

    kind = {"polarization": "single", "polarization_type": "V", "antenna_pattern": "omni"}
    device = Antenna(**kind, carrier_frequency=carrier_frequency_hz)
    server = AntennaArray(1, num_antennas, **kind, carrier_frequency=carrier_frequency_hz)
    model = CDL(letter, delay_spread_s, carrier_frequency_hz, device, server, "downlink", min_speed=speed_m_s)
    model._cir_sampler = _ray_generator()(carrier_frequency_hz, server, device, subclustering=False)
    model._cir_sampler.movement = movement
    return model


@lru_cache(maxsize=1)
def _ray_generator() -> Any:
    from sionna.phy.channel.tr38901 import ChannelCoefficientsGenerator

    class RayGenerator(ChannelCoefficientsGenerator):  # type: ignore[misc]
        """Sionna's coefficients of every ray at time 0 in place of their sum over time: TR 38.901 (7.5-28), (7.5-29).

        The rays (the direct path last) stand where Sionna has the time steps, and their Doppler shifts [Hz] where it
        has the delays, `[batch, num_tx, num_rx, clusters * rays]`.
        """

        movement: Movement

        def __call__(self, steps: Any, sampling_hz: Any, k_factor: Any, rays: Any, topology: Any) -> Any:  # noqa: ARG002
            start = tf.zeros([1], self.rdtype)
            phases = self._step_10(tf.shape(rays.aoa))
            scattered = self._step_11_nlos(phases, topology, rays, start)[..., 0]
            weights = tf.transpose(scattered, [0, 1, 2, 3, 5, 6, 4])
            doppler = self._shifts(topology, rays.zoa, rays.aoa)

            k = tf.cast(k_factor, self.cdtype)[..., None, None, None, None]
            direct = self._step_11_los(topology, start) * tf.sqrt(k / (k + 1.0))
            direct = tf.pad(direct, [[0, 0]] * 3 + [[0, weights.shape[3] - 1]] + [[0, 0]] * 3)
            along = self._shifts(topology, topology.los_zoa[..., None, None], topology.los_aoa[..., None, None])
            with_direct = tf.concat([weights * tf.sqrt(1.0 / (k + 1.0)), direct], axis=-1)
            weights = tf.where(topology.los[..., None, None, None, None], with_direct, tf.pad(weights, _one_more(7)))
            doppler = tf.concat([doppler, tf.broadcast_to(along, [*doppler.shape[:-1], 1])], axis=-1)
            return weights, tf.reshape(doppler, [*doppler.shape[:3], -1])

        def _shifts(self, topology: Any, zenith: Any, azimuth: Any) -> Any:
            velocity = topology.velocities[:, None, :, None, None, :]
            if self.movement == "horizontal":
                speed, azimuth_of = tf.norm(velocity, axis=-1), tf.atan2(velocity[..., 1], velocity[..., 0])
                along = (tf.cos(azimuth_of), tf.sin(azimuth_of), tf.zeros_like(speed))
                velocity = speed[..., None] * tf.stack(along, axis=-1)
            direction = self._unit_sphere_vector(zenith, azimuth)[..., 0]
            return tf.reduce_sum(direction * velocity, axis=-1) / self._lambda_0

    return RayGenerator


def _one_more(rank: int) -> list[list[int]]:
    return [[0, 0]] * (rank - 1) + [[0, 1]]


@lru_cache(maxsize=64)
def _draw(
    letter: str,
    delay_spread_s: float,
    carrier_frequency_hz: float,
    speed_m_s: float,
    movement: Movement,
    num_antennas: int,
) -> Any:
    with tf.init_scope():
        model = _model(letter, delay_spread_s, carrier_frequency_hz, speed_m_s, movement, num_antennas)
    order = clusters_of(letter).order(delay_spread_s)

    @tf.function(jit_compile=True, autograph=False)
    def draw(key: Any) -> tuple[Any, Any]:
        rows = key.shape[0]
        with override_generator(key):
            # Shapes as Sionna's: [rows, 1 rx, 1 rx antenna, 1 tx, tx antennas, clusters, rays] and [rows, 1, 1, all].
            weights, doppler = model(rows, 1, 1.0)
        weights = tf.gather(weights[:, 0, 0, 0], order, axis=2)
        doppler = tf.gather(tf.reshape(doppler, [rows, len(order), -1]), order, axis=1)
        rays = weights.shape[3] if model.los else weights.shape[3] - 1
        return weights[..., :rays], doppler[..., :rays]

    return draw


def _correlation(
    lag_s: NDArray[np.float64],
    *,
    clusters: Clusters,
    order: NDArray[np.intp],
    doppler_hz: float,
    movement: Movement,
) -> NDArray[np.complex128]:
    """Mean of exp(-2 pi i f_D lag <ray, velocity>) over the rays of every cluster and over velocities.

    `[clusters, *lag.shape]`, by ascending delay; a direct path counts among the rays of the first cluster of the table.
    """
    distinct, where = np.unique(np.abs(lag_s), return_inverse=True)
    phase = 2.0 * np.pi * doppler_hz * distinct
    found = np.array(
        [_mean_turn(phase, zeniths, movement).mean(axis=0) for zeniths in clusters.zeniths[0].astype(float)]
    )
    if clusters.k:
        ratio = float(clusters.k / clusters.powers[0])
        direct = _mean_turn(phase, clusters.direct_zeniths[:1].astype(float), movement)[0]
        found[0] = (found[0] + ratio * direct) / (1.0 + ratio)
    return found[order][:, where.reshape(np.shape(lag_s))].astype(np.complex128)


def _mean_turn(phase: NDArray[np.float64], zeniths: NDArray[np.float64], movement: Movement) -> NDArray[np.float64]:
    """Mean of exp(-i k <ray, velocity>) over unit velocities, for phases k and zeniths of rays: `[rays, phases]`.

    The azimuth of the velocity is uniform and integrates to J0(k sin(zenith of ray) sin(zenith of velocity)). The
    zenith is pi / 2, or uniform on [0, pi) and integrated by quadrature. Velocities come in opposite pairs, so the mean
    is real and even in the lag.
    """
    from scipy import special

    if movement == "horizontal":
        return np.asarray(special.j0(np.sin(zeniths)[:, None] * phase))
    nodes, weights = np.polynomial.legendre.leggauss(_ZENITH_NODES)
    velocity = (nodes + 1.0) * np.pi / 2.0
    across, along = np.sin(zeniths)[:, None] * np.sin(velocity), np.cos(zeniths)[:, None] * np.cos(velocity)
    turns = special.j0(phase[:, None, None] * across) * np.cos(phase[:, None, None] * along)
    return np.asarray((turns @ (weights / 2.0)).T)
