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
from phy.numerics.compiled import inlined, lean_kernel, shared

_STATES = 8
_UNREACHED = np.int16(-14000)
"""Below whatever a path from the zero state can lose in three steps."""
LARGEST = 1280
_STEPS, _LARGEST = np.float32(64.0), np.float32(LARGEST)
"""Steps per unit of LLR, and the largest LLR in steps: 20, as in Sionna's decoder."""
_EXTRINSIC_MAX = np.int16(2048)
_ZERO, _ONE, _NEAR = np.int16(0), np.int16(1), np.uint16(288)

# Lanes of the scratch array: beta of two steps, gamma by (u, p), the best paths of both values of a bit, code words
# with bits on which the decoders differ, code words that are decided.
_BETA, _GAMMA, _BEST, _CHANGED, _DECIDED = 0, 16, 20, 22, 23
NUM_SCRATCH = 24


@inlined
def _max_star(x: Any, y: Any) -> Any:
    difference = np.int16(x - y)
    distance = np.uint16(max(difference, np.int16(-difference)))
    near = np.uint16(np.uint16(_NEAR - min(distance, _NEAR)) >> np.uint16(2))
    square = np.uint16(np.uint16(near * near) >> np.uint16(5))
    correction = np.int16(np.uint16(square * near) >> np.uint16(8))
    return np.int16(np.int16(y + max(difference, _ZERO)) + correction)


@inlined
def _branch_metrics(information: Any, parity: Any, before: Any, neither: Any, b: Any, a: Any, both: Any) -> None:
    """gamma(u, p) = u A + p B, of u = p = 0 first."""
    for i in range(LANES):
        total = np.int16(information[i] + before[i])
        neither[i], b[i], a[i], both[i] = _ZERO, parity[i], total, np.int16(total + parity[i])


@inlined
def _go_on(first: Any, second: Any, first_gamma: Any, second_gamma: Any, alpha: Any) -> None:
    """alpha of a state from those of the two before it."""
    for i in range(LANES):
        alpha[i] = _max_star(np.int16(first[i] + first_gamma[i]), np.int16(second[i] + second_gamma[i]))


@inlined
def _go_back(zero: Any, one: Any, zero_gamma: Any, one_gamma: Any, a: Any, beta: Any) -> None:
    """beta of a state from those that it reaches with u = 0 and u = 1; the gammas are those of the parity bit."""
    for i in range(LANES):
        beta[i] = _max_star(np.int16(zero[i] + zero_gamma[i]), np.int16(np.int16(one[i] + one_gamma[i]) + a[i]))


@inlined
def _first_paths(
    alpha: Any, zero: Any, one: Any, zero_gamma: Any, one_gamma: Any, best_zero: Any, best_one: Any
) -> None:
    for i in range(LANES):
        best_zero[i] = np.int16(alpha[i] + np.int16(zero[i] + zero_gamma[i]))
        best_one[i] = np.int16(alpha[i] + np.int16(one[i] + one_gamma[i]))


@inlined
def _add_paths(alpha: Any, zero: Any, one: Any, zero_gamma: Any, one_gamma: Any, best_zero: Any, best_one: Any) -> None:
    for i in range(LANES):
        best_zero[i] = _max_star(best_zero[i], np.int16(alpha[i] + np.int16(zero[i] + zero_gamma[i])))
        best_one[i] = _max_star(best_one[i], np.int16(alpha[i] + np.int16(one[i] + one_gamma[i])))


@inlined
def _extrinsic(best_zero: Any, best_one: Any, extrinsic: Any) -> None:
    for i in range(LANES):
        value = np.int16(best_one[i] - best_zero[i])
        extrinsic[i] = max(min(value, _EXTRINSIC_MAX), np.int16(-_EXTRINSIC_MAX))


@inlined
def _fill(values: Any, value: Any) -> None:
    for i in range(LANES):
        values[i] = value


@inlined
def _total(information: Any, first: Any, second: Any, total: Any, changed: Any) -> None:
    """LLR of an information bit; `changed` becomes negative in every lane with a sign that was another before."""
    for i in range(LANES):
        new = np.int16(np.int16(information[i] + first[i]) + second[i])
        changed[i] |= np.int16(np.int16(new - _ONE) ^ np.int16(total[i] - _ONE))
        total[i] = new


