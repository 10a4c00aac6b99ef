"""What the tests of the radio share: short ways to say a link, a payload and a statistical check."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phy.config import BITS_PER_SYMBOL, ChannelConfig, CsiError, LinkConfig, PowerConfig
from phy.fading.block_taps import UplinkContext

MODULATIONS = tuple(BITS_PER_SYMBOL)

ERRORS_OF_A_CHECK = 4.0
"""k: a measured mean lies within k standard errors of its prediction. A correct program fails one such
check in 16 000; seeds are fixed, so a test that passes once passes always."""


def link_config(
    modulation: str = "qpsk",
    *,
    snr_max_db: float = 10.0,
    fading: str = "constant",
    coherence: str = "round",
    policy: str = "fixed",
    access: str = "orthogonal",
    csi_error: float = 0.0,
    cutoff_db: float = -10.0,
    channel: dict[str, Any] | None = None,
    **link: Any,
) -> LinkConfig:
    """A link over a flat channel of unit gain and N0 = 1 unless `channel` says otherwise."""
    return LinkConfig(
        access=access,
        modulation=modulation,
        channel=ChannelConfig(fading=fading, coherence=coherence, **(channel or {})),
        power=PowerConfig(policy=policy, snr_max_db=snr_max_db, cutoff_db=cutoff_db),
        csi=CsiError(error_variance=csi_error) if csi_error else "perfect",
        **link,
    )


def context(trials: int | tuple[int, ...] = 1, *, seed: int = 2022, round_index: int = 0) -> UplinkContext:
    """The first `trials` trials, or the trials named."""
    which = tuple(range(trials)) if isinstance(trials, int) else trials
    return UplinkContext(seed=seed, trials=which, round_index=round_index)


def random_payload(num_trials: int, num_devices: int, num_bits: int, *, seed: int = 7) -> NDArray[np.uint8]:
    """Packed random bits `[num_trials, num_devices, ceil(num_bits / 8)]`, padding not zero."""
    shape = (num_trials, num_devices, -(-num_bits // 8))
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def random_bits(rows: int, length: int) -> NDArray[np.uint8]:
    """Random bits `[rows, length]`."""
    return np.random.default_rng(length).integers(0, 2, (rows, length), dtype=np.uint8)


def noisy_llrs(coded: NDArray[np.uint8], noise: float) -> NDArray[np.float32]:
    """ln(Pr(1) / Pr(0)) of bits sent as -1 and +1 in real noise of standard deviation `noise`."""
    signs = 2.0 * coded - 1.0
    received = signs + noise * np.random.default_rng(3).standard_normal(signs.shape)
    return (2.0 * received / noise**2).astype(np.float32)


def standard_errors_off(samples: NDArray[np.floating], expected: float) -> float:
    """Distance of the mean of independent, equally distributed samples from `expected`, in standard errors.

    Samples are whole blocks where bits share a fade, so that the spread already holds their dependence.
    """
    flat = np.asarray(samples, float).ravel()
    return float((flat.mean() - expected) / (flat.std(ddof=1) / np.sqrt(flat.size)))


def standard_errors_apart(first: NDArray[np.floating], second: NDArray[np.floating]) -> float:
    """Distance of two means of independent samples, in standard errors of their difference."""
    a, b = np.asarray(first, float).ravel(), np.asarray(second, float).ravel()
    return float((a.mean() - b.mean()) / np.sqrt(a.var(ddof=1) / a.size + b.var(ddof=1) / b.size))


def unpacked(payload: NDArray[np.uint8], num_bits: int) -> NDArray[np.uint8]:
    """`[..., num_bytes]` to `[..., num_bits]` in {0, 1}."""
    return np.unpackbits(payload, axis=-1, count=num_bits)


def frequency_correlation(delays_s: ArrayLike, powers: ArrayLike, offset_hz: ArrayLike) -> NDArray[np.complex128]:
    """E[H(f) conj(H(f + offset))] with H(f) = sum_p h_p exp(-2 pi i f tau_p) and uncorrelated paths, elementwise.

    It is sum_p P_p exp(2 pi i offset tau_p), so R(0) is the total power.
    """
    delays, power = np.asarray(delays_s, float), np.asarray(powers, float)
    turns = np.asarray(offset_hz, float)[..., None] * delays
    return np.asarray((power * np.exp(2j * np.pi * turns)).sum(axis=-1), np.complex128)
