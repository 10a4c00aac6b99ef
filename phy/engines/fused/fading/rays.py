"""Waves of clustered delay lines: the draws of Sionna's `CDL` under the keys of `phy.fading.cdl`, one row per key.

    f[p, r] = <v, d[p, r]>,   w[a, p, r] = sqrt(P_p / 20) exp(2 pi i (phi[p, r] + s_a e[p, r]))

with the velocity v in wavelengths per second, unit vectors d towards the rays at the device, and their components e
along the array of the server, whose antennas stand at s_a wavelengths. Azimuths and zeniths of a cluster are paired at
random, by sorting Gaussian numbers. One number that rounds differently pairs other rays: Gaussians are rounded as
TensorFlow rounds them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.config import ChannelConfig
from phy.engines.fused.fading.fades import WAVES_ROOM, given_room, padded_paths
from phy.fading.clusters import NUM_RAYS, clusters_of
from phy.numerics.compiled import inlined, lean_kernel
from phy.numerics.random_kernels import phasor, real_normal
from phy.numerics.threefry import AT_ONCE, draw_listed
from phy.numerics.workers import run_tasks

_DEVICE, _SERVER = range(2)
_VELOCITY_AZIMUTH, _VELOCITY_ZENITH, _PAIRING, _PHASE = 1, 2, 3, 7
"""Numbers of Sionna's draws; pairing draws azimuths at device and server, then zeniths."""
_UNIT, _HALF, _ZERO = np.float32(2.0**-24), np.float32(0.5), np.float32(0.0)
_ROOT_TWO = np.float32(np.sqrt(2.0))


class Rays(NamedTuple):
    """Angles and draws of the rays of CDL, ray by ray, in each the paths side by side, as in `Fades`.

    - `ends`: the ends, device or server, whose angles matter: without motion or with one antenna they do not;
    - `places`, `draws`: counters of all draws, `num_draws` of them: azimuths and zeniths of each end, phases, velocity;
    - `angles` `[2 ends, 4, num_waves]`: cosine and sine of azimuths, cosine and sine of zeniths;
    - `amplitude` `[num_waves]`; `direct`: amplitude of the direct path; `towards` `[2 ends, 3]`: its unit vectors;
    - `horizontal`: the velocity has no part upwards; `speed` in wavelengths per second;
    - `position` `[antennas]` of the array, in wavelengths.
    """

    num_paths: int
    ends: NDArray[np.int64]
    places: NDArray[np.uint32]
    draws: NDArray[np.uint32]
    num_draws: int
    angles: NDArray[np.float32]
    amplitude: NDArray[np.float32]
    direct: np.float32
    towards: NDArray[np.float32]
    horizontal: bool
    speed: np.float32
    position: NDArray[np.float32]


def rays_of(channel: ChannelConfig, *, num_antennas: int) -> Rays | None:
    """Rays of a channel `cdl-*`, None for others."""
    if not channel.model.startswith("cdl"):
        return None
    clusters = clusters_of(channel.model[-1])
    order = clusters.order(channel.delay_spread_s)
    paths = padded_paths(len(order))
    cluster = np.append(order, np.zeros(paths - len(order), np.intp))
    place = (NUM_RAYS * cluster + np.arange(NUM_RAYS)[:, None]).ravel()
    ends = [_DEVICE] * (channel.speed_m_s > 0.0) + [_SERVER] * (num_antennas > 1)
    sections = [(place, _PAIRING + angle + end) for end in ends for angle in (0, 2)]
    sections += [(4 * place, _PHASE), (place[:1], _VELOCITY_AZIMUTH), (place[:1], _VELOCITY_ZENITH)]
    places = np.concatenate([at for at, _ in sections])
    draws = np.concatenate([np.full(len(at), draw) for at, draw in sections])
    missing = -len(places) % AT_ONCE
    azimuth, zenith = (
        angles[:, cluster].transpose(0, 2, 1).reshape(2, -1).astype(float)
        for angles in (clusters.azimuths, clusters.zeniths)
    )
    share = clusters.powers.astype(float) / NUM_RAYS / (1.0 + float(clusters.k))
    amplitude = np.where(np.arange(paths) < len(order), np.sqrt(share[cluster]), 0.0)
    along, above = clusters.direct_azimuths.astype(float), clusters.direct_zeniths.astype(float)
    towards = np.stack([np.cos(along) * np.sin(above), np.sin(along) * np.sin(above), np.cos(above)], axis=1)
    return Rays(
        num_paths=paths,
        ends=np.array(ends, np.int64),
        places=np.append(places, np.zeros(missing)).astype(np.uint32),
        draws=np.append(draws, np.zeros(missing)).astype(np.uint32),
        num_draws=len(places),
        angles=np.stack([np.cos(azimuth), np.sin(azimuth), np.cos(zenith), np.sin(zenith)], 1).astype(np.float32),
        amplitude=np.tile(amplitude, NUM_RAYS).astype(np.float32),
        direct=np.float32((float(clusters.k) / (1.0 + float(clusters.k))) ** 0.5),
        towards=towards.astype(np.float32),
        horizontal=channel.movement == "horizontal",
        speed=np.float32(channel.max_doppler_hz),
        position=(0.5 * (np.arange(num_antennas) - (num_antennas - 1) / 2.0)).astype(np.float32),
    )


