"""How well a chain mixes: effective sample size and split R-hat of every trial, from bounded memory.

Samples are kept as their deviations from the posterior mean, summed over blocks of equal length with their squares; a
chain short enough has blocks of one sample, and nothing is lost. Entry by entry, with s the length of a block, B the
number of blocks, n = s B, and sigma^2 the variance of samples:

- *Effective sample size*: sigma^2 over the variance of the mean, which is gamma_0 tau / B with gamma_k the
  autocovariances of block means and tau = -1 + 2 sum_k P_k, P_k = (gamma_2k + gamma_2k+1) / gamma_0 as long as they are
  positive, and no larger than the one before (Geyer 1992; Vehtari et al. 2021, (11)). At most n log10(n), for chains
  that jump about their mean. The trial has that of its worst entry.
- *Split R-hat*: both halves of a chain as chains of their own, N samples each: sqrt(((N - 1) W / N + V) / W) with W the
  mean of their variances and V the variance of their means (Gelman et al. 2013, 11.4). Near 1 where both halves agree;
  that of the worst entry.
"""

from __future__ import annotations

import numpy as np

from fl.base.arrays import F64, Bools
from fl.base.checkpoints import Kept

_NUMBERS = 1 << 18
"""Sums that a trial keeps of each kind."""
_FEWEST_BLOCKS = 64
_FEWEST = 4
"""Samples, two in each half, without which neither number exists."""


class ChainMixing(Kept):
    """Sums of blocks of `num_samples` samples at most, of chains `[num_trials, m]` about `mean` of the same shape."""

    kept = ("_sums", "_squares", "_counts")

    def __init__(self, mean: F64, *, num_samples: int) -> None:
        num_trials, m = mean.shape
        blocks, self._length = blocking(num_samples, dimension=m)
        self._mean = mean
        self._sums, self._squares = np.zeros((2, blocks, num_trials, m))
        self._counts = np.zeros((blocks, num_trials))

    def add(self, index: int, theta: F64, *, counted: Bools) -> None:
        """Sample number `index` `[num_trials, m]` of the trials that are `counted` `[num_trials]`."""
        block = index // self._length
        away = np.where(counted[:, None], theta - self._mean, 0.0)
        self._sums[block] += away
        self._squares[block] += away * away
        self._counts[block] += counted

    def summary(self) -> dict[str, F64]:
        """`effective_sample_size` and `split_rhat` of each trial `[num_trials]`, NaN where they do not exist."""
        num_trials = self._counts.shape[1]
        found = {name: np.full(num_trials, np.nan) for name in ("effective_sample_size", "split_rhat")}
        whole = (self._counts == self._length).sum(axis=0)
        for blocks in np.unique(whole):
            if blocks * self._length < _FEWEST or blocks < 2:
                continue
            those = np.flatnonzero(whole == blocks)
            # Blocks of an entry side by side: in another order of memory a sum depends on how many trials there are.
            sums, squares = (
                np.ascontiguousarray(part[:blocks, those].transpose(1, 2, 0)) for part in (self._sums, self._squares)
            )
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                size = effective_sample_size(sums, squares, length=self._length).min(axis=1)
                rhat = split_rhat(sums, squares, length=self._length).max(axis=1)
            found["effective_sample_size"][those] = np.where(np.isfinite(size), size, np.nan)
            found["split_rhat"][those] = np.where(np.isfinite(rhat), rhat, np.nan)
        return found


def blocking(num_samples: int, *, dimension: int) -> tuple[int, int]:
    """Number of blocks, and their length; the last one may be shorter, and then does not count."""
    most = max(_NUMBERS // dimension, _FEWEST_BLOCKS)
    length = -(-num_samples // most)
    return -(-num_samples // length), length


def effective_sample_size(sums: F64, squares: F64, *, length: int) -> F64:
    """Of chains `[..., B]` of sums and squares over blocks of `length` samples, `[...]`; see the module's head."""
    blocks, total = sums.shape[-1], sums.shape[-1] * length
    mean = sums.sum(axis=-1) / total
    variance = (squares.sum(axis=-1) - total * mean**2) / (total - 1)
    away = sums / length - mean[..., None]
    spectrum = np.fft.rfft(away, n=2 * blocks)
    gamma = np.fft.irfft(spectrum * spectrum.conj(), n=2 * blocks)[..., :blocks] / blocks
    pairs = gamma[..., : blocks // 2 * 2].reshape(*gamma.shape[:-1], -1, 2).sum(axis=-1) / gamma[..., :1]
    going = np.cumprod(pairs > 0.0, axis=-1)
    falling = np.minimum.accumulate(np.where(going > 0, pairs, np.inf), axis=-1)
    tau = -1.0 + 2.0 * np.where(going > 0, falling, 0.0).sum(axis=-1)
    of_mean = gamma[..., 0] * (blocks / (blocks - 1)) * np.maximum(tau, 1e-12) / blocks
    return np.asarray(np.minimum(variance / of_mean, total * np.log10(total)))


def split_rhat(sums: F64, squares: F64, *, length: int) -> F64:
    """Of chains as in `effective_sample_size`; of an odd number of blocks the middle one is left out."""
    half = sums.shape[-1] // 2
    count = half * length
    ends = ((slice(None, half)), slice(-half, None))
    means = np.stack([sums[..., part].sum(axis=-1) / count for part in ends])
    seconds = np.stack([squares[..., part].sum(axis=-1) for part in ends])
    within = ((seconds - count * means**2) / (count - 1)).mean(axis=0)
    return np.asarray(np.sqrt(((count - 1) / count * within + means.var(axis=0, ddof=1)) / within))
