"""Decoding of the turbo code on 16-bit lanes: the BCJR algorithm in the logarithmic domain, both decoders in turn.

With A = channel LLR + a-priori LLR of the information bit and B the LLR of the parity bit, a branch from s to s' with
information u and parity p has gamma = u A + p B. With max*(x, y) = ln(e^x + e^y),

    alpha_{t+1}(s') = max* over s of alpha_t(s) + gamma,    beta_t(s) = max* over s' of beta_{t+1}(s') + gamma
    extrinsic LLR = max* over u = 1 of (alpha_t + p B + beta_{t+1}) - max* over u = 0 of the same

(Bahl et al. 1974; Robertson, Villebrun, Hoeher 1995). max* is exact but for its correction ln(1 + e^-d), which is
max(288 - d, 0)^3 / 2^19 in steps: wrong by 0.04 at most. Metrics are numbers modulo 2^16 as in
`phy.coding.convolutional`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.coding.soft_lanes import LANES, quantise, to_lanes
from phy.numerics.compiled import inlined, lean_kernel

_STATES = 8
_UNREACHED = np.int16(-14000)
"""Below whatever a path from the zero state can lose in three steps."""
_STEPS, _LARGEST = np.float32(64.0), np.float32(1280.0)
"""Steps per unit of LLR, and the largest LLR in steps: 20, as in Sionna's decoder."""
_EXTRINSIC_MAX = np.int16(2048)
_ZERO, _ONE, _NEAR = np.int16(0), np.int16(1), np.int16(288)

# Lanes of the scratch array: beta of two steps, gamma by (u, p), the best paths of both values of a bit, code words
# with bits on which the decoders differ, code words that are decided.
_BETA, _GAMMA, _BEST, _CHANGED, _DECIDED = 0, 16, 20, 22, 23
NUM_SCRATCH = 24


@inlined
def _max_star(x: Any, y: Any) -> Any:
    difference = np.int16(x - y)
    near = np.int16(max(np.int16(_NEAR - max(difference, np.int16(-difference))), _ZERO) >> np.int16(2))
    square = np.int16(np.int16(near * near) >> np.int16(5))
    correction = np.int16(np.int16(square * near) >> np.int16(8))
    return np.int16(np.int16(y + max(difference, _ZERO)) + correction)


@inlined
def _branch_metrics(values: Any, information: Any, parity: Any, before: Any, at: Any, scratch: Any) -> None:
    """Write gamma(u, p) = u A + p B."""
    gamma = np.uint64(LANES * _GAMMA)
    for i in range(LANES):
        u = np.uint64(i)
        a = np.int16(values[information + u] + before[at + u])
        b = values[parity + u]
        scratch[gamma + u] = _ZERO
        scratch[gamma + np.uint64(LANES) + u] = b
        scratch[gamma + np.uint64(2 * LANES) + u] = a
        scratch[gamma + np.uint64(3 * LANES) + u] = np.int16(a + b)


@inlined
def _join(metrics: Any, first: Any, second: Any, out: Any, scratch: Any, first_gamma: Any, second_gamma: Any) -> None:
    """max* of two metrics, each with the gamma of its branch: alpha of a state from two, or beta to two states."""
    for i in range(LANES):
        u = np.uint64(i)
        x = np.int16(metrics[first + u] + scratch[first_gamma + u])
        y = np.int16(metrics[second + u] + scratch[second_gamma + u])
        metrics[out + u] = _max_star(x, y)


@inlined
def _first_path(alpha: Any, at: Any, scratch: Any, beta: Any, gamma: Any, best: Any) -> None:
    for i in range(LANES):
        u = np.uint64(i)
        scratch[best + u] = np.int16(np.int16(alpha[at + u] + scratch[beta + u]) + scratch[gamma + u])


@inlined
def _add_path(alpha: Any, at: Any, scratch: Any, beta: Any, gamma: Any, best: Any) -> None:
    for i in range(LANES):
        u = np.uint64(i)
        path = np.int16(np.int16(alpha[at + u] + scratch[beta + u]) + scratch[gamma + u])
        scratch[best + u] = _max_star(scratch[best + u], path)


@inlined
def _extrinsic(scratch: Any, extrinsic: Any, at: Any) -> None:
    zero, one = np.uint64(LANES * _BEST), np.uint64(LANES * (_BEST + 1))
    for i in range(LANES):
        u = np.uint64(i)
        value = np.int16(scratch[one + u] - scratch[zero + u])
        extrinsic[at + u] = max(min(value, _EXTRINSIC_MAX), np.int16(-_EXTRINSIC_MAX))


@inlined
def _copy(values: Any, at: Any, out: Any, to: Any) -> None:
    for i in range(LANES):
        out[to + np.uint64(i)] = values[at + np.uint64(i)]


@inlined
def _fill(values: Any, at: Any, value: Any, count: Any) -> None:
    for i in range(count):
        values[at + np.uint64(i)] = value


@inlined
def _totals(values: Any, first: Any, second: Any, totals: Any, scratch: Any, count: Any) -> None:
    """LLRs of the information bits; marks with a negative number every lane with a sign that was another before."""
    changed = np.uint64(LANES * _CHANGED)
    for t in range(count):
        at, information = np.uint64(LANES * t), np.uint64(LANES * 3 * t)
        for i in range(LANES):
            u = np.uint64(i)
            total = np.int16(np.int16(values[information + u] + first[at + u]) + second[at + u])
            scratch[changed + u] |= np.int16(np.int16(total - _ONE) ^ np.int16(totals[at + u] - _ONE))
            totals[at + u] = total


