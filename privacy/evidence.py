"""Measured noise is evidence, not truth: what of a channel's noise may count as privacy, and what that costs.

Noise of the channel hides data as well as noise of one's own, if it is there. Five things stand between what was
measured and what may be credited, and each has its price:

- *A count has an error.* Only a lower confidence limit is credited (`credited_rate`). It is too high with a probability
  f at most, which does not depend on the data; so, with G that all limits of a run hold,
  Pr(S) <= Pr(S | G) Pr(G) + Pr(not G) <= e^eps Pr'(S) + delta + rounds f: evidence is paid for in delta.
- *A receiver's noise power is known to a tolerance*: its lower end is what surely hides (`credited_noise_power`).
- *Whoever listens may hear better than the server*: closer by, in a better fade, at a quieter receiver. Where listeners
  are granted an advantage of x dB, amplitudes count x dB higher (`credited_amplitude`). Nothing but an assumption
  bounds x, and the claim has to name it (`listener_sentence`).
- *A bit error rate is one of decisions*, of a listener who sees decided bits alone. One who keeps the signal before the
  decision knows which bits to trust; see `soft_amplitude`.
- *Flips must be independent* to compose as such (`may_credit`). A decoder's errors come together or not at all.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.errors import PrivacyError, require_count, require_positive, require_probability
from privacy.mechanisms.bit_flipping import credited_channel_rate

Law = Literal["independent", "unknown", "dropped"]
"""What the law of a link says of its bit errors: `independent` as drawn so, or as uncoded BPSK and QPSK in one fade per
round have them; `unknown` with a decoder, bursts or several bits on an axis; `dropped` where packets in error never
arrive, so that what does holds no error of the channel."""

Outcome = Literal["fair", "unfair", "unknown"]
"""What a test of counted errors says of independent flips as their stand-in."""

_LEAST_FAILURE = 1e-14
_HALVINGS = 80
_FEW_DEVICES = 64
"""Finding those that are counted alike would take longer than the limits of all."""


def credited_rate(
    errors: ArrayLike, bits: ArrayLike, *, failure_probability: float, design_effect: ArrayLike = 1.0
) -> NDArray[np.float64]:
    """A rate in [0, 1/2] that min(p, 1 - p) is below with at most `failure_probability` f, from counts, broadcast.

    Independent errors: `credited_channel_rate` at confidence 1 - f, exact. With a `design_effect` g > 1 the bits err in
    groups of g at most, each independent of the next: Hoeffding 1963, Theorem 1, for the n / g means of groups, the
    least p with n / g KL(k / n || p) <= ln(1 / f). That holds whatever happens inside a group, and is never above the
    divided counts of `credited_channel_rate`, which hold for groups that err as a whole. Raises PrivacyError for
    counts that cannot be, or f below 1e-14.
    """
    require_probability(failure_probability=failure_probability)
    if failure_probability < _LEAST_FAILURE:
        raise PrivacyError(
            f"failure_probability is {failure_probability}, below {_LEAST_FAILURE}, the least a confidence level "
            "resolves; grant the evidence more of delta."
        )
    # Rounding of 1 - f must not make the level a lower one.
    level = min(math.nextafter(1.0 - failure_probability, 1.0), math.nextafter(1.0, 0.0))
    k, n, group = np.broadcast_arrays(*(np.asarray(a, np.float64) for a in (errors, bits, design_effect)))
    if k.size <= _FEW_DEVICES:
        return _limits(k, n, group, level=level, failure_probability=failure_probability)
    # Of a million devices few have counts that no other has.
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
    """rounds f, at most 1: what crediting measured noise in every round adds to delta of the whole run.

    By the union bound, hence for probes of whatever dependence. `num_rounds` counts probes that one unit's data rely
    on: the rounds of its own device. Raises PrivacyError for values out of range.
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
            f"delta_budget is {delta_budget} for {num_rounds} rounds, less than {_LEAST_FAILURE} each, which no "
            "confidence level resolves; grant the evidence more of delta."
        )
    return math.nextafter(1.0 - failure, 1.0)


def credited_noise_power(noise_power_w: ArrayLike, *, tolerance_db: float) -> NDArray[np.float64]:
    """noise_power_w 10^(-tolerance_db / 10): the power that is surely there, of a receiver known to +-tolerance_db.

    Raises PrivacyError for a tolerance below 0 or a power that is not finite and at least 0.
    """
    _require_db(tolerance_db=tolerance_db)
    power = np.asarray(noise_power_w, np.float64)
    if not np.all(np.isfinite(power) & (power >= 0.0)):
        raise PrivacyError("a noise power is negative or not finite; give the power of the receiver's noise in W.")
    return np.asarray(power * 10.0 ** (-tolerance_db / 10.0))


