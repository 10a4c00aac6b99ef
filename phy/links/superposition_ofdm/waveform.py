"""Superposition over OFDM in the time domain: samples of all waveforms in the receiver's windows.

OFDM symbol t of device k is, prefix included, a function of continuous time n [samples] since the end of its prefix,

    s_t(n) = 1 / sqrt(N) sum_c X_t(c) exp(2 pi i c n / N),   -CP <= n < N,

and the next symbol follows N + CP samples later. The device is tau samples late and path p another tau_p. Sample n of
the window that the receiver opens at the end of the prefix of symbol t is

    y_t[n] = sum_k exp(2 pi i f_k (t (N + CP) + CP + n)) sum_p h_kp(t, n) u_kp[n],
    u_kp[n] = s_t(m) if n >= floor(tau_k + tau_p - CP + u_k), else s_(t-1)(m + N + CP), at m = n - tau_k - tau_p

with the phase u_k of the sample clock of device k, see `phy.frontends.windows`.

A window over which all paths lie within the prefix thus has s_t alone, on which a delay is a turn of every carrier. In
any other window the end of the symbol before takes the place of the beginning of its own, and carriers are no longer
orthogonal. Path gains are those at every sample: polynomials between a few instants of a window, exact to 2^-20.

A chunk of OFDM symbols ends in the next window, so that chunks add up to the received samples.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from phy.config.ofdm import ON_GRID
from phy.frontends.impairments import Offsets, turn_samples
from phy.links.superposition_ofdm.layout import keys_of_symbols
from phy.links.superposition_ofdm.sums import Who

if TYPE_CHECKING:
    from phy.links.superposition_ofdm.knowledge import SumChainSpec

_LARGEST_ERROR = 2.0**-20


class Waveform:
    """Received windows of the chunks of one specification; called inside compiled functions.

    `late`: some path of some device may come after the prefix.
    """

    def __init__(self, spec: SumChainSpec) -> None:
        ofdm = spec.layout.ofdm
        bandwidth_hz = ofdm.num_subcarriers * ofdm.subcarrier_spacing_hz
        self._spec = spec
        self._delays = spec.propagation.delays_s * bandwidth_hz
        latest = self._delays.max() + spec.impairments.timing_offset_s * bandwidth_hz
        self.late = math.ceil(latest - ON_GRID) > ofdm.cyclic_prefix_length
        self._windows = spec.ofdm_symbols + int(self.late)
        bins = np.arange(ofdm.num_subcarriers) - ofdm.num_subcarriers // 2
        self._response = np.exp(-2j * np.pi * self._delays[:, None] * bins / ofdm.num_subcarriers)
        self._ahead = np.exp(2j * np.pi * bins * ofdm.cyclic_prefix_length / ofdm.num_subcarriers).astype(np.complex64)
        turn = 2.0 * np.pi * spec.max_doppler_hz / ofdm.subcarrier_spacing_hz if spec.motion == "moving" else 0.0
        self._nodes, self._between = nodes_of_window(ofdm.num_subcarriers, turn=turn)
        self._at = tf.function(self._draws_of, jit_compile=True, autograph=False)

    def taps(self, who: Who, start: Any) -> Any:
        """Path gains at the nodes of the windows from data symbol `start` on, as `add_up` takes them."""
        spec = self._spec
        drawn = spec.propagation.taps(*self._at(who.channel_key, who.start_s, start))
        if spec.motion == "symbol":
            return tf.transpose(tf.reshape(drawn, [spec.rows, self._windows, -1, 1]), [0, 2, 1, 3])
        return tf.reshape(drawn, [spec.rows, drawn.shape[2], -1, len(self._nodes)])

    def _number(self, start: Any) -> Any:
        """Number of the OFDM symbol of each window, `[windows]`."""
        return self._spec.layout.positions(start // np.uint32(self._spec.plane[1]), self._windows)[1]

    def _draws_of(self, channel_key: Any, start_s: Any, start: Any) -> tuple[Any, Any]:
        """Keys `[n, 2]` and instants `[n, ...]` [s] of the path gains."""
        spec, layout = self._spec, self._spec.layout
        keys, number = tf.reshape(channel_key, [spec.rows, 2]), self._number(start)
        if spec.motion == "symbol":
            return keys_of_symbols(keys, number)
        begins = tf.cast(number[:1] if spec.motion == "still" else number, tf.float32) * np.float32(
            layout.ofdm.symbol_s
        )
        inside = layout.pilots_s + layout.ofdm.prefix_s + self._nodes * layout.ofdm.sample_s
        after = tf.reshape(begins[:, None] + inside.astype(np.float32), [-1])
        return keys, tf.repeat(start_s[:, None] + after[None, :], layout.num_devices, axis=0)

    def add_up(self, sent: Any, taps: Any, offsets: Offsets, phase: Any, who: Who, start: Any) -> tuple[Any, Any]:
        """(received `[trials, OFDM symbols, carriers]`, that in the window after them `[trials, carriers]`), no noise.

        `sent` `[trials, devices, OFDM symbols, num_subcarriers]` with the turns of its delay on the carriers; `taps`
        `[rows, paths, windows or 1, nodes]`; `phase` `[rows]` of sample clocks. Without late paths the window after
        them has no carriers.
        """
        spec, ofdm = self._spec, self._spec.layout.ofdm
        size, prefix = ofdm.num_subcarriers, ofdm.cyclic_prefix_length
        shape = (spec.trials, spec.layout.num_devices)
        number = self._number(start)
        gain = tf.cast(tf.reshape(who.gain, [*shape, 1, 1]), tf.complex64)
        grid = tf.reshape(gain * sent, [spec.rows, spec.ofdm_symbols, size])
        if not self.late:
            samples = self._pass(grid, taps)
        else:
            follows = tf.cast(number[1:] - number[:-1] == 1, tf.complex64)[None, :, None]
            own, after = 0.0, 0.0
            for lag, paths in self._groups(offsets, phase):
                here = taps * paths
                missed = (np.arange(size) < (lag - prefix)[:, None])[:, None, :]
                begun = self._pass(grid, here[:, :, : spec.ofdm_symbols])
                ended = self._pass(grid * self._ahead, here[:, :, -spec.ofdm_symbols :])
                own += tf.where(missed, tf.zeros_like(begun), begun)
                after += tf.where(missed, ended, tf.zeros_like(ended))
            samples = tf.pad(own, [[0, 0], [0, 1], [0, 0]]) + tf.pad(after * follows, [[0, 0], [1, 0], [0, 0]])
        samples = tf.reshape(samples, [*shape, self._windows, size])
        if offsets.frequency is not None:
            samples = turn_samples(samples, offsets.frequency, number, ofdm=ofdm)
        total = tf.signal.fft(tf.reduce_sum(samples, axis=1)) / np.complex64(np.sqrt(size))
        received = spec.layout.grid.select(total)
        return received[:, : spec.ofdm_symbols], received[:, spec.ofdm_symbols :]

    def _pass(self, grid: Any, taps: Any) -> Any:
        """Symbols `[rows, symbols, size]` through paths `[rows, paths, symbols or 1, nodes]`: endless samples."""
        size = grid.shape[-1]
        response = tf.constant(self._response.astype(np.complex64))
        channel = tf.einsum("rpwq,pc->rwqc", taps, response)
        waves = tf.signal.ifft(grid[:, :, None] * channel) * np.complex64(np.sqrt(size))
        return tf.reduce_sum(waves * tf.constant(self._between.astype(np.complex64)), axis=2)

    def _groups(self, offsets: Offsets, phase: Any) -> list[tuple[Any, Any]]:
        """Paths that begin at the same sample: (lag `[rows]` int32, mask `[rows, paths, 1, 1]`)."""
        spec, delays = self._spec, self._delays
        size = spec.layout.ofdm.num_subcarriers
        turns = np.zeros(spec.rows, np.uint32) if offsets.delay is None else tf.reshape(0 - offsets.delay, [spec.rows])
        late = tf.cast(turns, tf.float64) * (size / 2.0**32)

        clock = tf.cast(phase, tf.float64) + ON_GRID

        def first_sample(delay: Any) -> Any:
            return tf.cast(tf.math.floor(delay), tf.int32)

        lags = first_sample((late + clock)[:, None] + delays)
        span = math.ceil(delays.max()) + 1
        if span >= len(delays):
            masks = np.eye(len(delays), dtype=np.complex64)[:, None, :, None, None]
            return [(lags[:, path], tf.constant(masks[path])) for path in range(len(delays))]
        own = first_sample(late + clock)
        behind = lags - own[:, None]
        return [(own + lag, tf.cast(behind == lag, tf.complex64)[:, :, None, None]) for lag in range(span)]


def nodes_of_window(size: int, *, turn: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(instants in a window of `size` samples `[nodes]` [samples], polynomials `[nodes, size]` that are 1 at one each).

    Chebyshev nodes: n of them follow a wave that turns by `turn` [rad] over the window up to 2 (turn / 4)^n / n!.
    """
    count = 1
    while 2.0 * (turn / 4.0) ** count / math.factorial(count) > _LARGEST_ERROR:
        count += 1
    nodes = (1.0 - np.cos(np.pi * (np.arange(count) + 0.5) / count)) / 2.0 * size
    at = np.arange(size)[:, None]
    between = np.ones((count, size))
    for node in range(count):
        others = np.delete(nodes, node)
        between[node] = ((at - others) / (nodes[node] - others)).prod(axis=1)
    return nodes, between
