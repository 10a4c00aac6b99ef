"""The contract of power policies. Its functions raise AssertionError with the numbers that break it."""

from __future__ import annotations

import numpy as np

from phy.config.power import PowerPolicy
from phy.numerics.lazy_tensorflow import tf

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


CHECKS = (amplitudes_are_finite_and_not_negative, both_libraries_give_the_same_amplitudes)
