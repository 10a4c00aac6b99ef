"""Levels of numbers as symbols that add up in the air, see `fl.schemes.type_based`."""

from __future__ import annotations

import math

import numpy as np

from fl.arrays import F32, F64
from fl.schemes.coders.air import AirForm, Cover, Heard, OnAir, parts, unchanged
from fl.schemes.coders.coder import Senders, checked_updates
from fl.schemes.coders.value_coder import Part
from fl.schemes.coders.value_scheme import ValueScheme
from phy.numerics.workers import spans

_NUMBERS_AT_ONCE = 1 << 16


class Histogram(AirForm):
    """One symbol for each of `levels` `[L]` of each number, on the real or the imaginary axis.

    `code` turns a number to the place of its level.
    """

    distance = math.sqrt(2.0)

    def __init__(self, code: ValueScheme, *, levels: F64, num_values: int) -> None:
        self._code, self._levels, self._num_values = code, levels, num_values
        self._num_levels = len(levels)
        self.num_symbols = -(-num_values * self._num_levels // 2)
        self._amplitude = np.sqrt(self._num_levels / 2.0)

    def send(self, updates: F32, senders: Senders, *, cover: Cover = unchanged) -> OnAir:
        updates = checked_updates(updates, devices=senders.devices, num_values=self._num_values)
        part = Part(devices=senders.devices, first=0, context=senders.context)
        codes = self._code.to_codes(updates.copy(), part=part)
        payload = np.zeros((len(updates), 2 * self.num_symbols), np.float32)
        first = np.arange(self._num_values, dtype=np.int64) * self._num_levels
        np.put_along_axis(payload, first + codes, self._amplitude, axis=1)
        return OnAir(payload=payload.view(np.complex64), read=self._read)

    def _read(self, heard: Heard) -> F32:
        received = parts(heard.total)[: self._num_values * self._num_levels].reshape(self._num_values, -1)
        out = np.zeros(self._num_values, np.float32)
        for some in spans(self._num_values, step=_NUMBERS_AT_ONCE):
            found = np.rint(received[some] / self._amplitude).clip(0.0)
            devices = found.sum(axis=1)
            mean = found @ self._levels / np.maximum(devices, 1.0)
            out[some] = np.where(devices > 0.0, mean, 0.0)
        return out
