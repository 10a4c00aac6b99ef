"""OFDM front-end: grid, channel, noise and channel estimate.

The domain carries the grid (`FrequencyDomain` here, `TimeDomain` in `phy.frontends.ofdm_time`). Energies are those of
samples: with a unitary Fourier transform (Parseval) a data symbol of amplitude a costs a^2 and the prefix of an OFDM
symbol its share on top. The noise at a carrier has power 2 N0, for the Fourier transform of white noise is white; so it
is drawn per resource element in both domains, which then meet the same noise.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from phy.config import ChannelConfig, CsiEstimation, LinkConfig, OfdmConfig
from phy.frontends import air
from phy.frontends.estimation import LeastSquares, PilotEstimator
from phy.frontends.impairments import draw_offsets, impair_grid
from phy.frontends.joint_estimation import linear_mmse
from phy.frontends.resource_grid import Grid
from phy.stages import Frontend, Launch, Observation, Propagation


class Domain(Protocol):
    """Transmission of a grid through the channel."""

    response: NDArray[np.complex128]
    """Response of each carrier to a path of unit gain, `[paths, num_carriers]`."""
    offsets_s: NDArray[np.float64]
    """Instants of the path gains, from the start of the packet [s]."""

    def carry(self, launch: Launch, grid: Any, taps: Any) -> tuple[Any, Any]:
        """(faded grid `[rows, users, antennas, times, num_carriers]` without noise, sent energy `[rows, users]`).

        `grid` `[rows, users, times, num_carriers]`, or `[..., num_subcarriers]` where impairments fill other carriers
        too; `taps` `[rows * users, antennas, paths, instants]` at `offsets_s`.
        """
        ...

    def at_carriers(self, taps: Any) -> Any:
        """h in the middle of each OFDM symbol from the same taps, `[rows * users, antennas, times or 1, carriers]`."""
        ...


class FrequencyDomain(Domain):
    """Multiplication of each carrier by H(f) = sum_p a_p exp(-j 2 pi f tau_p) per OFDM symbol; see `Domain`."""

    def __init__(self, ofdm: OfdmConfig, *, channel: ChannelConfig, grid: Grid, propagation: Propagation) -> None:
        self.response = np.exp(-2j * np.pi * propagation.delays_s[:, None] * grid.frequencies_hz)
        self.offsets_s = grid.middles_s[: 1 if air.motion(channel) == "still" else None]
        self._ofdm = ofdm
        self._grid = grid

    def carry(self, launch: Launch, grid: Any, taps: Any) -> tuple[Any, Any]:
        rows, users = launch.amplitude.shape
        at = self.at_carriers(taps)
        faded = air.arrive(launch, self._grid.select(grid), tf.reshape(at, [rows, users, *at.shape[1:]]))
        return faded, launch.amplitude**2 * np.float32(self._ofdm.prefix_share) * tf.reduce_sum(
            air.power_of(grid), axis=[2, 3]
        )

    def at_carriers(self, taps: Any) -> Any:
        return respond(taps, self.response)


def respond(taps: Any, response: NDArray[np.complex128]) -> Any:
    """Path gains `[n, antennas, paths, times]` to carriers `[n, antennas, times, carriers]`.

    One path without delay is the same on all carriers and stays one value.
    """
    if np.all(response == 1.0):
        return tf.reduce_sum(taps, axis=2)[..., None]
    return tf.einsum("napt,pc->natc", taps, tf.constant(response.astype(np.complex64)))


class OfdmFrontend(Frontend):
    """Packets of whole slots over an OFDM grid; see `phy.stages.Frontend`.

    `channel_uses` counts the resource elements of the device and the samples of the prefixes; one of them lasts
    `OfdmConfig.sample_s`, so that energies times it are in joule. Under
    OFDMA all devices send at the same time, each on fewer carriers for more OFDM symbols: `airtime_s` is that of one
    packet, and packets of different devices overlap.

    Channel knowledge: perfect in the middle of each OFDM symbol; h^ = h + sqrt(v) e with e ~ CN(0, 1) per antenna and
    coherence block (per packet where the channel moves), for every carrier anew where the channel has several paths; or
    estimated from the pilots. Perfect knowledge is of the channel, not of what transmitters do wrong.
    """

    def __init__(self, config: LinkConfig, *, grid: Grid, propagation: Propagation, domain: Domain) -> None:
        ofdm = grid.ofdm
        self.num_symbols = grid.num_symbols
        self.channel_uses = grid.num_ofdm_symbols * (grid.num_carriers + ofdm.cyclic_prefix_length)
        self.airtime_s = grid.num_ofdm_symbols * ofdm.symbol_s
        self._config = config
        self._grid = grid
        self._propagation = propagation
        self._domain = domain
        self._estimator = _estimator(config, grid=grid, propagation=propagation, response=domain.response)
        self._mean_response = np.asarray(domain.response @ np.conj(domain.response.T) / grid.num_carriers, np.complex64)
        self._place = tf.function(self._place_symbols, jit_compile=True, autograph=False)
        self._draw_offsets = tf.function(self._offsets_of, jit_compile=True, autograph=False)
        self._impair = tf.function(self._impair_grid, jit_compile=True, autograph=False)
        self._draw_noise = tf.function(self._noise_of, jit_compile=True, autograph=False)
        self._draw_error = tf.function(self._error_of, jit_compile=True, autograph=False)
        self._receive = tf.function(self._receive_grid, jit_compile=True, autograph=False)
        self._average = tf.function(self._average_taps, jit_compile=True, autograph=False)

    def observe(self, launch: Launch) -> Observation:
        config = self._config
        grid = self._place(launch.symbols)
        if not config.impairments.none:
            grid = self._impair(grid, self._draw_offsets(launch.impairment_key))
        taps = self._taps(launch.channel_key, launch.start_s, self._domain.offsets_s)
        error = self._draw_error(launch.csi_key) if config.csi_error_variance else None
        return Observation(*self._receive(launch, grid, taps, self._draw_noise(launch.noise_key), error))

    def mean_power(self, channel_key: Any, start_s: Any) -> Any:
        still = air.motion(self._config.channel) == "still"
        taps = self._taps(channel_key, start_s, self._grid.middles_s[: 1 if still else None])
        return tf.reshape(self._average(taps), channel_key.shape[:2])

    def _taps(self, channel_key: Any, start_s: Any, offsets_s: NDArray[np.float64]) -> Any:
        at = air.instants(start_s, offsets_s, num_users=self._grid.num_users)
        return self._propagation.taps(air.flat_keys(channel_key), at)

    def _average_taps(self, taps: Any) -> Any:
        """Mean over carriers of |sum_p a_p r_p|^2 = sum_pq a_p conj(a_q) mean(r_p conj(r_q)), then over the rest."""
        if len(self._mean_response) == 1:
            power = air.power_of(taps) * float(np.real(self._mean_response[0, 0]))
        else:
            mixed = tf.einsum("napt,pq->naqt", taps, tf.constant(self._mean_response))
            power = tf.reduce_sum(tf.math.real(mixed * tf.math.conj(taps)), axis=2, keepdims=True)
        return tf.reduce_mean(power, axis=[1, 2, 3])

    def _place_symbols(self, symbols: Any) -> Any:
        return self._grid.place(symbols)

    def _offsets_of(self, key: Any) -> Any:
        ofdm, config = self._grid.ofdm, self._config.impairments
        return draw_offsets(key, config=config, sample_s=ofdm.sample_s, carrier_hz=ofdm.subcarrier_spacing_hz)

    def _impair_grid(self, grid: Any, offsets: Any) -> Any:
        return impair_grid(self._grid.spread(grid), offsets, config=self._config.impairments, ofdm=self._grid.ofdm)

    def _noise_of(self, key: Any) -> Any:
        times, carriers = self._grid.num_ofdm_symbols, self._grid.num_carriers
        antennas = self._propagation.num_antennas
        drawn = air.draw_normals(key, rows=antennas, columns=times * carriers)
        return tf.reshape(drawn, [key.shape[0], antennas, times, carriers])

    def _error_of(self, key: Any) -> Any:
        channel, antennas = self._config.channel, self._propagation.num_antennas
        times = self._grid.num_ofdm_symbols if channel.coherence == "symbol" else 1
        carriers = self._grid.num_carriers if len(self._propagation.delays_s) > 1 else 1
        drawn = air.draw_normals(key, rows=antennas, columns=times * carriers)
        return tf.reshape(drawn, [*key.shape[:2], antennas, times, carriers])

    def _receive_grid(self, launch: Launch, grid: Any, taps: Any, noise: Any, error: Any) -> tuple[Any, ...]:
        where, data = self._grid, self._grid.data_rows
        faded, transmit_energy = self._domain.carry(launch, grid, taps)
        received = air.add_noise(faded, noise, launch.noise_power)
        channel, variance = self._channel_estimate(launch, received, taps, error)
        on_air = launch.amplitude > 0.0
        active = tf.cast(on_air, tf.complex64)[:, :, None, None, None, None]
        variance = tf.where(on_air[:, :, None, None, None], variance[:, :, 0], 0.0)
        counted = tf.constant(where.counted)
        return (
            where.unpack(where.take(received, data)),
            where.unpack(active * channel),
            where.unpack(variance),
            launch.noise_power,
            transmit_energy,
            air.mean_energy(faded, counted),
            air.mean_energy(noise, counted) * launch.noise_power,
        )

    def _channel_estimate(self, launch: Launch, received: Any, taps: Any, error: Any) -> tuple[Any, Any]:
        """(G^ `[rows, users, antennas, slots, data symbols, carriers]`, its error variance), with axes of length 1."""
        where, arrival = self._grid, launch.amplitude * launch.gain
        if self._estimator is not None:
            pilots = where.take(received, where.pilot_rows)
            return self._estimator.estimate(pilots, arrival, launch.noise_power)
        at = self._domain.at_carriers(taps)
        channel = tf.reshape(at, [*arrival.shape, *at.shape[1:]])
        variance = self._config.csi_error_variance
        if error is not None:
            channel = channel + np.complex64(np.sqrt(variance)) * error
        channel = tf.cast(arrival, tf.complex64)[:, :, None, None, None] * channel
        planes = where.take(channel, where.data_rows) if channel.shape[3] > 1 else channel[:, :, :, None]
        return planes, (np.float32(variance) * arrival**2)[:, :, None, None, None, None]


def _estimator(
    config: LinkConfig, *, grid: Grid, propagation: Propagation, response: NDArray[np.complex128]
) -> PilotEstimator | None:
    if not isinstance(config.csi, CsiEstimation):
        return None
    if config.csi.estimator == "ls":
        return LeastSquares(grid)
    return linear_mmse(grid, propagation=propagation, response=response)
