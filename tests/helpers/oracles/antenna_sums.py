"""Sums at several antennas, slowly: every antenna, device and symbol in a loop, combiners by least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from phy.config import LinkConfig
from phy.fading.block_taps import UplinkContext, draw_normals
from phy.fading.gains import device_gains
from phy.numerics.random import Purpose

Complex = NDArray[np.complex128]


def rayleigh_taps(
    config: LinkConfig, context: UplinkContext, *, num_devices: int, num_blocks: int
) -> tuple[Complex, Complex]:
    """h and h^ `[trials, blocks, antennas, devices]`; Rayleigh fading, coherence below a run."""
    num_trials, num_antennas = len(context.trials), config.receiver.num_antennas
    gains = device_gains(config.channel, num_devices=num_devices, seed=context.seed, trials=context.trials)
    numbers = [k + (n << 26) for n in range(num_antennas) for k in range(num_devices)]
    of_rows = tf.constant(np.tile(np.array(numbers, np.uint32), num_trials))
    drawn = {}
    for purpose in (Purpose.CHANNEL, Purpose.CSI):
        keys = tf.constant(np.repeat(context.keys(purpose), len(numbers), axis=0))
        normals = draw_normals(keys, of_rows, tf.constant(np.arange(num_blocks, dtype=np.uint32))).numpy()
        each = normals.reshape(num_trials, num_antennas, num_devices, num_blocks).astype(complex)
        drawn[purpose] = np.moveaxis(each, 3, 1) * gains[:, None, None, :]
    estimate = drawn[Purpose.CHANNEL] + np.sqrt(config.csi_error_variance) * drawn[Purpose.CSI]
    return drawn[Purpose.CHANNEL], estimate


def combiner(estimate: Complex, *, combining: str, level: float, gains: NDArray[np.float64]) -> Complex:
    """f `[N]` for estimates `[N, K]` of the devices on the air, of root mean squares `gains` `[K]`."""
    num_antennas, num_devices = estimate.shape
    adjoint = np.conj(estimate).T
    if combining == "zf":
        return np.asarray(np.linalg.pinv(adjoint) @ np.ones(num_devices))
    if combining == "mmse":  # least squares of |H^^H f - 1|^2 + l |f|^2
        stacked = np.concatenate([adjoint, np.sqrt(level) * np.eye(num_antennas)])
        wanted = np.concatenate([np.ones(num_devices), np.zeros(num_antennas)])
        return np.asarray(np.linalg.lstsq(stacked, wanted, rcond=None)[0])
    total = np.array([sum(estimate[n, k] for k in range(num_devices)) for n in range(num_antennas)])
    if combining == "mrc":
        return total / np.sqrt(sum(abs(total[n]) ** 2 for n in range(num_antennas)))
    return total / (num_antennas * np.mean(gains**2))


def combined(
    payload: NDArray[Any],
    channel: Complex,
    estimate: Complex,
    *,
    config: LinkConfig,
    gains: NDArray[np.float64],
    level: float,
    on_air: NDArray[np.int64],
    jammers: tuple[int, ...] = (),
) -> tuple[Complex, NDArray[np.float64]]:
    """(f^H y without noise `[S]`, ||f||^2 `[S]`) of one trial: `payload` `[K, S]`, channels `[S, N, K]` of each symbol.

    Power policy fixed or inversion; `level` is that of power control.
    """
    combining, invert = config.receiver.combining, config.control.name == "inversion"
    noise = 2.0 * config.channel.noise_power / config.max_power
    noise += config.csi_error_variance * float((gains[on_air] ** 2).sum())
    out, power = np.zeros(payload.shape[1], complex), np.zeros(payload.shape[1])
    for s in range(payload.shape[1]):
        f = combiner(estimate[s][:, on_air], combining=combining, level=noise, gains=gains[on_air])
        power[s] = np.vdot(f, f).real
        y = np.zeros(len(f), complex)
        for k in on_air:
            known = np.vdot(f, estimate[s, :, k]) if combining == "mrc" else 1.0
            phase = np.conj(known) / abs(known)
            weight = level * (phase / abs(known) if invert else phase)
            if k in jammers:
                weight = np.sqrt(config.max_power) * phase
            for n in range(len(f)):
                y[n] += channel[s, n, k] * weight * payload[k, s]
        out[s] = np.vdot(f, y)
    return out, power
