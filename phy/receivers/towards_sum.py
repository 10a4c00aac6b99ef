"""Combiners of several antennas towards the sum of all devices, r = f^H y.

    y = sum_k h_k A w_k x_k + z,    r = A sum_k (f^H h_k) w_k x_k + f^H z,    z ~ CN(0, 2 N0 I)

f comes from the channel estimates H^ = [h^_1 ... h^_K] of the K devices on the air at N antennas:

- `mrc`: f = s / ||s||, s = H^ 1. Devices know f^H h^_k, and weight their symbols as for a channel of one antenna
  (Chen et al. 2018; Yang, Jiang, Shi and Ding 2020);
- `zf`: f = H^ (H^^H H^)^-1 1, the shortest f with f^H h^_k = 1 for all k; needs N >= K;
- `mmse`: f = (H^ H^^H + l I)^-1 H^ 1, which has the least E |r / A - sum_k x_k|^2 for symbols of unit power, with
  l = 2 N0 / P0 + sum_k (error variance of h^_k);
- `blind`: f = s / (N g^2), g^2 the mean of E |h_nk|^2 over devices, so that f^H h_k is 1 on average
  (Amiri et al. 2021).

Under `zf`, `mmse` and `blind` devices know no channel and send at full power, w = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phy.config.access import Combining

_TINY = 1e-30


def towards_sum(estimate: Any, gain: Any, *, combining: Combining, level: Any, xp: Any, solve: Any) -> Any:
    """f `[..., N]` for estimates `[..., N, K]` complex, 0 for devices off the air, whose `gain` `[..., K]` is 0.

    `gain` is the root mean square of |h_nk|, `level` l above, broadcast against `[...]`. `xp` is `numpy` or
    `tf.experimental.numpy`, `solve` its solver of linear equations.
    """
    total = xp.sum(estimate, axis=-1)
    if combining == "mrc":
        return total * xp.asarray(1.0 / xp.sqrt(xp.maximum(_power(total, xp), _TINY)), np.complex64)
    on_air = gain > 0.0
    if combining == "blind":
        count = xp.sum(xp.asarray(on_air, np.float32), axis=-1, keepdims=True)
        mean = xp.sum(gain**2, axis=-1, keepdims=True) / xp.maximum(count, 1.0)
        return total * xp.asarray(1.0 / xp.maximum(estimate.shape[-2] * mean, _TINY), np.complex64)
    precise = xp.asarray(estimate, np.complex128)
    adjoint = xp.conj(xp.swapaxes(precise, -1, -2))
    if estimate.shape[-2] < estimate.shape[-1]:
        noise = xp.asarray(level[..., None, None] * np.eye(estimate.shape[-2]), np.complex128)
        found = solve(xp.matmul(precise, adjoint) + noise, xp.asarray(total, np.complex128)[..., None])
    else:
        # H^ (H^^H H^ + l I)^-1 1 is the same. A device off the air has an equation of its own, x = 0.
        own = xp.where(on_air, level[..., None] if combining == "mmse" else 0.0, 1.0)[..., None]
        gram = xp.matmul(adjoint, precise) + xp.asarray(own * np.eye(gain.shape[-1]), np.complex128)
        ones = xp.zeros_like(gram[..., :1]) + xp.asarray(on_air, np.complex128)[..., None]
        found = xp.matmul(precise, solve(gram, ones))
    return xp.asarray(found[..., 0], np.complex64)


def _power(value: Any, xp: Any) -> Any:
    return xp.sum(xp.real(value) ** 2 + xp.imag(value) ** 2, axis=-1, keepdims=True)
