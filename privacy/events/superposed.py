"""One gradient entry as a random sign over the superposition, tightly: digital FLMC, Zhang et al. 2022, (8) and (15).

The worst case is one pair of laws, with q = Phi(l) = 1 / (1 + e^-b), b = a l, and A in the unit of sqrt(noise power):

    P = q N(A, 1) + (1 - q) N(-A, 1),    Q = (1 - q) N(A, 1) + q N(-A, 1).

- *Extremes are worst.* The law P_g of what is received is affine in Phi(g), the hockey-stick divergence convex in both
  its laws together (as is any f-divergence, the exponential of Renyi's among them), and a convex function on the square
  [1 - q, q]^2 is largest at a corner: nothing, or P against Q, or Q against P, which are mirror images.
- *Other devices add nothing.* A listener who knows the sum v of the others' symbols subtracts it: y is shifted, and no
  divergence changes. A listener who does not know v receives a mixture over v with equal weights under both laws. By
  joint convexity the divergence is not larger. No worst case over the sum is needed, unlike +-A (K-1) in (16).
- *Entries and rounds compose.* Given the data, draws of the quantizer and noise are independent from entry to entry, so
  that the m entries are m events, and rounds follow each other.

(16) bounds Pr(L > epsilon) instead of the hockey-stick divergence, at a residual that the device's own symbol cannot
reach; this event is below it for every K >= 2. For K = 1, (16) leaves out the device's own symbol and is no bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.errors import PrivacyError, require_count, require_positive
from privacy.events._renyi_sum import renyi_moment
from privacy.events.events import Event, Floats, NoRelease
from privacy.mechanisms._digital_tail import entry_loss

_REACH = 10.0  # Pr(|z| > 10) is 2e-23
_NODES = 1 << 17
_ROUNDING = 1e-10
"""Relative error of the quadrature, added so that the result is an upper bound."""


@dataclass(frozen=True, kw_only=True)
class SuperposedBit(Event):
    """P against Q of the module's head: +-1, with log odds of at most `entry_bound` b, at received amplitude A.

    `amplitude` A >= 0 in the unit of sqrt(noise power), math.inf without noise: then it is randomized response with
    keep Phi(l). `entry_bound` b = a l >= 0 in nats, math.inf for a sign without a draw: then it is the Gaussian
    mechanism of noise multiplier 1 / (2 A). Raises PrivacyError for values that are neither.
    """

    amplitude: float
    entry_bound: float

    def __post_init__(self) -> None:
        """Raise PrivacyError for NaN and negative numbers."""
        if not self.amplitude >= 0.0:
            raise PrivacyError(
                f"amplitude is {self.amplitude}, but it must be >= 0", "give the received amplitude over sqrt(noise)"
            )
        if not self.entry_bound >= 0.0:
            raise PrivacyError(f"entry_bound is {self.entry_bound}, but it must be >= 0", "give a l in nats")

    def pure_epsilon(self) -> float:
        """b = a l, approached as y grows; 0 at amplitude 0. m entries of a round: m a l, 7.5 in the paper."""
        return self.entry_bound if self.amplitude > 0.0 else 0.0

    def delta(self, epsilon: Floats) -> Floats:
        """Pr_P(y > t) - e^eps Pr_Q(y > t) where the loss, rising in y, reaches eps at t; accurate to 1e-12 relative.

        With x = ln[(e^(eps+b) - 1) / (e^b - e^eps)] = 2 A t this is a product: delta of randomized response,
        (e^b - e^eps) / (e^b + 1), times delta at x of the Gaussian mechanism N(+-A, 1). Raises PrivacyError below 0.
        """
        eps = np.asarray(epsilon, np.float64)
        if not np.all(eps >= 0.0):
            raise PrivacyError("an epsilon is negative or NaN, but a privacy profile starts at 0", "give 0 or more")
        b = self.entry_bound
        inside = eps < b
        if self.amplitude == 0.0 or not inside.any():
            return np.zeros_like(eps)
        at = np.where(inside, eps, 0.0)
        response = -np.expm1(at - b) / (1.0 + math.exp(-b))
        odds = np.exp(at - b) * -np.expm1(-2.0 * at) / -np.expm1(at - b)
        gaussian = _gaussian_delta(at + np.log1p(odds) if b < math.inf else at, self.amplitude)
        return np.asarray(np.where(inside, response * gaussian, 0.0))

    def renyi(self, order: Floats) -> Floats:
        """Renyi divergence by quadrature, raised by 1e-10 relative, and never above those of its two halves.

        Those, ln[q^o (1-q)^(1-o) + (1-q)^o q^(1-o)] / (o - 1) of randomized response and 2 o A^2 of the Gaussian
        mechanism, bound it by data processing and convexity; where the quadrature would need more than 2^17 nodes they
        answer alone. Raises PrivacyError unless every order is above 1.
        """
        orders = np.asarray(order, np.float64)
        if not np.all(orders > 1.0):
            raise PrivacyError("an order is not above 1, but a Renyi order must be", "2 is usual")
        if self.amplitude == 0.0 or self.entry_bound == 0.0:
            return np.zeros_like(orders)
        distinct, where = np.unique(orders, return_inverse=True)
        found = np.array([_renyi(float(one), A=self.amplitude, b=self.entry_bound) for one in distinct])
        return np.asarray(found[where]).reshape(orders.shape)

    def repeated(self, count: int) -> Event | None:
        """None beyond 1: sums of these losses have no closed form."""
        if count == 0:
            return NoRelease()
        return self if count == 1 else None


def analog_noise_multiplier(
    *, amplitude: ArrayLike, dimension: int, gradient_bound: float, noise_power: float
) -> Floats:
    """sqrt(N0) / (2 A l sqrt(m)): a round of analog FLMC is a Gaussian event of this noise multiplier.

    `amplitude` A of any shape gives float64 of the same. The m entries of neighbours differ by 2 l at most each,
    A 2 l sqrt(m) together. The loss N(mu^2 / 2, mu^2) of that event, mu one over the multiplier, is N(x, 2 x) with
    x = 2 m A^2 l^2 / N0: Zhang et al. 2022 (17), (20). math.inf at amplitude 0. Raises PrivacyError for values out of
    range.
    """
    require_count(dimension=dimension)
    require_positive(gradient_bound=gradient_bound, noise_power=noise_power)
    received = np.asarray(amplitude, np.float64)
    inside = np.isfinite(received) & (received >= 0.0)
    if not inside.all():
        raise PrivacyError(
            f"amplitude is {received[~inside].flat[0]}, but it must be finite and >= 0", "give the received amplitude A"
        )
    distance = 2.0 * gradient_bound * math.sqrt(dimension) * received
    with np.errstate(divide="ignore"):
        return np.asarray(math.sqrt(noise_power) / distance)


@lru_cache(maxsize=4096)  # a run spends the same amplitude at many points
def _renyi(order: float, *, A: float, b: float) -> float:
    bound = min(_response_renyi(order, b), 2.0 * order * A * A)
    if math.isinf(order) or math.isinf(A) or math.isinf(b):
        return bound
    # Beyond A + order times the steepest loss, or where the loss has all but reached b, the integrand falls as Q.
    flat = (b + 50.0 + math.log(order)) / (2.0 * A)
    high = A + min(2.0 * order * A * math.tanh(b / 2.0), max(flat, 1.0)) + _REACH
    # Its poles lie pi / (2 A) off the real line, and no bump is narrower than 1 / sqrt(1 + order A^2).
    step = min(0.25 / A, 0.7 / math.sqrt(1.0 + order * A * A))
    count = math.ceil((high + A + _REACH) / step)
    if count > _NODES:
        return bound
    y = np.linspace(-A - _REACH, high, count + 1)
    loss = entry_loss(y, relative=A, entry_bound=b)
    log_q = np.logaddexp(-0.5 * (y - A) ** 2 - b, -0.5 * (y + A) ** 2) - math.log1p(math.exp(-b))
    width = (y[1] - y[0]) / math.sqrt(2.0 * math.pi)
    found = renyi_moment(loss, log_q, order=order, width=width)
    return min(found / (order - 1.0) * (1.0 + _ROUNDING), bound)


def _gaussian_delta(x: Floats, amplitude: float) -> Floats:
    """S(t - A) - e^x S(t + A), t = x / (2 A): the profile at x of N(A, 1) against N(-A, 1), in [0, 1].

    As phi(t - A) [R(t - A) - R(t + A)] with Mills' ratio R = S / phi, so that nothing overflows.
    """
    from scipy import special

    if math.isinf(amplitude):
        return np.ones_like(x)
    # Below this amplitude the loss is 0 to the last digit, and the quotient overflows.
    t = x / (2.0 * max(amplitude, 1e-150))
    low, high = t - amplitude, t + amplitude
    if amplitude < 0.05:
        # The difference of ratios cancels: integrate -R'(u) = 1 - u R(u) from low to high instead.
        nodes, weights = special.roots_legendre(5)
        u = np.maximum(t[..., None] + amplitude * nodes, low[..., None])
        # Beyond 38 phi is 0, whatever the ratio.
        ratio = amplitude * np.sum(weights * (1.0 - u * _mills(np.minimum(u, 40.0))), axis=-1)
        return np.asarray(np.where(t < 40.0, _phi(low) * ratio, 0.0))
    first = np.where(low > -1.0, _phi(low) * _mills(np.maximum(low, -1.0)), special.ndtr(-low))
    return np.asarray(np.clip(first - _phi(low) * _mills(high), 0.0, 1.0))


def _mills(u: Floats) -> NDArray[np.float64]:
    from scipy import special

    return np.asarray(math.sqrt(math.pi / 2.0) * special.erfcx(u / math.sqrt(2.0)))


def _phi(u: Floats) -> NDArray[np.float64]:
    return np.asarray(np.exp(-0.5 * np.minimum(np.abs(u), 1e100) ** 2) / math.sqrt(2.0 * math.pi))


def _response_renyi(order: float, b: float) -> float:
    """Renyi divergence of randomized response with log odds b: ln[(e^(o b) + e^((1-o) b)) / (1 + e^b)] / (o - 1)."""
    if math.isinf(order) or math.isinf(b):
        return b
    # Over e^(o b) so that nothing overflows: the powers are then of e^-b.
    logarithm = (order - 1.0) * b + math.log1p(math.exp((1.0 - 2.0 * order) * b)) - math.log1p(math.exp(-b))
    if order * b < 1e-2:
        excess = (
            math.expm1(order * b)
            - order * math.expm1(b)
            + math.exp(b) * (math.expm1(-order * b) - order * math.expm1(-b))
        )
        logarithm = math.log1p(max(excess, 0.0) / (1.0 + math.exp(b)))
    # Rounding may give values below 0 for tiny losses.
    return min(max(logarithm, 0.0) / (order - 1.0), b)
