"""Devices that do not do as they should: on the data, on the update, on the bits, on the air.

Each function acts on one place and leaves what its kind does not concern as it is, so that a round may call them all:

    poison_labels     data, before training              `labels`
    attack_updates    numbers, before they are encoded   `gaussian`, `sign-flip`, `scale`, `zero-gradient`, `duplicate`
    attack_bits       bits, after randomized response    `ones`, `invert`, `random`

Attackers know all honest updates of the round and send over the same link as everybody. Trials side by side, and
jammers, who act on symbols that add up in the air (`jam`), are in `fl.attacks.flmc_attackers`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fl.config.scheme import AttackConfig
from fl.draws import LANES, device_words, normals
from fl.tasks.base import LearningError
from phy.fading.block_taps import UplinkContext
from phy.numerics.random import Purpose, generator

NUMBER_KINDS = ("gaussian", "sign-flip", "zero-gradient", "duplicate", "scale")
"""Attacks on numbers before they are encoded."""

_NUMBERS_AT_ONCE = 1 << 18

_TO_HONEST = {"zero-gradient": "answers", "duplicate": "copies"}


def choose_attackers(config: AttackConfig, *, num_devices: int, seed: int, trial: int) -> NDArray[np.bool_]:
    """Who attacks, bool `[num_devices]`, for the whole trial.

    Of a `share` round(share K) devices, drawn without replacement, or with, so that some are drawn twice and fewer
    attack, as the CPA reference has it. Raises LearningError for devices that are not there, or where none is left that
    an attack on the honest ones needs.
    """
    attackers = np.zeros(num_devices, bool)
    if config.devices is not None:
        beyond = max(config.devices, default=-1)
        if beyond >= num_devices or len(config.devices) > num_devices:
            raise LearningError(
                f"attack.devices names {len(config.devices)} devices up to number {beyond}, but there are only "
                f"{num_devices}, from 0 to {num_devices - 1}; name some of these"
            )
        attackers[list(config.devices)] = True
    else:
        count = number_of(config, num_devices)
        drawn = generator(seed, trial, Purpose.ATTACK)
        attackers[drawn.choice(num_devices, count, replace=config.drawn == "with-replacement")] = True
    if config.kind == "sign-flip" and config.factor >= 0.0:
        raise LearningError(
            f"attack.factor {config.factor:g} leaves signs as they are; make it negative, or the kind scale"
        )
    if config.uses_honest_updates and attackers.all():
        raise LearningError(
            f"all {num_devices} devices attack, but {config.kind} {_TO_HONEST[config.kind]} honest ones; leave at "
            "least one"
        )
    return attackers


def number_of(config: AttackConfig, num_devices: int) -> int:
    """How many devices attack, at most where they are drawn with replacement."""
    if config.devices is not None:
        return len(set(config.devices))
    return math.floor((config.share or 0.0) * num_devices + 0.5)


def poison_labels(
    labels: NDArray[np.int64],
    *,
    samples: Sequence[NDArray[np.int64]],
    attackers: NDArray[np.bool_],
    num_classes: int,
) -> NDArray[np.int64]:
    """`labels` `[N]` with every label y of the attackers' `samples` (indices, per device) become num_classes - 1 - y.

    A data set has one label per sample: one that an honest device holds as well is wrong there too.
    """
    poisoned = labels.copy()
    for device in np.flatnonzero(attackers):
        own = samples[int(device)]
        poisoned[own] = num_classes - 1 - labels[own]
    return poisoned


def attack_updates(
    config: AttackConfig,
    updates: NDArray[np.float32],
    *,
    attackers: NDArray[np.bool_],
    devices: NDArray[np.int64],
    context: UplinkContext,
) -> NDArray[np.float32]:
    """What is encoded in place of `updates` `[K, M]` of `devices` `[K]`, where `attackers` `[K]` says so.

    `gaussian`: N(0, std^2), by device number; `sign-flip` and `scale`: `factor` times the honest update;
    `zero-gradient`: minus the sum of the honest ones over the number of attackers, so that all add up to 0;
    `duplicate`: the honest update that comes first. In a round without honest devices the last two send zeros and their
    own updates. Other kinds give back `updates` themselves.
    """
    lying = np.flatnonzero(attackers)
    if config.kind not in NUMBER_KINDS or not len(lying):
        return updates
    out = updates.copy()
    honest = np.flatnonzero(~attackers)
    if config.kind == "zero-gradient":
        total = np.zeros(updates.shape[1])
        for part in _chunks(len(honest), updates.shape[1]):
            total += updates[honest[part]].sum(axis=0, dtype=np.float64)
        out[lying] = (-total / len(lying)).astype(np.float32)
    elif config.kind == "duplicate":
        if len(honest):
            out[lying] = updates[honest[0]]
    elif config.kind == "gaussian":
        for part in _chunks(len(lying), updates.shape[1]):
            rows, count = lying[part], -(-updates.shape[1] // LANES) * LANES
            words = device_words(context.keys(Purpose.ATTACK)[0], devices=devices[rows], count=count)
            out[rows] = normals(words)[:, : updates.shape[1]] * np.float32(config.std)
    else:
        out[lying] *= np.float32(config.factor)
    return out


def attack_bits(
    config: AttackConfig,
    payload: NDArray[np.uint8],
    *,
    attackers: NDArray[np.bool_],
    devices: NDArray[np.int64],
    num_bits: int,
    context: UplinkContext,
) -> NDArray[np.uint8]:
    """What is sent in place of packed bits `[1, K, ceil(num_bits / 8)]`, after randomized response.

    `ones`: every bit 1; `invert`: every bit the other one; `random`: fair coins, by device number. Bits beyond
    `num_bits` stay as they are. Other kinds give back `payload` itself.
    """
    lying = np.flatnonzero(attackers)
    if config.kind not in ("ones", "invert", "random") or not len(lying):
        return payload
    meant = every_bit(num_bits)
    out = payload.copy()
    if config.kind == "invert":
        out[0, lying] ^= meant
    elif config.kind == "ones":
        out[0, lying] |= meant
    else:
        out[0, lying] = (payload[0, lying] & ~meant) | (_coins(devices[lying], payload.shape[-1], context) & meant)
    return out


def every_bit(num_bits: int) -> NDArray[np.uint8]:
    """`num_bits` ones, packed `[ceil(num_bits / 8)]`, padding zero."""
    meant = np.full(-(-num_bits // 8), 0xFF, np.uint8)
    if num_bits % 8:
        meant[-1] = (0xFF << (8 - num_bits % 8)) & 0xFF
    return meant


def _coins(devices: NDArray[np.int64], num_bytes: int, context: UplinkContext) -> NDArray[np.uint8]:
    """Fair coins `[K, num_bytes]`, eight in a byte."""
    count = -(-num_bytes // (4 * LANES)) * LANES
    words = device_words(context.keys(Purpose.ATTACK)[0], devices=devices, count=count)
    return np.ascontiguousarray(words).astype("<u4", copy=False).view(np.uint8)[:, :num_bytes]


def _chunks(num_rows: int, num_columns: int) -> list[slice]:
    height = max(_NUMBERS_AT_ONCE // max(num_columns, 1), 1)
    return [slice(first, min(first + height, num_rows)) for first in range(0, num_rows, height)]