@inlined
def _fill_normals(words: Any, out: Any, at: Any, second_at: Any, count: Any) -> None:
    one, two = np.uint64(at), np.uint64(second_at)
    for k in range(count):
        i = np.uint64(k)
        out[i] = real_normal(words[one + i], words[two + i]) * _ROOT_TWO


@inlined
def _pair(drawn: Any, rank: Any, paths: Any, order: Any) -> None:
    """Indices that sort the numbers of every path, equal ones by their rank in the table."""
    count = NUM_RAYS * paths
    for i in range(count):
        rank[i] = 0
    for later in range(1, NUM_RAYS):
        b = np.uint64(later * paths)
        for earlier in range(later):
            a = np.uint64(earlier * paths)
            for p in range(paths):
                u = np.uint64(p)
                behind = np.int32(drawn[a + u] <= drawn[b + u])
                rank[b + u] += behind
                rank[a + u] += np.int32(1) - behind
    for i in range(count):
        path = i % paths
        order[rank[i] * paths + path] = i


@inlined
def _turns_of(word: Any) -> Any:
    """Uniform on [0, 1), of 24 bits."""
    return np.float32(np.int32(np.uint32(word >> np.uint32(8)))) * _UNIT


@lean_kernel
def _draw_rays(
    rays: Any, keys: Any, out: Any, first: Any, last: Any, words: Any, drawn: Any, rank: Any, order: Any
) -> None:
    count, antennas = len(rays.amplitude), len(rays.position)
    second = np.uint64(len(rays.places))
    phases = np.uint64(2 * len(rays.ends) * count)
    for n in range(first, last):
        row = out[n]
        draw_listed(keys[n], rays.places, rays.draws, words, 0, len(rays.places), rays.num_draws)
        cosine, sine = phasor(_turns_of(words[phases + np.uint64(count)]) - _HALF)
        up, across = phasor(_turns_of(words[phases + np.uint64(count + 1)]) * _HALF)
        if rays.horizontal:
            up, across = _ZERO, np.float32(1.0)
        # Half a turn less, and thus the other sign.
        x, y, z = -rays.speed * cosine * across, -rays.speed * sine * across, rays.speed * up
        along = row[WAVES_ROOM : 2 * WAVES_ROOM]  # of the first antenna, until its weights are there
        for i in range(count):
            row[i] = _ZERO
            along[i] = _ZERO
        for at in range(len(rays.ends)):
            end = rays.ends[at]
            angles = rays.angles[end]
            for kind in range(2):
                start = np.uint64((2 * at + kind) * count)
                _fill_normals(words, drawn, start, second + start, count)
                _pair(drawn, rank, rays.num_paths, order[kind])
            for i in range(count):
                azimuth, zenith = order[0, i], order[1, i]
                sideways, height = angles[3, zenith], angles[2, zenith]
                if end == _DEVICE:
                    row[i] = sideways * (x * angles[0, azimuth] + y * angles[1, azimuth]) + z * height
                else:
                    along[i] = sideways * angles[1, azimuth]
        if rays.direct > _ZERO:
            there = rays.towards
            row[count] = x * there[_DEVICE, 0] + y * there[_DEVICE, 1] + z * there[_DEVICE, 2]
            along[count] = there[_SERVER, 1]
        for back in range(antennas):
            antenna = antennas - 1 - back
            place, position = np.uint64((1 + 2 * antenna) * WAVES_ROOM), rays.position[antenna]
            for i in range(count):
                u = np.uint64(i)
                turns = _turns_of(words[phases + u]) - _HALF + position * along[u]
                cosine, sine = phasor(turns - np.rint(turns))
                row[place + u] = rays.amplitude[u] * cosine
                row[place + np.uint64(WAVES_ROOM) + u] = rays.amplitude[u] * sine
            if rays.direct > _ZERO:
                turns = position * along[count]
                cosine, sine = phasor(turns - np.rint(turns))
                row[place + np.uint64(count)] = rays.direct * cosine
                row[place + np.uint64(WAVES_ROOM + count)] = rays.direct * sine


def draw_rays(rays: Rays | None, keys: NDArray[np.uint32], *, threads: int) -> NDArray[np.float32]:
    """Waves `[rows, given_room]` of `keys` `[rows, 2]` as `fades.draw_waves` takes them, `[rows, 0]` without rays."""
    if rays is None:
        return np.empty((len(keys), 0), np.float32)
    out = np.empty((len(keys), given_room(len(rays.position))), np.float32)
    count = len(rays.amplitude)

    def run(first: int, last: int) -> None:
        words, order = np.empty(2 * len(rays.places), np.uint32), np.empty((2, count), np.int64)
        drawn, rank = np.empty(count, np.float32), np.empty(count, np.int32)
        _draw_rays(rays, keys, out, first, last, words, drawn, rank, order)

    run_tasks(run, num_tasks=len(keys), threads=threads)
    return out
