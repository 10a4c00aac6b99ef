"""From what the radio delivered to one vector: sums, means, and robust aggregators, whatever a minority says.

Sums and means have an unbiased scale whatever the number of silent devices: the sum over K_a active devices is
multiplied by K / K_a (Liu and Simeone, arXiv:2108.07644), coordinate by coordinate where packets are missing. Where
nobody is active there is no estimate, and the aggregate is zero.

Coordinate median and trimmed mean (Yin et al. 2018), the geometric median (Weiszfeld's iteration, as in Pillutla,
Kakade and Harchaoui 2022), and RSA's step (Li, Xu, Chen, Giannakis and Ling 2019) take values `[K, M]`, the devices'
weights `[K]`, and which values arrived, `[K, M]`; a device of weight 0 does not count, and neither does NaN, which the
robust ones take as missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32, F64, I64, Bools, Reals
from phy.links.link import Superposition
from phy.numerics.workers import spans

SMALLEST_DEBIAS_FACTOR = 0.05
"""Below this 1 - 2 BER says that the channel carries nothing: dividing by less would amplify chance."""

_CELLS_AT_ONCE = 1 << 21
_FEWEST_COLUMNS = 256


def sum_from_superposition(heard: Superposition, *, num_devices: int) -> F64:
    """Estimate of sum_k x_k, `[num_trials, num_symbols]`: Re(y) / A times K / K_a, Zhang et al. 2022 (14).

    Zero where A or K_a is.
    """
    amplitude, active = heard.decision.amplitude[:, None], heard.num_active
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = heard.received.real.astype(np.float64) / amplitude * (num_devices / np.maximum(active, 1))
    return np.where((amplitude > 0.0) & (active > 0), estimate, 0.0)


def sum_of_devices(values: F64, *, active: Bools, bit_error_rate: F64 | None = None, known: Bools | None = None) -> F64:
    """Estimate of sum_k x_k, `[num_trials, m]`, from detected values `[num_trials, num_devices, m]`.

    `bit_error_rate` `[num_trials, num_devices]` undoes the shrinkage of detected signs, E[x^] = (1 - 2 p) x;
    the factor 1 - 2 p is kept above `SMALLEST_DEBIAS_FACTOR`. `known` `[num_trials, num_devices, m]` says which
    values arrived: the others do not count, and the sum over the K_a devices heard is scaled by K / K_a: unbiased where
    all devices are missing equally often, else drawn towards those that are heard.
    """
    weights = active.astype(float)
    if bit_error_rate is not None:
        shrinkage = 1.0 - 2.0 * np.nan_to_num(bit_error_rate)
        weights = weights / np.maximum(shrinkage, SMALLEST_DEBIAS_FACTOR)
    heard = active.sum(axis=1, keepdims=True)
    if known is not None:
        values = np.where(known, values, 0.0)
        heard = (known & active[..., None]).sum(axis=1)
    scale = active.shape[1] / np.maximum(heard, 1)
    return np.asarray(np.einsum("tk,tkm->tm", weights, values) * scale)


def weighted_mean(values: NDArray[Any], *, weights: F64, known: Bools | None = None, otherwise: F32) -> F32:
    """sum_n q_n w_n, Li et al. 2025 (4), `[M]` float32, from `values` `[K, M]` of devices with q_n > 0 in `weights`.

    The weights are those of the devices heard, brought to sum to one, coordinate by coordinate where packets are
    missing (`known` `[K, M]`). Where nothing arrived the result is `otherwise` `[M]`.
    """
    out, total = np.array(otherwise, np.float32), float(weights.sum())
    if total == 0.0:
        return out
    # What flipped bits made may be NaN or infinite: so is then the mean, for the caller to judge.
    with np.errstate(invalid="ignore", over="ignore"):
        for part in spans(values.shape[1], step=max(_CELLS_AT_ONCE // max(len(values), 1), _FEWEST_COLUMNS)):
            some = values[:, part].astype(np.float64)
            if known is None:
                out[part] = weights @ some / total
                continue
            heard = weights @ known[:, part]
            mean = weights @ np.where(known[:, part], some, 0.0) / np.where(heard > 0.0, heard, 1.0)
            out[part] = np.where(heard > 0.0, mean, out[part])
    return out


Known = Bools | None

_VALUES_AT_ONCE = 1 << 18
_MOST_STEPS = 100
_CLOSE = 1e-7
_SLACK = 1e-9


def by_columns(rule: Callable[..., F32], values: Reals, *, weights: F64, known: Known = None, otherwise: F32) -> F32:
    """What `rule` makes of `values` `[K, M]`, `[M]`, some columns at a time."""
    out = np.empty(values.shape[1], np.float32)
    for part in spans(values.shape[1], step=max(_VALUES_AT_ONCE // max(len(values), 1), 16)):
        held = None if known is None else known[:, part]
        out[part] = rule(values[:, part], weights=weights, known=held, otherwise=otherwise[part])
    return out


def coordinate_median(values: Reals, *, weights: F64, known: Known = None, otherwise: F32) -> F32:
    """The value that half of the weight lies on either side of, the mean of two where both do, `[M]`."""
    ranked, held, total = _ranked(values, weights, known)
    if held is None:
        count = _count(ranked)
        low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, ranked.shape[1] - 1)
    else:
        below = np.cumsum(held, axis=1)
        low = (below < total[:, None] * 0.5 * (1.0 - _SLACK)).sum(axis=1)
        high = (below <= total[:, None] * 0.5 * (1.0 + _SLACK)).sum(axis=1)
        low, high = np.minimum(low, ranked.shape[1] - 1), np.minimum(high, ranked.shape[1] - 1)
    rows = np.arange(len(ranked))
    with np.errstate(invalid="ignore"):
        middle = 0.5 * ranked[rows, low].astype(np.float64) + 0.5 * ranked[rows, high].astype(np.float64)
    return _filled(middle, total, otherwise)


def trimmed_mean(values: Reals, *, weights: F64, trim: float, known: Known = None, otherwise: F32) -> F32:
    """Mean of what is left once devices of at most the share `trim` of the weight are cut off at either end, `[M]`.

    Of n equal weights floor(trim n) go at either end.
    """
    ranked, held, total = _ranked(values, weights, known)
    if held is None:
        count = _count(ranked)
        cut = np.floor(trim * count + _SLACK).astype(np.int64)
        if (cut == cut[0]).all() and (count == count[0]).all():
            kept = ranked[:, cut[0] : max(count[0] - cut[0], 1)]
            return _filled(kept.mean(axis=1, dtype=np.float64), total, otherwise)
        place = np.arange(ranked.shape[1])
        held = ((place >= cut[:, None]) & (place < (count - cut)[:, None])).astype(np.float64)
    else:
        most = trim * total[:, None] * (1.0 + _SLACK)
        upto = np.cumsum(held, axis=1)
        inside = (upto > most) & (total[:, None] - (upto - held) > most)
        held = np.where(inside, held, 0.0)
    share = held.sum(axis=1)
    kept = np.where(held > 0.0, ranked, 0.0)
    return _filled((kept * held).sum(axis=1) / np.where(share > 0.0, share, 1.0), total, otherwise)


def rsa_step(values: Reals, *, weights: F64, step: float, known: Known = None, otherwise: F32) -> F32:
    """w - step sum_k q_k sign(w - w_k), `[M]`, with w = `otherwise` and weights q that sum to 1 over those heard.

    RSA's server step without its own regulariser; its lambda is step / K. Of updates instead of models w is 0.
    """
    total, heard = np.zeros((2, values.shape[1]))
    for rows in _rows(values.shape):
        with np.errstate(invalid="ignore"):
            signs = np.sign(values[rows] - otherwise)
        held = ~np.isnan(signs) if known is None else known[rows] & ~np.isnan(signs)
        total += weights[rows] @ np.where(held, signs, 0.0)
        heard += weights[rows] @ held
    return (otherwise + step * total / np.where(heard > 0.0, heard, 1.0)).astype(np.float32)


def geometric_median(values: Reals, *, weights: F64, known: Known = None, otherwise: F32) -> F32:
    """The z `[M]` that minimises sum_k q_k ||w_k - z||, norms over what arrived of each device.

    Weiszfeld's iteration from the coordinate median, with the step of Vardi and Zhang (2000) where z meets a device, at
    most 100 times, until z moves by less than 1e-7 of the median distance. Infinite values count as missing.
    """
    start = by_columns(coordinate_median, values, weights=weights, known=known, otherwise=otherwise)
    centre = np.where(np.isfinite(start), start, otherwise).astype(np.float64)
    everybody = known is None and all(bool(np.isfinite(values[rows]).all()) for rows in _rows(values.shape))
    for _ in range(_MOST_STEPS):
        centre, moved, scale = _weiszfeld(values, centre, weights, known, everybody)
        if moved <= _CLOSE * scale:
            break
    heard = np.zeros(values.shape[1], bool)
    for rows in _rows(values.shape):
        heard |= (_held(values[rows], known, rows) & (weights[rows] > 0.0)[:, None]).any(axis=0)
    return np.where(heard, centre, otherwise).astype(np.float32)


def _weiszfeld(values: Reals, centre: F64, weights: F64, known: Known, everybody: bool) -> tuple[F64, float, float]:
    """The next centre, how far it lies, and the median distance of devices from the last."""
    pull, share = np.zeros_like(centre), np.zeros_like(centre)
    distances = np.zeros(len(values))
    at_centre = 0.0
    for rows in _rows(values.shape):
        away = values[rows].astype(np.float64)
        away -= centre
        held = None if everybody else _held(away, known, rows)
        if held is not None:
            away[~held] = 0.0
        distance = np.sqrt(np.einsum("km,km->k", away, away))
        distances[rows] = distance
        there = distance == 0.0
        # A device that was not heard is nowhere.
        at_centre += float(weights[rows][there if held is None else there & held.any(axis=1)].sum())
        inverse = np.where(there, 0.0, weights[rows] / np.where(there, 1.0, distance))
        pull += inverse @ away
        share += inverse.sum() if held is None else inverse @ held
    move = pull / np.where(share > 0.0, share, 1.0)
    strength = float(np.sqrt(pull @ pull))
    if at_centre > 0.0:
        move *= max(0.0, 1.0 - at_centre / strength) if strength > 0.0 else 0.0
    counted = distances[weights > 0.0]
    return centre + move, float(np.sqrt(move @ move)), float(np.median(counted)) if len(counted) else 0.0


def _held(some: Reals, known: Known, rows: slice) -> Bools:
    return np.isfinite(some) if known is None else known[rows] & np.isfinite(some)


def _ranked(values: Reals, weights: F64, known: Known) -> tuple[Reals, F64 | None, F64]:
    """Reals by size `[M, K]`, NaN for what is missing last; their weights, None if all are equal; the sums `[M]`."""
    counts = weights > 0.0
    columns = np.array(values[counts].T, order="C")
    own = weights[counts]
    if not len(own):
        columns, own = np.full((values.shape[1], 1), np.nan, columns.dtype), np.ones(1)
    elif known is not None:
        columns[~known[counts].T] = np.nan
    if (own == own[0]).all():
        columns.sort(axis=1)
        return columns, None, own[0] * _count(columns)
    order = np.argsort(columns, axis=1)
    ranked = np.take_along_axis(columns, order, axis=1)
    held = np.where(np.isnan(ranked), 0.0, own[order])
    return ranked, held, held.sum(axis=1)


def _count(ranked: Reals) -> I64:
    return np.asarray(ranked.shape[1] - np.isnan(ranked).sum(axis=1))


def _filled(found: F64, total: F64, otherwise: F32) -> F32:
    with np.errstate(over="ignore"):
        return np.where(total > 0.0, found, otherwise).astype(np.float32)


def _rows(shape: tuple[int, ...]) -> Iterator[slice]:
    return spans(shape[0], step=max(_VALUES_AT_ONCE // max(shape[1], 1), 1))
