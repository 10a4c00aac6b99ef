"""Channel noise that may count towards privacy, and the cost of measuring it.

Channel noise protects data as well as added noise does. Five facts limit the measured noise that a claim may count:

- *A count has an error.* Only a lower confidence limit counts (`credited_rate`). The limit is too high with probability
  f at most, whatever the data. Let G be the event that all limits of a run hold. Then
  Pr(S) <= Pr(S | G) Pr(G) + Pr(not G) <= e^eps Pr'(S) + delta + rounds f, so that evidence costs delta.
- *The noise power of a receiver has a tolerance.* Only its lower end counts (`credited_noise_power`).
- *A listener may receive better than the server*, from a shorter distance, in a better fade, with less noise. For an
  advantage of x dB, amplitudes count x dB higher. Only an assumption bounds x, and the claim must name it
  (`listener_sentence`).
- *A bit error rate belongs to hard decisions.* A listener with the signal before the decision knows the reliable bits.
- *Flips must be independent* for composition (`may_credit`). Errors of a decoder come in groups.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.errors import PrivacyError, require_count, require_positive, require_probability
from privacy.rate_limits import rate_limit

Law = Literal["independent", "unknown", "dropped"]
"""Law of the bit errors of a link. `independent`: drawn independently, or uncoded BPSK and QPSK with one known fade
per round. `unknown`: a decoder, bursts, unknown phases, shared resources, or several bits on an axis. `dropped`:
packets with errors never arrive, and the others have no channel errors."""

Outcome = Literal["fair", "unfair", "unknown"]
"""Outcome of a test of counted errors for independence."""

USUAL_DELTA = 1e-5
"""Delta of a whole run that names none: the default of `phyloop privacy`."""

_LEAST_FAILURE = 1e-14
_HALVINGS = 80
_FEW_DEVICES = 64
"""Number of counts below which all limits are computed without a search for equal counts."""


def credited_channel_rate(
    errors: ArrayLike, bits: ArrayLike, *, confidence: float, design_effect: ArrayLike = 1.0
) -> NDArray[np.float64]:
    """Lower confidence limit of min(p_C, 1 - p_C) in [0, 1/2], from counted `errors` in `bits`, broadcast.

    One-sided limit of Clopper and Pearson (Biometrika 1934): it exceeds the true rate in at most 1 - `confidence` of
    all rounds. Without errors, or without bits, it is 0. For errors in bursts, `design_effect` >= 1 is the variance
    of the count over the binomial variance; both counts are divided by it (Korn and Graubard, Survey Methodology 1998).
    Raises PrivacyError for impossible counts.
    """
    require_probability(confidence=confidence)
    k, n, deff = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (errors, bits, design_effect)))
    if not np.all(np.isfinite(n) & (k >= 0.0) & (k <= n)):
        raise PrivacyError("probed errors must lie between 0 and the probed bits", "count both over the same bits")
    if not np.all(np.isfinite(deff) & (deff >= 1.0)):
        raise PrivacyError("a design effect is below 1 or not finite", "give 1 for independent errors, more for bursts")
    n = n / deff
    # The upper limit of p is one minus the lower one of 1 - p, from the other bits; and the lower one grows with k.
    k = np.minimum(k / deff, n - k / deff)
    return rate_limit(k, n, level=1.0 - confidence)


def credited_rate(
    errors: ArrayLike, bits: ArrayLike, *, failure_probability: float, design_effect: ArrayLike = 1.0
) -> NDArray[np.float64]:
    """Lower limit in [0, 1/2] of min(p, 1 - p) from counts (broadcast), too high with probability f at most.

    `failure_probability` is f. Independent errors: `credited_channel_rate` at confidence 1 - f, exact. With a
    `design_effect` g > 1, bits err in independent groups of g at most: Hoeffding 1963, Theorem 1, for the n / g means
    of groups, the least p with n / g KL(k / n || p) <= ln(1 / f). This holds for any dependence within a group. It is
    never above the limit of `credited_channel_rate` with divided counts, which assumes that a group errs as a whole.
    Raises PrivacyError for impossible counts, or f below 1e-14.
    """
    require_probability(failure_probability=failure_probability)
    if failure_probability < _LEAST_FAILURE:
        raise PrivacyError(
            f"failure_probability is {failure_probability}, but it must be at least {_LEAST_FAILURE}",
            "give the evidence a larger share of delta",
        )
    # Rounding of 1 - f must not make the level a lower one.
    level = min(math.nextafter(1.0 - failure_probability, 1.0), math.nextafter(1.0, 0.0))
    k, n, group = np.broadcast_arrays(*(np.asarray(a, np.float64) for a in (errors, bits, design_effect)))
    if k.size <= _FEW_DEVICES:
        return _limits(k, n, group, level=level, failure_probability=failure_probability)
    # Many devices have equal counts.
    code = np.zeros(k.size, np.int64)
    for counts in (k, n, group):
        values, place = np.unique(counts.ravel(), return_inverse=True)
        code = np.unique(code * len(values) + place, return_inverse=True)[1]
    _, first, where = np.unique(code, return_index=True, return_inverse=True)
    distinct = (counts.ravel()[first] for counts in (k, n, group))
    limits = _limits(*distinct, level=level, failure_probability=failure_probability)
    return np.asarray(limits[where].reshape(k.shape))


def _limits(
    k: NDArray[np.float64],
    n: NDArray[np.float64],
    group: NDArray[np.float64],
    *,
    level: float,
    failure_probability: float,
) -> NDArray[np.float64]:
    exact = credited_channel_rate(k, n, confidence=level, design_effect=group)
    if not np.any(group > 1.0):
        return exact
    share = np.where(n > 0.0, k / np.maximum(n, 1.0), 0.0)
    allowed = -math.log(failure_probability) * group / np.maximum(n, 1.0)
    grouped = np.minimum(_least_rate(share, allowed), _least_rate(1.0 - share, allowed))
    return np.asarray(np.where(group > 1.0, np.minimum(grouped, exact), exact))


def evidence_delta(failure_probability: float, *, num_rounds: int) -> float:
    """Return rounds f, at most 1: the delta that counting measured noise in every round adds to the whole run.

    By the union bound, for any dependence of the probes. `num_rounds` is the number of probes of one unit: the rounds
    of its own device. Raises PrivacyError for values out of range.
    """
    require_count(num_rounds=num_rounds)
    require_probability(failure_probability=failure_probability)
    return min(failure_probability * num_rounds, 1.0)


def failure_for(delta_budget: float, *, num_rounds: int) -> float:
    """f per round for which `evidence_delta` over `num_rounds` is `delta_budget`, never above it."""
    require_count(num_rounds=num_rounds)
    require_probability(delta_budget=delta_budget)
    each = delta_budget / num_rounds
    return each if each * num_rounds <= delta_budget else math.nextafter(each, 0.0)


def confidence_for(delta_budget: float, *, num_rounds: int) -> float:
    """1 - f: the confidence level of every round's limit that spends `delta_budget` of delta on evidence in all.

    Raises PrivacyError for values out of range, and for a budget of less than 1e-14 per round.
    """
    failure = failure_for(delta_budget, num_rounds=num_rounds)
    if failure < _LEAST_FAILURE:
        raise PrivacyError(
            f"delta_budget is {delta_budget} for {num_rounds} rounds, but each round needs at least {_LEAST_FAILURE}",
            "give the evidence a larger share of delta",
        )
    return math.nextafter(1.0 - failure, 1.0)


def credited_noise_power(noise_power_w: ArrayLike, *, tolerance_db: float) -> NDArray[np.float64]:
    """Return noise_power_w 10^(-tolerance_db / 10), the least noise power of a receiver known to +-tolerance_db.

    Raises PrivacyError for a tolerance below 0 or a power that is not finite and at least 0.
    """
    _require_db(tolerance_db=tolerance_db)
    power = np.asarray(noise_power_w, np.float64)
    if not np.all(np.isfinite(power) & (power >= 0.0)):
        raise PrivacyError("a noise power is negative or not finite", "give the power of the receiver's noise in W")
    return np.asarray(power * 10.0 ** (-tolerance_db / 10.0))


def listener_sentence(*, advantage_db: float = 0.0, tolerance_db: float = 0.0, decided_bits: bool = False) -> str:
    """The assumption about a listener that a claim with channel noise must name."""
    _require_db(advantage_db=advantage_db, tolerance_db=tolerance_db)
    better = f"by at most {advantage_db:g} dB better than the server" if advantage_db else "no better than the server"
    noise = f", through noise of at most {tolerance_db:g} dB below its nominal power" if tolerance_db else ""
    sees = " and sees decided bits alone" if decided_bits else ""
    return f"a listener receives the devices {better}{noise}{sees}"


def may_credit(*, law: Law, outcome: Outcome | None = None) -> str | None:
    """Return None if bit errors of a link may count as independent flips, else the reason in a sentence.

    A known law of the link decides, unless the counts contradict it. For an unknown law, a test of counted errors must
    have `outcome` `fair` (None: no test). Raises PrivacyError for unknown words.
    """
    if law not in ("independent", "unknown", "dropped"):
        raise PrivacyError(f"law is {law!r}, but it must be 'independent', 'unknown' or 'dropped'", "choose one")
    if outcome not in ("fair", "unfair", "unknown", None):
        raise PrivacyError(f"outcome is {outcome!r}, but it must be 'fair', 'unfair' or 'unknown'", "choose one")
    if law == "dropped":
        return "packets with errors do not arrive, so that received packets have no channel errors to count"
    if outcome == "unfair":
        return "the counted errors of this link are not independent, so that none of them counts"
    if law == "independent" or outcome == "fair":
        return None
    tested = "no test of counted errors shows that they are" if outcome is None else "too few were counted for a test"
    return f"errors of this link may be dependent and {tested}, so that none of them counts"


def independence_sentence(*, law: Law, outcome: Outcome | None = None) -> str:
    """The reason for independence, an assumption of a claim that counts channel errors; or the reason against it."""
    reason = may_credit(law=law, outcome=outcome)
    if reason is not None:
        return reason
    if law == "independent":
        return "bits err independently, by the law of the link"
    return "bit errors are assumed independent because a test of counted errors found nothing else; a test is no proof"


def _least_rate(share: NDArray[np.float64], allowed: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least p <= share with KL(share || p) <= allowed, from below, in [0, share]."""
    from scipy.special import rel_entr

    low, high = np.zeros_like(share), share.copy()
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        far = rel_entr(share, middle) + rel_entr(1.0 - share, 1.0 - middle) > allowed
        low, high = np.where(far, middle, low), np.where(far, high, middle)
    return low


def _require_db(**values: float) -> None:
    for name, value in values.items():
        if value != 0.0:
            require_positive(**{name: value})
