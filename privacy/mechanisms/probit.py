"""Privacy of the stochastic bits of PRoBit, Lan et al.: exact loss of an upload, and the b that an epsilon asks for.

A device with delta sends c = +1 with probability (b + delta) / (2 b). Flips of probability p,
of whatever origin, leave

    P(c = +1) = (1 - p) (b + delta) / (2 b) + p (b - delta) / (2 b) = (b' + delta) / (2 b'),   b' = b / (1 - 2 p),

so that a bit that is flipped is, for an observer, a bit of the larger b': flips that are surely there let b be smaller
by 1 - 2 p for the same promise. With updates in the ball ||delta||_1 <= C, |delta_i| <= D <= C, the loss of all M bits
is sum_i ln (b' + c_i delta_i) / (b' + c_i delta~_i). ln is concave: the numerator is largest for an update spread
evenly, the denominator smallest for one concentrated on n = floor(C / D) entries of size D and one of the rest r, so

    eps(b') = M ln(1 + min(C / M, D) / b') - n ln(1 - D / b') - ln(1 - r / b')

is the exact worst case (`privacy_loss`, our derivation), reached by two updates of the ball. The paper's proof bounds
every term by the same b' - D instead; `dp_bound` gives b of either.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

BoundForm = Literal["printed", "exact"]


def dp_bound(
    *,
    epsilon: float,
    l1_clip: float,
    clip: float | None = None,
    flip_rate: ArrayLike = 0.0,
    form: BoundForm = "printed",
    num_values: int | None = None,
) -> NDArray[np.float64]:
    """Smallest b that is (eps, 0)-DP for one device and round, where bits are flipped with `flip_rate` p at least.

    - `printed`, Lan et al., Theorem 2: b' = max |delta_i| + (1 + 1/eps) Delta_1, Delta_1 = 2 `l1_clip`, where for the
      private maximum stands its public bound D = min(`clip`, `l1_clip`): no entry exceeds the l1 norm;
    - `exact`: the b' at which `privacy_loss` is epsilon; for `num_values` M, or for any number of them.

    b = max(D, (1 - 2 p) b'), for below D a probability would leave [0, 1]. `flip_rate` in [0, 1/2], one or `[K]`, gives
    the shape of the result.
    """
    largest = min(clip or l1_clip, l1_clip)
    if form == "printed":
        effective = largest + (1.0 + 1.0 / epsilon) * 2.0 * l1_clip
    else:
        effective = _exact_bound(epsilon, l1_clip=l1_clip, clip=clip, num_values=num_values)
    return np.asarray(np.maximum(largest, (1.0 - 2.0 * np.asarray(flip_rate, np.float64)) * effective))


def privacy_loss(b: float, *, l1_clip: float, clip: float | None = None, num_values: int | None = None) -> float:
    """The exact eps of one device and round at b', see above; math.inf where b' does not exceed D.

    `num_values` M; None: its limit for many, M ln(1 + C / (M b')) -> C / b'.
    """
    largest = min(clip or l1_clip, l1_clip)
    if b <= largest:
        return math.inf
    whole = int(l1_clip / largest * (1.0 + 1e-12))
    rest = max(l1_clip - whole * largest, 0.0)
    if num_values is None:
        spread = l1_clip / b
    else:
        spread = num_values * math.log1p(min(l1_clip / num_values, largest) / b)
        if whole >= num_values:
            whole, rest = num_values, 0.0
    return spread - whole * math.log1p(-largest / b) - math.log1p(-rest / b)


def _exact_bound(epsilon: float, *, l1_clip: float, clip: float | None, num_values: int | None) -> float:
    """Bisection in b' - D on a logarithmic scale, from the side on which the promise holds."""
    largest = min(clip or l1_clip, l1_clip)

    def loss(excess: float) -> float:
        return privacy_loss(largest + excess, l1_clip=l1_clip, clip=clip, num_values=num_values)

    # C / b' + C / (b' - D) bounds the loss from above, so this is enough.
    high = low = 2.0 * l1_clip / epsilon
    while loss(low) <= epsilon and low > 1e-15 * largest:
        low *= 0.5
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if loss(middle) <= epsilon else (middle, high)
    return largest + high