@inlined
def _decode_component(
    values: Any, places: Any, before: Any, alpha: Any, scratch: Any, extrinsic: Any, length: Any
) -> None:
    steps = places.shape[1]
    _fill(alpha, np.uint64(0), _UNREACHED, _STATES * LANES)
    _fill(alpha, np.uint64(0), _ZERO, LANES)
    for t in range(steps - 1):
        information, parity = np.uint64(LANES * places[0, t]), np.uint64(LANES * places[1, t])
        _branch_metrics(values, information, parity, before, np.uint64(LANES * places[2, t]), scratch)
        here = LANES * _STATES * t
        for state in range(_STATES):
            # State (r1, r2, r3) comes from (r2, r3, x) for x = 0 and 1 with u = r1 + r3 + x and parity r1 + r2 + x.
            entered, second, third = state >> 2, state >> 1 & 1, state & 1
            branch = 2 * (entered ^ third) + (entered ^ second)
            source = 2 * (state & 3)
            _join(
                alpha,
                np.uint64(here + LANES * source),
                np.uint64(here + LANES * (source + 1)),
                np.uint64(here + LANES * (_STATES + state)),
                scratch,
                np.uint64(LANES * (_GAMMA + branch)),
                np.uint64(LANES * (_GAMMA + 3 - branch)),
            )
    for half in range(2):
        _fill(scratch, np.uint64(LANES * (_BETA + _STATES * half)), _UNREACHED, _STATES * LANES)
        _fill(scratch, np.uint64(LANES * (_BETA + _STATES * half)), _ZERO, LANES)
    for t in range(steps - 1, -1, -1):
        information, parity = np.uint64(LANES * places[0, t]), np.uint64(LANES * places[1, t])
        _branch_metrics(values, information, parity, before, np.uint64(LANES * places[2, t]), scratch)
        later, now = LANES * (_BETA + _STATES * ((steps - t - 1) & 1)), LANES * (_BETA + _STATES * ((steps - t) & 1))
        here = LANES * _STATES * t
        for state in range(_STATES):
            first, second, third = state >> 2, state >> 1 & 1, state & 1
            # With u = 0 the register takes r2 + r3 in, and the parity is r1 + r2; with u = 1 both turn.
            zero = np.uint64(later + LANES * (4 * (second ^ third) + (state >> 1)))
            one = np.uint64(later + LANES * (4 * (1 - (second ^ third)) + (state >> 1)))
            zero_parity = first ^ second
            if t < length:
                at = np.uint64(here + LANES * state)
                zero_gamma = np.uint64(LANES * (_GAMMA + zero_parity))
                one_gamma = np.uint64(LANES * (_GAMMA + 1 - zero_parity))
                best_zero, best_one = np.uint64(LANES * _BEST), np.uint64(LANES * (_BEST + 1))
                if state == 0:
                    _first_path(alpha, at, scratch, zero, zero_gamma, best_zero)
                    _first_path(alpha, at, scratch, one, one_gamma, best_one)
                if state > 0:
                    _add_path(alpha, at, scratch, zero, zero_gamma, best_zero)
                    _add_path(alpha, at, scratch, one, one_gamma, best_one)
            _join(
                scratch,
                zero,
                one,
                np.uint64(now + LANES * state),
                scratch,
                np.uint64(LANES * (_GAMMA + zero_parity)),
                np.uint64(LANES * (_GAMMA + 3 - zero_parity)),
            )
        if t < length:
            _extrinsic(scratch, extrinsic, np.uint64(LANES * places[2, t]))


@lean_kernel
def decode_blocks(
    llrs: Any,
    sent: Any,
    places: Any,
    iterations: Any,
    rows: Any,
    values: Any,
    extrinsic: Any,
    totals: Any,
    alpha: Any,
    scratch: Any,
    bits: Any,
    begin: Any,
    end: Any,
) -> None:
    """Decide blocks `begin` to `end` - 1, `LANES` at once."""
    length, stride = bits.shape[1], llrs.shape[1]
    for first in range(begin, end, LANES):
        for i in range(LANES):
            quantise(llrs, min(first + i, end - 1), _STEPS, _LARGEST, rows, np.uint64(i * stride), stride)
        to_lanes(rows, np.uint64(stride), alpha, stride)
        _fill(values, np.uint64(0), _ZERO, len(values))
        for place in range(len(sent)):
            _copy(alpha, np.uint64(LANES * place), values, np.uint64(LANES * sent[place]))
        _fill(extrinsic[0], np.uint64(0), _ZERO, LANES * (length + 1))
        _fill(extrinsic[1], np.uint64(0), _ZERO, LANES * (length + 1))
        _fill(scratch, np.uint64(LANES * _DECIDED), _ZERO, LANES)
        for iteration in range(iterations):
            _decode_component(values, places[0], extrinsic[1], alpha, scratch, extrinsic[0], length)
            _totals(values, extrinsic[0], extrinsic[1], totals, scratch, length)
            _decode_component(values, places[1], extrinsic[0], alpha, scratch, extrinsic[1], length)
            _fill(scratch, np.uint64(LANES * _CHANGED), _ZERO, LANES)
            _totals(values, extrinsic[0], extrinsic[1], totals, scratch, length)
            num_open = 0
            # A code word is decided when its own decoders agree, so that it does not depend on its neighbours.
            for i in range(min(LANES, end - first)):
                if scratch[LANES * _DECIDED + i] == 0:
                    if scratch[LANES * _CHANGED + i] >= 0 or iteration + 1 == iterations:
                        scratch[LANES * _DECIDED + i] = _ONE
                        for t in range(length):
                            bits[first + i, t] = np.uint8(totals[LANES * t + i] > 0)
                    else:
                        num_open += 1
            if num_open == 0:
                break
