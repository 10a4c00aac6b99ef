"""From what the radio delivered to an estimate of the sum over all devices.

Both aggregators give an unbiased scale whatever the number of silent devices: the sum over K_a active
devices is multiplied by K / K_a (Liu and Simeone, arXiv:2108.07644), coordinate by coordinate where packets
are missing. Where nobody is active there is no estimate, and the aggregate is zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phy.links.link import Superposition
from phy.numerics.workers import spans

SMALLEST_DEBIAS_FACTOR = 0.05
"""Below this 1 - 2 BER says that the channel carries nothing: dividing by less would amplify chance."""

_CELLS_AT_ONCE = 1 << 21
_FEWEST_COLUMNS = 256


def sum_from_superposition(heard: Superposition, *, num_devices: int) -> NDArray[np.float64]:
    """Estimate of sum_k x_k, `[num_trials, num_symbols]`: Re(y) / A times K / K_a, Zhang et al. 2022 (14).

    Zero where A or K_a is.
    """
    amplitude, active = heard.decision.amplitude[:, None], heard.num_active
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = heard.received.real.astype(np.float64) / amplitude * (num_devices / np.maximum(active, 1))
    return np.where((amplitude > 0.0) & (active > 0), estimate, 0.0)


def sum_of_devices(
    values: NDArray[np.float64],
    *,
    active: NDArray[np.bool_],
    bit_error_rate: NDArray[np.float64] | None = None,
    known: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
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


def weighted_mean(
    values: NDArray[Any],
    *,
    weights: NDArray[np.float64],
    known: NDArray[np.bool_] | None = None,
    otherwise: NDArray[np.float32],
) -> NDArray[np.float32]:
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
