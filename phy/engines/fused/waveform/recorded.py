"""Waveforms over a recorded channel: gains of every bin, motion within windows, and late paths.

The windows are those of `phy.frontends.windows`. Delays differ from link to link and from snapshot to snapshot, so
every packet brings its own late paths. A late path keeps the gain that it has at the start of a window, of which it
misses the first samples alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from phy.config import LinkConfig
from phy.config.ofdm import ON_GRID
from phy.engines.fused.fading.traces import TraceLines, lines_of
from phy.engines.fused.waveform.windows import swap_symbols, window_of_late
from phy.frontends.air import motion
from phy.frontends.resource_grid import Grid
from phy.frontends.windows import CLOCK_DRAW, CLOCK_PHASES, Windows
from phy.numerics.compiled import lean_kernel
from phy.numerics.random import threefry
from phy.traces.clock import trace_in
from phy.traces.extent import extent_of

_SLOWEST_HZ = 1e-9
"""Of straight lines between snapshots: three instants of a symbol are enough."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedWaves:
    """A recorded channel as packets of waveforms meet it.

    - `lines`: gains of all bins, DC in the middle, at the instants of `steps`, see `Windows`, or in the middle of every
      OFDM symbol without steps, or once where nothing moves;
    - `begins_s` `[OFDM symbols]`: starts of windows; `between` `[steps + 1, size]`: L of all instants;
    - `prefix`: samples before which no path is late, None where none may be; `sample_s` [s].
    """

    lines: TraceLines
    steps: int
    begins_s: NDArray[np.float64]
    between: NDArray[np.float32]
    prefix: int | None
    sample_s: float

    @property
    def size(self) -> int:
        """Numbers of a row of `given`, those of late paths left out."""
        return self.lines.size

    def given(self, keys: NDArray[np.uint32], start_s: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return `[rows, size or more]`: lines, then late paths with real part, imaginary part and delay [samples].

        `keys` and `start_s` as those of `TraceLines.given`.
        """
        lines = self.lines.given(keys, start_s)
        if self.prefix is None:
            return lines
        a, tau_s = self.lines.paths(keys, start_s, self.begins_s)
        delay = tau_s / self.sample_s
        delay = np.where(np.abs(delay - np.rint(delay)) < ON_GRID, np.rint(delay), delay)
        late = (delay - self.prefix > ON_GRID) & (a != 0.0)
        delay = np.where(late, delay, 0.0)
        most = int(late.sum(axis=3).max(initial=0))
        order = np.argsort(delay, axis=3)[..., delay.shape[3] - most :]
        a, delay = np.take_along_axis(np.where(late, a, 0.0), order, 3), np.take_along_axis(delay, order, 3)
        numbers = np.stack([a.real, a.imag, delay], axis=3).astype(np.float32)
        return np.concatenate([lines, numbers.reshape(len(keys), -1)], axis=1)

    def arrive(
        self, bins: NDArray[np.complex64], keys: NDArray[np.uint32], given: NDArray[np.float32]
    ) -> tuple[NDArray[np.complex64], NDArray[np.complex64]]:
        """Return received bins `[rows, antennas, OFDM symbols, size]`, and h with OFDM symbols or 1 of them.

        `bins` `[rows, OFDM symbols, size]` in the order of the transform, `keys` `[rows, 8]` with those of impairments
        from place 6 on.
        """
        gains = self._gains(given, bins.shape[2])
        channel = gains[:, :, self.steps // 2 :: self.steps] if self.steps else gains
        received, spilt = channel * bins[:, None], self.spill(bins, keys, given)
        return received if spilt is None else received + spilt, channel

    def spill(
        self, bins: NDArray[np.complex64], keys: NDArray[np.uint32], given: NDArray[np.float32]
    ) -> NDArray[np.complex64] | None:
        """Return what windows add to the product of `bins` with h, as `arrive` takes and returns them; None without."""
        rows, num_symbols, size = bins.shape
        antennas, steps, middle = self.lines.num_antennas, self.steps, self.steps // 2
        late_numbers = given[:, self.lines.size :]
        if not steps and not late_numbers.size:
            return None
        samples = np.zeros((rows, antennas, num_symbols, size), np.complex64)
        if steps:
            gains = self._gains(given, size)
            for step in (one for one in range(steps + 1) if one != middle):
                change = gains[:, :, step : step + steps * (num_symbols - 1) + 1 : steps] - gains[:, :, middle::steps]
                samples += fft.ifft(change * bins[:, None], norm="ortho") * self.between[step]
        if late_numbers.size and self.prefix is not None:
            late = late_numbers.reshape(rows, -1, antennas, 3, self._num_late(given))
            missed, channels = _late_channels(late, self.prefix, keys, size)
            _add_late(
                missed,
                channels,
                np.ascontiguousarray(bins).reshape(-1).view(np.float32),
                samples.reshape(-1).view(np.float32),
                *_turns(size, self.prefix),
                np.zeros((2, size), np.float32),
            )
        return np.asarray(fft.fft(samples, norm="ortho", overwrite_x=True), np.complex64)

    def _gains(self, given: NDArray[np.float32], size: int) -> NDArray[np.complex64]:
        """Gains `[rows, antennas, instants, size]` of the bins in the order of the transform."""
        shape = (len(given), len(self.lines.offsets_s), self.lines.num_antennas, 2, size)
        parts = given[:, : self.lines.size].reshape(shape)
        gains = fft.ifftshift(parts[..., 0, :] + np.complex64(1j) * parts[..., 1, :], axes=-1)
        return np.asarray(gains.swapaxes(1, 2), np.complex64)

    def _num_late(self, given: NDArray[np.float32]) -> int:
        instants = len(self.begins_s) if self.lines.moves else 1
        return int(given.shape[1] - self.lines.size) // (3 * instants * self.lines.num_antennas)


def _turns(size: int, prefix: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Turns of the bins by the prefix, and from one sample to the next, `[2, size]` each."""
    bins = _bins(size)
    return _parts(np.exp(2j * np.pi * bins * prefix / size)), _parts(np.exp(2j * np.pi * bins / size))


def _bins(size: int) -> NDArray[np.float64]:
    return np.asarray((np.fft.fftfreq(size) * size).round())


def _parts(values: NDArray[np.complexfloating]) -> NDArray[np.float32]:
    """`[..., n]` complex to `[..., 2, n]`."""
    return np.ascontiguousarray(np.stack([values.real, values.imag], axis=-2), np.float32)


def _late_channels(
    late: NDArray[np.float32], prefix: int, keys: NDArray[np.uint32], size: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """(samples that paths `[rows, instants, antennas, paths]` miss, channel `[..., 2, size]` of each and all later)."""
    word = np.asarray(threefry((keys[:, 6], keys[:, 7]), (np.uint32(0), np.uint32(CLOCK_DRAW)))[0])
    clock = ((word >> np.uint32(16)).astype(float) + 0.5) / CLOCK_PHASES
    real, imag, delay = np.moveaxis(late.astype(float), 3, 0)
    missed = np.clip(np.floor(delay - prefix + clock[:, None, None, None]), 0, size).astype(np.int64)
    missed[delay == 0.0] = 0
    response = (real + 1j * imag)[..., None] * np.exp(-2j * np.pi / size * delay[..., None] * _bins(size))
    return missed, _parts(response[..., ::-1, :].cumsum(axis=3)[..., ::-1, :])


@lean_kernel
def _add_late(missed: Any, channels: Any, bins: Any, windows: Any, ahead: Any, next_sample: Any, swapped: Any) -> None:
    """Add the samples of late paths to `windows`, flat as `bins`; one instant stands for all OFDM symbols."""
    rows, instants, antennas, count = missed.shape
    size = swapped.shape[1]
    num_symbols = len(bins) // (2 * rows * size)
    for n in range(rows):
        for antenna in range(antennas):
            for line in range(num_symbols):
                mine = missed[n, min(line, instants - 1), antenna]
                if mine[count - 1] > 0:
                    own = (n * num_symbols + line) * size
                    swap_symbols(ahead, bins, own - (size if line > 0 else 0), own, line == 0, swapped, size)
                    place = 2 * ((n * antennas + antenna) * num_symbols + line) * size
                    sums = channels[n, min(line, instants - 1), antenna]
                    window_of_late(swapped, sums, mine, next_sample, windows, place)


def recorded_waves(config: LinkConfig, grid: Grid, *, threads: int) -> RecordedWaves | None:
    """Return the recorded channel of a link whose symbols reach other carriers, for packets of `grid`; else None."""
    trace, ofdm = trace_in(config.channel), grid.ofdm
    if trace is None:
        return None
    moves, extent = motion(config.channel) != "still", extent_of(trace)
    in_time = ofdm.domain == "time"
    doppler_hz = max(extent.doppler_hz, _SLOWEST_HZ) if moves and in_time else 0.0
    windows = Windows.of(ofdm, doppler_hz=doppler_hz, delays_s=np.array([extent.last_path_s]))
    offsets_s = windows.instants_s(grid.num_ofdm_symbols) if windows.steps else grid.middles_s
    bins = np.arange(ofdm.num_subcarriers) - ofdm.num_subcarriers // 2
    lines = lines_of(
        config.channel,
        frequencies_hz=np.asarray(bins * ofdm.subcarrier_spacing_hz, np.float64),
        offsets_s=offsets_s if moves else offsets_s[:1],
        moves=moves,
        num_antennas=config.receiver.num_antennas,
        threads=threads,
    )
    assert lines is not None
    return RecordedWaves(
        lines=lines,
        steps=windows.steps,
        begins_s=np.asarray(ofdm.prefix_s + np.arange(grid.num_ofdm_symbols) * ofdm.symbol_s, np.float64),
        between=windows.between.astype(np.float32),
        prefix=ofdm.cyclic_prefix_length if in_time and len(windows.late) else None,
        sample_s=ofdm.sample_s,
    )
