"""The contracts of fading laws and power policies. Their functions raise AssertionError with what breaks them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phy.config import ChannelConfig
from phy.config.fading import FadingLaw
from phy.config.power import PowerPolicy
from phy.numerics.lazy_tensorflow import tf
from phy.numerics.random import Purpose, round_keys

_TAILS = np.logspace(-20, np.log10(0.5), 200)
_DRAWS = 200_000


def the_quantile_function_rises(law: FadingLaw) -> None:
    """The quantile function is finite, positive and rises with the probability, down to tails of 1e-20."""
    if law.rician_k is not None:
        return
    low, high = law.quantile(_TAILS, upper=False), law.quantile(_TAILS, upper=True)[::-1]
    assert low.shape == high.shape == _TAILS.shape, f"the quantile function gives {low.shape} for {_TAILS.shape} tails"
    both = np.concatenate([low, high[1:]])
    assert np.isfinite(both).all(), "the quantile function is not finite for every tail"
    assert (both >= 0.0).all(), f"the quantile function is {both.min():.3g}, below 0"
    falls = int((np.diff(both) < -1e-12 * both[1:]).sum())
    assert not falls, f"the quantile function falls at {falls} of {len(both) - 1} places"
    assert np.isclose(low[-1], high[0], rtol=1e-6), f"the two halves meet at {low[-1]:.6g} and {high[0]:.6g}"


def the_mean_power_is_one(law: FadingLaw) -> None:
    """The mean of the power gain is 1 to a relative 1e-4: E exp(-x |h|^2) falls by x for small x."""
    if law.rician_k is not None:
        return
    x = 1e-4
    mean = float((1.0 - FadingLaw.mgf(law, np.array([x]))[0]) / x)
    second = float((1.0 - FadingLaw.mgf(law, np.array([2 * x]))[0]) / (2 * x))
    found = 2.0 * mean - second  # the term in x^2 cancels
    assert abs(found - 1.0) < 1e-4, f"the mean power gain is {found:.6g}, it must be 1"


def drawn_powers_follow_the_law(law: FadingLaw) -> None:
    """Taps drawn by the engines have mean power 1 within 5 standard errors, and follow the quantile function."""
    power = _drawn(law)
    error = power.std() / np.sqrt(len(power))
    assert abs(power.mean() - 1.0) <= 5.0 * error + 1e-5, f"mean power {power.mean():.5f}, standard error {error:.1g}"
    if law.rician_k is not None:
        return
    for share in (0.001, 0.01, 0.1, 0.5, 0.9, 0.99):
        upper = share > 0.5
        limit = float(law.quantile(np.array([1.0 - share if upper else share]), upper=upper)[0]) ** 2
        below = float((power <= limit).mean())
        allowed = 5.0 * np.sqrt(share * (1.0 - share) / len(power))
        assert abs(below - share) <= allowed, f"a share {below:.5f} lies below the quantile of {share}"


def _drawn(law: FadingLaw) -> NDArray[np.float64]:
    """Return power gains of single fades, `[_DRAWS]`."""
    from phy.fading.build import build_propagation

    own = law.model_dump(exclude={"name"})  # parameters of the known laws stand beside `fading`
    beside = {"fading": law.name, **own} if own.keys() <= ChannelConfig.model_fields.keys() else {"fading": law}
    channel = ChannelConfig.model_validate({**beside, "coherence": "round"})
    keys = round_keys(7, tuple(range(_DRAWS)), Purpose.CHANNEL, 1)
    taps = build_propagation(channel, num_antennas=1).taps(tf.constant(keys), tf.zeros([_DRAWS, 1], tf.float32))
    power: NDArray[np.float64] = np.abs(np.asarray(taps)).astype(np.float64).ravel() ** 2
    return power


FADING = (the_quantile_function_rises, the_mean_power_is_one, drawn_powers_follow_the_law)

_GAINS = np.logspace(-6, 3, 97)


def amplitudes_are_finite_and_not_negative(policy: PowerPolicy) -> None:
    """Transmit amplitudes are finite and not negative for every channel gain."""
    found = np.asarray(policy.amplitude(_GAINS, np.ones_like(_GAINS), np))
    assert found.shape == _GAINS.shape, f"amplitudes have shape {found.shape}, gains {_GAINS.shape}"
    assert np.isfinite(found).all(), f"amplitudes are not finite at gain {_GAINS[~np.isfinite(found)][:1]}"
    assert (found >= 0.0).all(), f"the amplitude is {found.min():.3g} at gain {_GAINS[int(np.argmin(found))]:.3g}"
    assert found.any(), "no device ever sends"
    assert policy.silences or found.all(), f"the amplitude is 0 at gain {_GAINS[found == 0][0]:.3g}, without `silences`"


def both_libraries_give_the_same_amplitudes(policy: PowerPolicy) -> None:
    """TensorFlow gives the amplitudes that NumPy gives, to 1e-6."""
    gains = _GAINS.astype(np.float32)
    ours = np.asarray(policy.amplitude(gains, np.ones_like(gains), np))
    theirs = np.asarray(policy.amplitude(tf.constant(gains), tf.ones_like(gains), tf))
    worst = float(np.abs(ours - theirs).max(initial=0.0) / np.abs(ours).max())
    assert worst < 1e-6, f"amplitudes differ by {worst:.2g} of the largest"


POLICY = (amplitudes_are_finite_and_not_negative, both_libraries_give_the_same_amplitudes)