@shared
def _decode_component(
    values: Any, places: Any, before: Any, alpha: Any, scratch: Any, extrinsic: Any, length: Any
) -> None:
    steps = places.shape[1]
    for state in range(_STATES):
        _fill(alpha[0, state], _UNREACHED if state > 0 else _ZERO)
    for t in range(steps - 1):
        information, parity = values[places[0, t]], values[places[1, t]]
        _branch_metrics(
            information, parity, before[places[2, t]], scratch[_GAMMA], scratch[_GAMMA + 1], scratch[_GAMMA + 2],
            scratch[_GAMMA + 3],
        )  # fmt: skip
        for state in range(_STATES):
            # State (r1, r2, r3) comes from (r2, r3, x) for x = 0 and 1 with u = r1 + r3 + x and parity r1 + r2 + x.
            entered, second, third = state >> 2, state >> 1 & 1, state & 1
            branch, source = 2 * (entered ^ third) + (entered ^ second), 2 * (state & 3)
            _go_on(
                alpha[t, source], alpha[t, source + 1], scratch[_GAMMA + branch], scratch[_GAMMA + 3 - branch],
                alpha[t + 1, state],
            )  # fmt: skip
    for state in range(_STATES):
        _fill(scratch[_BETA + state], _UNREACHED if state > 0 else _ZERO)
        _fill(scratch[_BETA + _STATES + state], _UNREACHED if state > 0 else _ZERO)
    best_zero, best_one = scratch[_BEST], scratch[_BEST + 1]
    for t in range(steps - 1, -1, -1):
        information, parity = values[places[0, t]], values[places[1, t]]
        _branch_metrics(
            information, parity, before[places[2, t]], scratch[_GAMMA], scratch[_GAMMA + 1], scratch[_GAMMA + 2],
            scratch[_GAMMA + 3],
        )  # fmt: skip
        later, now = _BETA + _STATES * ((steps - t - 1) & 1), _BETA + _STATES * ((steps - t) & 1)
        for state in range(_STATES):
            first, second, third = state >> 2, state >> 1 & 1, state & 1
            # With u = 0 the register takes r2 + r3 in, and the parity is r1 + r2; with u = 1 both turn.
            zero = scratch[later + 4 * (second ^ third) + (state >> 1)]
            one = scratch[later + 4 * (1 - (second ^ third)) + (state >> 1)]
            parity_of_zero = first ^ second
            zero_gamma, one_gamma = scratch[_GAMMA + parity_of_zero], scratch[_GAMMA + 1 - parity_of_zero]
            if t < length:
                here = alpha[t, state]
                if state == 0:
                    _first_paths(here, zero, one, zero_gamma, one_gamma, best_zero, best_one)
                else:
                    _add_paths(here, zero, one, zero_gamma, one_gamma, best_zero, best_one)
            _go_back(zero, one, zero_gamma, one_gamma, scratch[_GAMMA + 2], scratch[now + state])
        if t < length:
            _extrinsic(best_zero, best_one, extrinsic[places[2, t]])


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
    """Decide blocks `begin` to `end` - 1, `LANES` at once; LLRs that are not sent are zero in `values`."""
    length = bits.shape[1]
    changed, decided = scratch[_CHANGED], scratch[_DECIDED]
    for first in range(begin, end, LANES):
        for i in range(LANES):
            quantise(llrs[min(first + i, end - 1)], _STEPS, _LARGEST, rows[i])
        for place in range(len(sent)):
            to_lanes(rows, place, values[sent[place]])
        for step in range(length + 1):
            _fill(extrinsic[0, step], _ZERO)
            _fill(extrinsic[1, step], _ZERO)
        _fill(decided, _ZERO)
        for iteration in range(iterations):
            _decode_component(values, places[0], extrinsic[1], alpha, scratch, extrinsic[0], length)
            for t in range(length):
                _total(values[3 * t], extrinsic[0, t], extrinsic[1, t], totals[t], changed)
            _decode_component(values, places[1], extrinsic[0], alpha, scratch, extrinsic[1], length)
            _fill(changed, _ZERO)
            for t in range(length):
                _total(values[3 * t], extrinsic[0, t], extrinsic[1, t], totals[t], changed)
            num_open = 0
            # A code word is decided when its own decoders agree, so that it does not depend on its neighbours.
            for i in range(min(LANES, end - first)):
                if decided[i] == 0:
                    if changed[i] >= 0 or iteration + 1 == iterations:
                        decided[i] = _ONE
                        for t in range(length):
                            bits[first + i, t] = np.uint8(totals[t, i] > 0)
                    else:
                        num_open += 1
            if num_open == 0:
                break
