"""Detectors that return soft bits of all users at once: single-user, linear, and successive by symbols.

Each is a function from an `Observation` to LLRs `[rows, users, num_symbols * bits_per_symbol]`. Filters, decisions and
LLRs are compiled calls of their own, since XLA computes a fused value once per reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import tensorflow as tf

from phy.receivers.combining import Layers, combine_alone, filter_in_turn, filter_together
from phy.receivers.demapping import SoftSymbols, bit_llrs, nearest_points
from phy.stages import Observation

Detector = Callable[[Observation], Any]


@dataclass(frozen=True, kw_only=True)
class DetectorSpec:
    """Compiled part of a receiver; `demapper` and `equalizer` as in the configuration."""

    modulation: str
    demapper: str
    equalizer: str
    num_users: int


@lru_cache(maxsize=32)
def demap_kernel(modulation: str, demapper: str) -> Any:
    """Compiled `bit_llrs`."""

    @tf.function(jit_compile=True, autograph=False)
    def demap(soft: SoftSymbols) -> Any:
        return bit_llrs(soft, modulation=modulation, demapper=demapper)

    return demap


@lru_cache(maxsize=32)
def linear(spec: DetectorSpec) -> Detector:
    """Maximum-ratio combining of a single user, or all users at once, each behind its LMMSE filter against the others.

    Alone, `lmmse` counts the variance of the channel estimate as noise and `zf` takes the estimate as true, so that
    they weigh soft bits differently; decisions of single symbols, and everything under perfect channel knowledge,
    coincide.
    """
    alone = partial(combine_alone, trusting=spec.equalizer == "zf")
    combine = tf.function(alone if spec.num_users == 1 else filter_together, jit_compile=True, autograph=False)
    demap = demap_kernel(spec.modulation, spec.demapper)

    def detect(observation: Observation) -> Any:
        return demap(combine(observation))

    return detect


@lru_cache(maxsize=32)
def sorted_layers(equalizer: str) -> Any:
    """Compiled: an `Observation` to (order of detection `[rows, users]` int32, `Layers` in this order).

    Strongest first by |h|^2 summed over the packet's symbols and antennas, equal powers by the user's number.
    """

    @tf.function(jit_compile=True, autograph=False)
    def order(channel: Any) -> Any:
        power = tf.reduce_sum(tf.math.real(channel) ** 2 + tf.math.imag(channel) ** 2, axis=(2, 3))
        number = tf.range(power.shape[1])
        stronger = power[:, None, :] > power[:, :, None]
        equal_and_earlier = (power[:, None, :] == power[:, :, None]) & (number[None, :] < number[:, None])
        rank = tf.reduce_sum(tf.cast(stronger | equal_and_earlier, tf.int32), axis=2)
        return tf.argsort(rank, axis=1)

    @tf.function(jit_compile=True, autograph=False)
    def layers(observation: Observation, turn: Any) -> Layers:
        ordered = observation._replace(
            channel=tf.gather(observation.channel, turn, axis=1, batch_dims=1),
            channel_error=tf.gather(observation.channel_error, turn, axis=1, batch_dims=1),
        )
        return filter_in_turn(ordered, equalizer=equalizer)

    def run(observation: Observation) -> tuple[Any, Layers]:
        turn = order(observation.channel)
        return turn, layers(observation, turn)

    return run


def cancel(soft: SoftSymbols, leakage: tuple[Any, ...], symbols: list[Any]) -> SoftSymbols:
    """A layer without the symbols decided before it, `symbols` in the order of detection."""
    matched = soft.matched
    for gain, decided in zip(leakage, symbols, strict=True):
        matched = matched - gain * decided
    return SoftSymbols(matched, soft.snr)


@lru_cache(maxsize=32)
def in_user_order() -> Any:
    """Compiled: values `[rows, users, ...]` in the order of detection back to the order of the users."""

    @tf.function(jit_compile=True, autograph=False)
    def restore(values: Any, turn: Any) -> Any:
        return tf.gather(values, tf.argsort(turn, axis=1), axis=1, batch_dims=1)

    return restore


@lru_cache(maxsize=32)
def successive(spec: DetectorSpec) -> Detector:
    """Successive interference cancellation symbol by symbol (Verdu, "Multiuser detection", 7.1).

    A user's symbol is decided to the nearest point behind its filter and subtracted as decided, right or wrong, before
    the next user is looked at; its LLRs are those of this stage, users not yet cancelled counted as noise.
    """
    demap = demap_kernel(spec.modulation, spec.demapper)
    filters = sorted_layers(spec.equalizer)

    @tf.function(jit_compile=True, autograph=False)
    def stage(soft: SoftSymbols, leakage: tuple[Any, ...], symbols: list[Any]) -> tuple[SoftSymbols, Any]:
        cleaned = cancel(soft, leakage, symbols)
        return cleaned, nearest_points(cleaned, modulation=spec.modulation)

    def detect(observation: Observation) -> Any:
        turn, layers = filters(observation)
        cleaned: list[SoftSymbols] = []
        symbols: list[Any] = []
        for soft, leakage in zip(layers.soft, layers.leakage, strict=True):
            layer, decided = stage(soft, leakage, symbols)
            cleaned.append(layer)
            symbols.append(decided)
        together = SoftSymbols(*(tf.stack(parts, axis=1) for parts in zip(*cleaned, strict=True)))
        return in_user_order()(demap(together), turn)

    return detect


def equalise(observation: Observation, *, spec: DetectorSpec, detector: str, decided: Any) -> Any:
    """Symbols x^ of unit mean energy behind the filter of the receiver, `[rows, users, num_symbols]` complex64.

    `decided` `[rows, users, num_symbols]`: the symbols that the receiver decided on. `sic-codeword` subtracts those of
    users before it; `sic` decides itself, symbol by symbol. Joint detection (`ml`) has no symbols of single users: here
    the decided symbols of all others are subtracted, x^_k = x_k + h_k^H (y - sum_j h_j x_j) / |h_k|^2.
    """
    if spec.num_users == 1:
        return _unbiased(combine_alone(observation, trusting=spec.equalizer == "zf"))
    if detector == "lmmse":
        return _unbiased(filter_together(observation))
    if detector == "ml":
        channel = observation.channel
        residual = observation.received - tf.reduce_sum(channel * decided[:, :, None], axis=1)
        matched = tf.reduce_sum(tf.math.conj(channel) * residual[:, None], axis=2)
        return decided + tf.math.divide_no_nan(matched, tf.reduce_sum(channel * tf.math.conj(channel), axis=2))
    turn, layers = sorted_layers(spec.equalizer)(observation)
    in_turn = tf.gather(decided, turn, axis=1, batch_dims=1)
    symbols: list[Any] = []
    cleaned: list[Any] = []
    for k, (soft, leakage) in enumerate(zip(layers.soft, layers.leakage, strict=True)):
        layer = cancel(soft, leakage, symbols)
        cleaned.append(_unbiased(layer))
        symbols.append(nearest_points(layer, modulation=spec.modulation) if detector == "sic" else in_turn[:, k])
    return in_user_order()(tf.stack(cleaned, axis=1), turn)


def _unbiased(soft: SoftSymbols) -> Any:
    return tf.math.divide_no_nan(soft.matched, tf.cast(soft.snr, tf.complex64))
