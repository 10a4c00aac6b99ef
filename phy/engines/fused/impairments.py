"""Transmitter impairments of a line of symbols inside kernels, an optional part between mapper and channel.

Offsets are drawn as in `phy.frontends.impairments`: clipping, a turn that grows with the number of the symbol (carrier
offset) or carrier (timing offset), and a residual phase. None of them mixes carriers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phy.config import ImpairmentsConfig, LinkConfig, OfdmConfig
from phy.engines.fused.packets.lines import BEST, LINE, ROOM
from phy.engines.fused.symbols import modulate
from phy.frontends.air import motion
from phy.frontends.resource_grid import Grid
from phy.numerics.compiled import inlined, spliced
from phy.numerics.random_kernels import complex_normal, cosine_and_sine, phasor
from phy.numerics.threefry import draw_lanes, positions, threefry

_PHASE, _DELAY, _FREQUENCY = (np.uint32(draw) for draw in range(3))
_WORDS = BEST
_TURN = 2.0**32
_ZERO, _ONE, _FAINTEST = np.float32(0.0), np.float32(1.0), np.float32(1e-30)


class Impairments(NamedTuple):
    """Impairments of a transmitter in numbers for a kernel; another value needs no new compilation.

    - `clipping`: limit of the power of a symbol over its mean in the packet, 0 for none;
    - `phase`: standard deviation of the residual phase [turns] times sqrt(2), for each symbol anew if `phase_varies`;
    - `draw`, `lowest`, `reach`: the offset, uniform from lowest to 1 times reach [2^-32 turns]; reach 0 for none;
    - `numbers` `[width]` uint32: multiples of the offset along a line; `along_line`: they go on in the next line.
    """

    clipping: np.float32
    phase: np.float32
    phase_varies: bool
    draw: np.uint32
    lowest: float
    reach: float
    numbers: NDArray[np.uint32]
    along_line: bool


def impairments_of(config: LinkConfig, *, width: int, num_blocks: int) -> Impairments | None:
    """Impairments of packets whose lines have `width` symbols, `num_blocks` devices sharing the carriers; or None."""
    given, ofdm = config.impairments, config.ofdm
    if given.none:
        return None
    law = _impairments(given)
    if ofdm == "none":
        law = _turning(law, np.arange(width), offset_hz=given.cfo_hz, sample_s=config.symbol_s)
        return law._replace(phase_varies=motion(config.channel) == "symbol")
    grid = Grid.of(ofdm, num_users=1, num_symbols=1, num_blocks=num_blocks)
    return _delayed(law, grid.carriers - ofdm.num_subcarriers // 2, reach=given.timing_offset_s, ofdm=ofdm)


def impairments_of_samples(config: LinkConfig, *, num_symbols: int) -> Impairments | None:
    """Clipping, carrier offset and residual phase of a line of all samples behind prefixes; None for ideal ones."""
    given, ofdm = config.impairments, config.ofdm
    assert ofdm != "none"
    if given.model_copy(update={"timing_offset_s": 0.0}).none:
        return None
    size, prefix = ofdm.num_subcarriers, ofdm.cyclic_prefix_length
    numbers = (np.arange(num_symbols)[:, None] * (size + prefix) + prefix + np.arange(size)).ravel()
    return _turning(_impairments(given), numbers, offset_hz=given.cfo_hz, sample_s=ofdm.sample_s)


def impairments_of_bins(config: LinkConfig, *, num_symbols: int) -> Impairments | None:
    """Timing offset of a line of the bins of all transforms, in their order; None for an ideal one."""
    given, ofdm = config.impairments, config.ofdm
    assert ofdm != "none"
    if given.timing_offset_s == 0.0:
        return None
    bins = (np.fft.fftfreq(ofdm.num_subcarriers) * ofdm.num_subcarriers).round().astype(int)
    numbers = np.tile(bins, num_symbols)
    return _delayed(_impairments(ImpairmentsConfig()), numbers, reach=given.timing_offset_s, ofdm=ofdm)


def _impairments(given: ImpairmentsConfig) -> Impairments:
    return Impairments(
        clipping=np.float32(0.0 if given.clipping_db is None else 10.0 ** (given.clipping_db / 10.0)),
        phase=np.float32(2.0**0.5 * given.phase_error_deg / 360.0),
        phase_varies=False,
        draw=_PHASE,
        lowest=0.0,
        reach=0.0,
        numbers=np.zeros(0, np.uint32),
        along_line=False,
    )


def _turning(law: Impairments, numbers: NDArray[np.int64], *, offset_hz: float, sample_s: float) -> Impairments:
    numbers32, reach = numbers.astype(np.int32).view(np.uint32), offset_hz * sample_s * _TURN
    return law._replace(draw=_FREQUENCY, lowest=-1.0, reach=reach, numbers=numbers32, along_line=True)


def _delayed(law: Impairments, numbers: NDArray[np.int64], *, reach: float, ofdm: OfdmConfig) -> Impairments:
    numbers32, turns = numbers.astype(np.int32).view(np.uint32), -reach * ofdm.subcarrier_spacing_hz
    return law._replace(draw=_DELAY, lowest=0.0, reach=turns * _TURN, numbers=numbers32, along_line=False)


@inlined
def _phasor_of(word0: Any, word1: Any, deviation: Any) -> Any:
    turns = complex_normal(word0, word1)[0] * deviation
    return phasor(turns - np.rint(turns))


@inlined
def draw_offsets(law: Any, key: Any) -> Any:
    """(offset [2^-32 turns] uint32, both parts of the residual phasor) of the key of a device, two uint32."""
    word0, word1 = threefry(key[0], key[1], np.uint32(0), _PHASE)
    cosine, sine = _phasor_of(word0, word1, law.phase)
    word0, word1 = threefry(key[0], key[1], np.uint32(0), law.draw)
    scaled = (law.lowest + (1.0 - law.lowest) * (np.float64(word0) * (1.0 / _TURN))) * law.reach
    return np.uint32(np.int64(scaled - np.floor(scaled * (1.0 / _TURN)) * _TURN)), cosine, sine


@inlined
def power_limit(law: Any, labels: Any, points: Any) -> Any:
    """Largest power of a symbol among those of `labels` after the amplifier, 0 for any."""
    total = _ZERO
    if law.clipping > _ZERO:
        for i in range(len(labels)):
            x, y = modulate(np.uint32(labels[i]), points)
            total += x * x + y * y
    return law.clipping * (total / np.float32(len(labels)))


@inlined
def clip(limit: Any, lanes: Any, lane: Any, count: Any) -> Any:
    """Limit the power of the symbols in a lane and keep their phases; their energy."""
    energy, at = _ZERO, np.uint64(lane)
    for i in range(count):
        x, y = lanes[at + np.uint64(i)], lanes[at + np.uint64(ROOM + i)]
        power = x * x + y * y
        shrink = np.sqrt(min(limit / max(power, _FAINTEST), _ONE))
        lanes[at + np.uint64(i)] = x * shrink
        lanes[at + np.uint64(ROOM + i)] = y * shrink
        energy += min(power, limit)
    return energy


@inlined
def _turn_by_numbers(offset: Any, first: Any, numbers: Any, tile: Any, lanes: Any, lane: Any, count: Any) -> None:
    at, start = np.uint64(lane), np.uint64(tile * LINE)
    for i in range(count):
        number = np.uint32(numbers[start + np.uint64(i)] + np.uint32(first))
        cosine, sine = cosine_and_sine(np.uint32(offset * number))
        x, y = lanes[at + np.uint64(i)], lanes[at + np.uint64(ROOM + i)]
        lanes[at + np.uint64(i)] = x * cosine - y * sine
        lanes[at + np.uint64(ROOM + i)] = x * sine + y * cosine


@inlined
def _turn_by_draws(deviation: Any, lanes: Any, lane: Any, count: Any) -> None:
    at = np.uint64(lane)
    for i in range(count):
        word0 = np.float32(lanes[_WORDS + i]).view(np.uint32)
        word1 = np.float32(lanes[_WORDS + ROOM + i]).view(np.uint32)
        cosine, sine = _phasor_of(word0, word1, deviation)
        x, y = lanes[at + np.uint64(i)], lanes[at + np.uint64(ROOM + i)]
        lanes[at + np.uint64(i)] = x * cosine - y * sine
        lanes[at + np.uint64(ROOM + i)] = x * sine + y * cosine


@inlined
def _turn(cosine: Any, sine: Any, lanes: Any, lane: Any, count: Any) -> None:
    at = np.uint64(lane)
    for i in range(count):
        x, y = lanes[at + np.uint64(i)], lanes[at + np.uint64(ROOM + i)]
        lanes[at + np.uint64(i)] = x * cosine - y * sine
        lanes[at + np.uint64(ROOM + i)] = x * sine + y * cosine


@spliced
def turn_line(
    law: Any, key: Any, offsets: Any, slot: Any, tile: Any, words: Any, lanes: Any, lane: Any, count: Any
) -> None:
    """Turn `count` complex numbers of a tile of a line in a lane by the offsets that `draw_offsets` returned."""
    first = slot * len(law.numbers) if law.along_line else 0
    if law.reach != 0.0:
        _turn_by_numbers(offsets[0], first, law.numbers, tile, lanes, lane, count)
    if law.phase_varies:
        draw_lanes((key[0], key[1]), positions(_PHASE, first, 1), words, _WORDS, _WORDS + ROOM, count)
        _turn_by_draws(law.phase, lanes, lane, count)
    else:
        _turn(offsets[1], offsets[2], lanes, lane, count)
