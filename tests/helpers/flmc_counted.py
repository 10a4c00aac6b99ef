"""The privacy loss of digital FLMC counted over draws of the noise: the paper's own way, Zhang et al. 2022 (16)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privacy.mechanisms._digital_tail import entry_loss
from privacy.rate_limits import rate_limit


@dataclass(frozen=True, kw_only=True)
class DeltaEstimate:
    """Counted Pr(L* > epsilon) with its Clopper-Pearson interval at the given confidence."""

    num_samples: int
    num_exceeding: int
    lower: float
    upper: float
    confidence: float

    @property
    def delta(self) -> float:
        """The estimate num_exceeding / num_samples."""
        return self.num_exceeding / self.num_samples

    @property
    def standard_error(self) -> float:
        """Binomial standard error, with one count added on each side so that it is never 0."""
        smoothed = (self.num_exceeding + 1) / (self.num_samples + 2)
        return math.sqrt(smoothed * (1 - smoothed) / self.num_samples)


def digital_loss(
    z: ArrayLike,
    *,
    amplitude: float,
    gradient_bound: float,
    quantizer_slope: float,
    num_devices: int,
    noise_power: float,
) -> NDArray[np.float64]:
    """L*(z) of Zhang et al. 2022 (16), for z [..., m] float -> [...] float64, in nats.

    z is noise at the receiver, of power noise_power per entry. The result never exceeds
    `digital_loss_bound`.
    """
    samples = np.asarray(z, dtype=np.float64)
    relative = min(max(amplitude / math.sqrt(noise_power), 1e-150), 1e150)
    entry_bound = quantizer_slope * gradient_bound
    w, shift = samples / math.sqrt(noise_power), relative * (num_devices - 1)
    above = entry_loss(w + shift, relative=relative, entry_bound=entry_bound).sum(axis=-1)
    below = entry_loss(w - shift, relative=relative, entry_bound=entry_bound).sum(axis=-1)
    # A sum of m rounded terms may exceed the exact bound by an ulp.
    bound = samples.shape[-1] * entry_bound
    loss: NDArray[np.float64] = np.minimum(np.maximum(np.abs(above), np.abs(below)), bound)
    return loss


def digital_delta_monte_carlo(
    epsilon: float,
    *,
    amplitude: float,
    dimension: int,
    gradient_bound: float,
    quantizer_slope: float,
    num_devices: int,
    noise_power: float,
    num_samples: int,
    rng: np.random.Generator,
    confidence: float = 0.95,
) -> DeltaEstimate:
    """Pr(L*(z) > epsilon) counted over num_samples draws of z: the paper's own way, Zhang et al. 2022 (16).

    The interval is Clopper-Pearson, two-sided.
    """
    chunk = max(1, (1 << 18) // dimension)
    exceeding = 0
    for start in range(0, num_samples, chunk):
        rows = min(chunk, num_samples - start)
        loss = digital_loss(
            rng.normal(scale=math.sqrt(noise_power), size=(rows, dimension)),
            amplitude=amplitude,
            gradient_bound=gradient_bound,
            quantizer_slope=quantizer_slope,
            num_devices=num_devices,
            noise_power=noise_power,
        )
        exceeding += int(np.count_nonzero(loss > epsilon))
    half = (1 - confidence) / 2
    return DeltaEstimate(
        num_samples=num_samples,
        num_exceeding=exceeding,
        lower=float(rate_limit(exceeding, num_samples, level=half)),
        upper=float(rate_limit(exceeding + 1, num_samples, level=1 - half)),
        confidence=confidence,
    )
