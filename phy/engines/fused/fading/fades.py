"""Fading of packets inside kernels, one realisation per key: constants, draws, and plane waves in motion.

    h[a, p](t) = sum_s w[a, p, s] exp(2 pi i f[p, s] t)

with the weights and Doppler shifts that `phy.fading` draws under the same keys: here those of tapped delay lines, in
`rays` those of clustered ones. Instants are regular, so waves
turn by a constant phasor from one to the next, and every `RUN` instants they start afresh from a phase taken in double
precision. What rounding leaves is measured in `tests/phy/fading/test_fused_ofdm_fades.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.config import ChannelConfig
from phy.engines.fused.fading.quantiles import NO_TABLE, tap_of_table
from phy.fading.clusters import NUM_RAYS, clusters_of
from phy.fading.correlation import LOS_DOPPLER
from phy.fading.quantile_table import quantile_table
from phy.fading.tdl import FLAT_WAVES, TDL_WAVES, Profile, flat_profile, tdl_profile
from phy.numerics.compiled import aligned_zeros, inlined, shared
from phy.numerics.random_kernels import complex_normal, cosine_and_sine, phasor
from phy.numerics.threefry import threefry

CONSTANT, DRAWN, WAVES, TABULATED, RECORDED = range(5)

RUN = 16
"""Instants between two exact phases."""
PATHS = 32
"""Room for paths, a multiple of what a vector holds; TR 38.901 has 24 at most."""
WAVES_ROOM = 512 + 16
"""Room for waves: 24 paths of 20 waves and a direct one are 504. Lanes a power of two apart would crowd a cache."""
_DOPPLER, _STEP_REAL, _STEP_IMAG, _START_REAL, _START_IMAG, _REAL, _IMAG, _SUM_REAL, _SUM_IMAG = (
    i * WAVES_ROOM for i in range(9)
)
_WORDS = _SUM_REAL
"""Random words stand where sums will, once there are waves."""
_WEIGHTS = 9 * WAVES_ROOM
"""Start of the real and imaginary weights of every antenna."""
_UNIT = np.float32(2.0**-24)
_HALF, _ZERO, _ONE = np.float32(0.5), np.float32(0.0), np.float32(1.0)


class Fades(NamedTuple):
    """Law and motion of the channel of one packet, in numbers for a kernel.

    Waves are kept wave by wave, in each of them the paths side by side, `padded_paths` of them: `number` (1, 2, ...),
    `counter` (place in the stream of random numbers) and `amplitude` `[num_waves * padded_paths]`; None without waves.

    - `kind`: `CONSTANT`, `DRAWN` (one draw per instant and antenna), `TABULATED` (one of the quantiles in `table`),
      `WAVES`, `num_waves` per path, or `RECORDED`, lines of carriers as `traces.TraceLines` gives them, `room` numbers;
    - `still`: one instant stands for the whole packet, else instant k is at `offsets_s[k]` `[instants]` float32;
    - `fixed_part`, `scattered_part`: of a draw; `direct`: amplitude of the direct path of waves, 0 without one.
    """

    kind: int
    still: bool
    num_antennas: int
    num_paths: int
    padded_paths: int
    num_waves: int
    fixed_part: np.float32
    scattered_part: np.float32
    direct: np.float32
    doppler_hz: np.float32
    along_hz: np.float32
    step_s: float
    offsets_s: NDArray[np.float32]
    number: NDArray[np.float32] | None
    counter: NDArray[np.uint32] | None
    amplitude: NDArray[np.float32] | None
    table: NDArray[np.float32]
    room: int


def fades_of(
    channel: ChannelConfig, *, num_antennas: int, still: bool, offsets_s: NDArray[np.float64], width: int = 1
) -> Fades:
    """Fading of `build_propagation` at regular instants `offsets_s` [s] from the start of a packet.

    `width`: carriers of a line, of recorded channels.
    """
    rician_k = (channel.law.rician_k or 0.0) if channel.law.fades else 0.0
    profile, num_waves = flat_profile(rician_k), 0
    if channel.model.startswith("cdl"):
        profile, num_waves = _cluster_profile(channel), NUM_RAYS
    elif channel.selective:
        profile, num_waves = tdl_profile(channel.model[-1].upper()), TDL_WAVES
    elif channel.coherence == "doppler" and channel.fades:
        num_waves = FLAT_WAVES
    drawn = TABULATED if channel.law.rician_k is None else DRAWN
    kind = WAVES if num_waves else drawn if channel.fades else CONSTANT
    number, counter, amplitude = _waves(profile, num_waves) if num_waves else (None, None, None)
    room = _WEIGHTS + 2 * WAVES_ROOM * num_antennas if num_waves else 0
    if channel.traced:
        # Of the types of waves, so that kernels are those of waves.
        kind, room = RECORDED, 2 * len(offsets_s) * num_antennas * width
        number, counter, amplitude = np.zeros(0, np.float32), np.zeros(0, np.uint32), np.zeros(0, np.float32)
    return Fades(
        kind=kind,
        still=still,
        num_antennas=num_antennas,
        num_paths=len(profile.delays),
        padded_paths=padded_paths(len(profile.delays)),
        num_waves=num_waves,
        fixed_part=np.float32((rician_k / (1.0 + rician_k)) ** 0.5),
        scattered_part=np.float32((1.0 / (1.0 + rician_k)) ** 0.5),
        direct=np.float32(profile.direct**0.5),
        doppler_hz=np.float32(channel.max_doppler_hz),
        along_hz=np.float32(LOS_DOPPLER * channel.max_doppler_hz),
        step_s=float(offsets_s[1] - offsets_s[0]) if len(offsets_s) > 1 else 0.0,
        offsets_s=np.asarray(offsets_s, np.float32),
        number=number,
        counter=counter,
        amplitude=amplitude,
        table=quantile_table(channel.law) if kind == TABULATED else NO_TABLE,
        room=room,
    )


def padded_paths(num_paths: int) -> int:
    """Paths of `num_paths` in a wave, with those that are padding."""
    return 1 if num_paths == 1 else -(-num_paths // 8) * 8


def _cluster_profile(channel: ChannelConfig) -> Profile:
    clusters = clusters_of(channel.model[-1])
    order, scattered = clusters.order(channel.delay_spread_s), 1.0 / (1.0 + float(clusters.k))
    return Profile(
        delays=clusters.delays[order].astype(float),
        scattered=clusters.powers.astype(float)[order] * scattered,
        direct=float(clusters.k) * scattered,
    )


def _waves(profile: Profile, num_waves: int) -> tuple[NDArray[np.float32], NDArray[np.uint32], NDArray[np.float32]]:
    num_paths = len(profile.delays)
    path = np.arange(padded_paths(num_paths))
    wave = np.arange(num_waves)[:, None]
    number = np.broadcast_to(wave + 1.0, (num_waves, len(path)))
    power = np.where(path < num_paths, profile.scattered[np.minimum(path, num_paths - 1)], 0.0)
    amplitude = np.broadcast_to(np.sqrt(power / num_waves), number.shape)
    return (
        np.ascontiguousarray(number.ravel(), np.float32),
        (path * num_waves + wave).astype(np.uint32).ravel(),
        np.ascontiguousarray(amplitude.ravel(), np.float32),
    )


def waves_of(fades: Fades) -> NDArray[np.float32] | None:
    """Scratch array of a thread for `draw_waves`, None without waves."""
    return aligned_zeros(fades.room, np.float32) if fades.room else None


def given_room(num_antennas: int) -> int:
    """Length of Doppler shifts, and real and imaginary weights of every antenna, as `draw_waves` takes them."""
    return (1 + 2 * num_antennas) * WAVES_ROOM


@inlined
def _turns_of(word: Any) -> Any:
    """The 24 leading bits less one half, as a signed fraction of a turn."""
    return np.uint32(np.uint32(word & np.uint32(0xFFFFFF00)) ^ np.uint32(0x80000000))


@shared
def _draw_words(key: Any, counter: Any, first: Any, stream: Any, waves: Any, count: Any) -> None:
    """First words of counters `counter + first`: a loop of its own, since Threefry fills the registers."""
    key0, key1 = np.uint32(key[0]), np.uint32(key[1])
    for i in range(count):
        word, _ = threefry(key0, key1, np.uint32(counter[i] + first), stream)
        waves[_WORDS + i] = np.uint32(word).view(np.float32)


@inlined
def _word(waves: Any, i: Any) -> Any:
    return np.float32(waves[_WORDS + i]).view(np.uint32)


@inlined
def _draw_lines(fades: Any, key: Any, count: Any, total: Any, waves: Any) -> None:
    """Doppler shifts and weights of a tapped delay line."""
    per_path = np.float32(fades.num_waves)
    _draw_words(key, fades.counter, np.uint32(0), np.uint32(1), waves, count)
    for i in range(count):
        offset = np.float32(np.int32(np.uint32(_word(waves, i) >> np.uint32(8)))) * _UNIT - _HALF
        angle = (fades.number[i] + offset) / per_path
        waves[_DOPPLER + i] = fades.doppler_hz * phasor(angle - np.rint(angle))[0]
    if total > count:
        waves[_DOPPLER + count] = fades.along_hz
    for antenna in range(fades.num_antennas):
        at = np.uint64(_WEIGHTS + 2 * WAVES_ROOM * antenna)
        first = np.uint32(antenna * fades.num_paths * fades.num_waves)
        _draw_words(key, fades.counter, first, np.uint32(2), waves, count)
        for i in range(count):
            cosine, sine = cosine_and_sine(_turns_of(_word(waves, i)))
            waves[at + np.uint64(i)] = fades.amplitude[i] * cosine
            waves[at + np.uint64(WAVES_ROOM) + np.uint64(i)] = fades.amplitude[i] * sine
        if total > count:
            word0, _ = threefry(np.uint32(key[0]), np.uint32(key[1]), np.uint32(0), np.uint32(3))
            cosine, sine = cosine_and_sine(_turns_of(word0))
            waves[at + np.uint64(count)] = fades.direct * cosine
            waves[at + np.uint64(WAVES_ROOM + count)] = fades.direct * sine


@inlined
def _phasors(waves: Any, seconds: Any, real: Any, imag: Any, total: Any) -> None:
    """Turns of all waves within some seconds, into two lanes."""
    one, two = np.uint64(real), np.uint64(imag)
    for i in range(total):
        turns = np.float64(waves[_DOPPLER + i]) * seconds
        cosine, sine = phasor(np.float32(turns - np.rint(turns)))
        waves[one + np.uint64(i)] = cosine
        waves[two + np.uint64(i)] = sine


@inlined
def draw_waves(fades: Any, key: Any, given: Any, waves: Any) -> None:
    """Doppler shifts, turns from one instant to the next, and weights of all antennas, into the scratch `waves`.

    `given` float32 are shifts and weights that are drawn already, `[given_room]` from `rays`, or the lines of a
    recorded channel. If empty, the draws are those of `phy.fading.tdl`: number 0 is Sionna's speed, 1 the angles, 2 the
    phases of one antenna after the other, 3 that of the direct path.
    """
    if fades.kind == RECORDED:
        for i in range(len(given)):
            waves[i] = given[i]
        return
    count = len(fades.number)
    # The direct path is one more wave of the first path alone.
    total = count + (1 if fades.direct > _ZERO else 0)
    if len(given) > 0:
        for i in range(total):
            waves[_DOPPLER + i] = given[i]
        for i in range(2 * WAVES_ROOM * fades.num_antennas):
            waves[_WEIGHTS + i] = given[WAVES_ROOM + i]
    else:
        _draw_lines(fades, key, count, total, waves)
    _phasors(waves, fades.step_s, _STEP_REAL, _STEP_IMAG, total)


@inlined
def _weigh(waves: Any, at: Any, total: Any) -> None:
    for i in range(total):
        real, imag = waves[at + np.uint64(i)], waves[at + np.uint64(WAVES_ROOM) + np.uint64(i)]
        cosine, sine = waves[_START_REAL + i], waves[_START_IMAG + i]
        waves[_REAL + i] = real * cosine - imag * sine
        waves[_IMAG + i] = real * sine + imag * cosine


@inlined
def _turn(waves: Any, total: Any) -> None:
    for i in range(total):
        real, imag = waves[_REAL + i], waves[_IMAG + i]
        cosine, sine = waves[_STEP_REAL + i], waves[_STEP_IMAG + i]
        waves[_REAL + i] = real * cosine - imag * sine
        waves[_IMAG + i] = real * sine + imag * cosine


@inlined
def _add_up(waves: Any, num_waves: Any, paths: Any, taps: Any, real_at: Any, imag_at: Any) -> None:
    """Sums over waves of every path; a quarter of them at a time, which keeps vectors full."""
    if paths == 1:
        real, imag = _ZERO, _ZERO
        for i in range(num_waves):
            real += waves[_REAL + i]
            imag += waves[_IMAG + i]
        taps[real_at] = real
        taps[imag_at] = imag
        return
    quarter = num_waves // 4 * paths
    second, third, fourth = np.uint64(quarter), np.uint64(2 * quarter), np.uint64(3 * quarter)
    for i in range(quarter):
        u = np.uint64(i)
        waves[_SUM_REAL + i] = (waves[_REAL + u] + waves[_REAL + second + u]) + (
            waves[_REAL + third + u] + waves[_REAL + fourth + u]
        )
    for i in range(quarter):
        u = np.uint64(i)
        waves[_SUM_IMAG + i] = (waves[_IMAG + u] + waves[_IMAG + second + u]) + (
            waves[_IMAG + third + u] + waves[_IMAG + fourth + u]
        )
    real_out, imag_out = np.uint64(real_at), np.uint64(imag_at)
    for p in range(paths):
        u = np.uint64(p)
        total = waves[_SUM_REAL + p]
        for wave in range(1, TDL_WAVES // 4):
            total += waves[np.uint64(_SUM_REAL) + np.uint64(wave * paths) + u]
        taps[real_out + u] = total
    for p in range(paths):
        u = np.uint64(p)
        total = waves[_SUM_IMAG + p]
        for wave in range(1, TDL_WAVES // 4):
            total += waves[np.uint64(_SUM_IMAG) + np.uint64(wave * paths) + u]
        taps[imag_out + u] = total


@inlined
def tap_paths(
    fades: Any, key: Any, waves: Any, start_s: Any, first: Any, count: Any, antenna: Any, taps: Any, imag_at: Any,
    stride: Any,
) -> None:  # fmt: skip
    """Path gains of one antenna at instants `first` to `first + count`, `padded_paths` values at every `stride` of the
    flat `taps`, imaginary parts `imag_at` behind the real ones.

    Where the channel is still there is one instant. `waves` is what `draw_waves` left, None where there are none.
    """
    if waves is None:
        if fades.kind == CONSTANT:
            for k in range(count):
                taps[k * stride] = _ONE
                taps[imag_at + k * stride] = _ZERO
        else:
            for k in range(count):
                word0, word1 = threefry(np.uint32(key[0]), np.uint32(key[1]), np.uint32(first + k), np.uint32(antenna))
                if fades.kind == TABULATED:
                    real, imag = tap_of_table(fades.table, word0, word1)
                else:
                    real, imag = complex_normal(word0, word1)
                taps[k * stride] = fades.fixed_part + fades.scattered_part * real
                taps[imag_at + k * stride] = fades.scattered_part * imag
    else:
        paths = fades.padded_paths
        scattered = len(fades.number)
        total = scattered + (1 if fades.direct > _ZERO else 0)
        at = np.uint64(_WEIGHTS + 2 * WAVES_ROOM * antenna)
        for k in range(count):
            if k % RUN == 0:
                instant_s = np.float32(0.0) if fades.still else np.float32(start_s + fades.offsets_s[first + k])
                _phasors(waves, np.float64(instant_s), _START_REAL, _START_IMAG, total)
                _weigh(waves, at, total)
            else:
                _turn(waves, total)
            _add_up(waves, fades.num_waves, paths, taps, k * stride, imag_at + k * stride)
            if total > scattered:
                taps[k * stride] += waves[_REAL + scattered]
                taps[imag_at + k * stride] += waves[_IMAG + scattered]
