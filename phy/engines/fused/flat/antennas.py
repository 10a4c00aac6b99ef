"""Flat fading at several antennas, drawn block by block and combined at once; both engines take it from here.

Antenna n of device k has the numbers of device k + n 2^26: antenna 0 has those of a link with one antenna.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.config import LinkConfig
from phy.engines.fused.flat.lanes import KNOWN_IMAG, KNOWN_REAL, TAP_IMAG, TAP_REAL, TILE, tap_lanes
from phy.engines.fused.flat.taps import TapLaw, draw_known, parts_of, tap_law
from phy.fading.block_taps import FlatChannel, UplinkContext
from phy.links.antennas import CombinedTaps
from phy.numerics.compiled import lean_kernel, read_only
from phy.numerics.random import ANTENNA_BITS, Purpose
from phy.numerics.threefry import positions
from phy.numerics.workers import available_threads, run_tasks, spans
from phy.receivers.towards_sum import towards_sum

_TAPS_AT_ONCE = 1 << 20
"""Of all devices and antennas: 16 MB of channels and estimates."""
_ANTENNA = np.uint32(ANTENNA_BITS)


@lean_kernel
def _draw(
    law: Any, table: Any, errors: Any, keys: Any, gains: Any, start: Any, channel: Any, estimate: Any, first: Any,
    last: Any, scratch: Any,
) -> None:  # fmt: skip
    """Tasks `first` to `last`, a (trial, antenna, device) each: h and h^ of blocks from number `start` on.

    `channel` and `estimate` `[trials, antennas, devices, 2 blocks]` float32, parts of each tap side by side; `keys` as
    in `draw_known`, `gains` `[trials, devices]`.
    """
    antennas, devices, blocks = channel.shape[1], channel.shape[2], channel.shape[3] // 2
    words, lanes = scratch
    for task in range(first, last):
        trial, antenna, device = task // (antennas * devices), task // devices % antennas, task % devices
        number = np.uint32(np.uint32(device) + np.uint32(np.uint32(antenna) << _ANTENNA))
        taps, known, gain = channel[trial, antenna, device], estimate[trial, antenna, device], gains[trial, device]
        for base in range(0, blocks, TILE):
            count = min(blocks - base, TILE)
            draw_known(law, table, errors, keys[trial], positions(number, start + base, 1), words, lanes, count)
            for i in range(count):
                real, imag = gain * lanes[TAP_REAL + i], gain * lanes[TAP_IMAG + i]
                taps[2 * (base + i)] = real
                taps[2 * (base + i) + 1] = imag
                known[2 * (base + i)] = real + gain * law.csi_std * lanes[KNOWN_REAL + i]
                known[2 * (base + i) + 1] = imag + gain * law.csi_std * lanes[KNOWN_IMAG + i]


def combined_taps(channel: FlatChannel, context: UplinkContext, *, link: LinkConfig) -> CombinedTaps:
    """Return the channels behind the combiner of `link.receiver` for the devices on the air in this round."""
    receiver, law = link.receiver, tap_law(channel)
    block_symbols = law.block_symbols if channel.varies else channel.num_symbols
    blocks, num_devices = -(-channel.num_symbols // block_symbols), channel.num_devices
    gain = channel.gains(context).copy()
    gain[:, list(context.silent)] = 0.0
    level = 2.0 * link.channel.noise_power / link.max_power + link.csi_error_variance * (gain.astype(float) ** 2).sum(1)
    purposes = (Purpose.CHANNEL, Purpose.CSI)
    keys = np.concatenate([context.keys(p, same_every_round=channel.same_every_round) for p in purposes], axis=1)
    found = np.empty((len(gain), num_devices, blocks), np.complex64)
    known = np.ones_like(found)
    noise = np.empty((len(gain), blocks), np.float32)
    per_block = receiver.num_antennas * num_devices
    for some in spans(blocks, step=max(_TAPS_AT_ONCE // per_block, 1)):
        count = some.stop - some.start
        for trials in spans(len(gain), step=max(_TAPS_AT_ONCE // (per_block * count), 1)):
            taps, estimates = _drawn(law, keys[trials], gain[trials], some, num_antennas=receiver.num_antennas)
            combiner = towards_sum(
                estimates,
                gain[trials, None],
                combining=receiver.combining,
                level=level[trials, None],
                xp=np,
                solve=np.linalg.solve,
            )
            turned = np.conj(combiner)
            found[trials, :, some] = np.einsum("tbn,tbnk->tkb", turned, taps)
            noise[trials, some] = np.linalg.norm(combiner, axis=2)
            if receiver.combining == "mrc":
                known[trials, :, some] = np.einsum("tbn,tbnk->tkb", turned, estimates)
    return CombinedTaps(
        channel=found,
        estimate=known,
        gain=gain,
        noise_amplitude=noise,
        policy=link.control,
        block_symbols=block_symbols,
        num_symbols=channel.num_symbols,
    )


def _drawn(
    law: TapLaw, keys: NDArray[np.uint32], gain: NDArray[np.float32], blocks: slice, *, num_antennas: int
) -> tuple[NDArray[np.complex64], NDArray[np.complex64]]:
    """h and h^ `[trials, blocks, antennas, devices]` complex64."""
    shape = (len(gain), num_antennas, gain.shape[1], 2 * (blocks.stop - blocks.start))
    channel, estimate = np.empty(shape, np.float32), np.empty(shape, np.float32)
    keys, gain = read_only(keys), read_only(gain)
    run_tasks(
        lambda first, last: _draw(
            law, *parts_of(law), keys, gain, blocks.start, channel, estimate, first, last, tap_lanes()
        ),
        num_tasks=int(np.prod(shape[:3])),
        threads=available_threads(),
    )
    taps, known = (np.moveaxis(array.view(np.complex64), 3, 1) for array in (channel, estimate))
    return taps, known