def credited_amplitude(
    amplitude: ArrayLike, *, listener_advantage_db: float = 0.0, tolerance_db: float = 0.0
) -> NDArray[np.float64]:
    """A 10^((advantage + tolerance) / 20): the most that a listener may receive, over sqrt(nominal noise power).

    `amplitude` is that of the server at the nominal noise power; a listener may be received stronger by
    `listener_advantage_db`, in path gain, fade and gain of its antennas together, and its noise may be lower by
    `tolerance_db`. Channel inversion fixes A at the server alone: elsewhere the same power meets another fade, and the
    advantage has to cover the largest ratio of the two. Raises PrivacyError for values below 0.
    """
    _require_db(listener_advantage_db=listener_advantage_db, tolerance_db=tolerance_db)
    received = np.asarray(amplitude, np.float64)
    if not np.all(received >= 0.0):
        raise PrivacyError("an amplitude is negative or NaN; give received amplitudes A, without their signs.")
    return np.asarray(received * 10.0 ** ((listener_advantage_db + tolerance_db) / 20.0))


def soft_amplitude(rate: ArrayLike, *, listener_advantage_db: float = 0.0) -> NDArray[np.float64]:
    """Q^-1(p) 10^(advantage / 20): the amplitude over sqrt(noise power) of +-1 that errs with rate p in Gaussian noise.

    For uncoded BPSK and QPSK whose rate is p, this turns a credited rate into what a listener has who keeps the signal
    before the decision: `SuperposedBit(amplitude, entry_bound)` with the log odds ln((1 - p_A) / p_A) of the device's
    own flips, the Gaussian mechanism without any. Decided bits are a function of it, so that `FlippedBit` at the
    composed rate is never above it. math.inf at p = 0, where nothing is credited. Raises PrivacyError outside [0, 1].
    """
    from scipy.special import ndtri

    _require_db(listener_advantage_db=listener_advantage_db)
    p = np.asarray(rate, np.float64)
    if not np.all((p >= 0.0) & (p <= 1.0)):
        raise PrivacyError("a rate lies outside [0, 1]; give wrong bits per bit sent.")
    return np.asarray(np.abs(ndtri(p)) * 10.0 ** (listener_advantage_db / 20.0))


def listener_sentence(*, advantage_db: float = 0.0, tolerance_db: float = 0.0, decided_bits: bool = False) -> str:
    """The assumption on whoever listens that a claim resting on the channel's noise has to name."""
    _require_db(advantage_db=advantage_db, tolerance_db=tolerance_db)
    better = f"by at most {advantage_db:g} dB better than the server" if advantage_db else "no better than the server"
    noise = f", through noise of at most {tolerance_db:g} dB below its nominal power" if tolerance_db else ""
    sees = " and sees decided bits alone" if decided_bits else ""
    return f"whoever listens hears the devices {better}{noise}{sees}"


def may_credit(*, law: Law, outcome: Outcome | None = None) -> str | None:
    """None if bit errors of a link may count as independent flips, else the reason why not, in a sentence.

    The law of the link decides where it is known; where it is not, a test of counted errors must come out `fair`
    (`outcome`; None: not tested). A law that the counts contradict is not believed. Raises PrivacyError for words it
    does not know.
    """
    if law not in ("independent", "unknown", "dropped"):
        raise PrivacyError(f"law is {law!r}, but it must be 'independent', 'unknown' or 'dropped'; choose one.")
    if outcome not in ("fair", "unfair", "unknown", None):
        raise PrivacyError(f"outcome is {outcome!r}, but it must be 'fair', 'unfair' or 'unknown'; choose one.")
    if law == "dropped":
        return "packets with errors do not arrive, so that what does holds no error of the channel to be credited"
    if outcome == "unfair":
        return "the counted errors of this link are not those of independent flips, so that none of them is credited"
    if law == "independent" or outcome == "fair":
        return None
    tested = "no test of counted errors shows it" if outcome is None else "too few errors were counted to tell"
    return f"errors of this link need not be independent and {tested}, so that none of them is credited"


def independence_sentence(*, law: Law, outcome: Outcome | None = None) -> str:
    """On what independence rests, the assumption of a claim that credits errors; or why none is credited."""
    reason = may_credit(law=law, outcome=outcome)
    if reason is not None:
        return reason
    if law == "independent":
        return "bits err independently, by the law of the link"
    return "bits are taken to err independently because counted errors show nothing else, which is a test and no proof"


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
