"""Updates as symbols that add up in the air, and the one update that their sum stands for.

    y[s] / A = sum_k x_k[s] + z[s] / A,    A the receive amplitude, z the receiver's noise

is what the server has of the symbols x_k[s] of the K senders, of mean power 1 at most. An `AirForm` says which symbols
stand for an update, and which update a sum stands for: amplitudes for a mean (analog AirComp), or for the mean of what
bits stand for; signs for a vote, one of several symbols for a histogram.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32, F64, U8
from fl.schemes.coders.coder import Coder, Senders, checked_updates
from phy.numerics.workers import spans

Cover = Callable[[U8], U8]
"""What privacy and attackers make of packed bits `[K, num_bytes]`."""
Complex = NDArray[np.complexfloating[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What the server has of a round.

    - `total` `[S]` complex128: y / A times K / K_a, the estimate of sum_k x_k over the K senders of whom K_a were on
      the air; 0 where none was;
    - `noise_power`: variance of its real part, and of its imaginary part, by the receiver's noise.
    """

    total: NDArray[np.complex128]
    noise_power: float


@dataclass(frozen=True, kw_only=True)
class SentAmplitudes:
    """What the senders of a round send, and how the server reads their sum.

    - `payload` `[K, S]` complex64, or packed bits `[K, ceil(M / 8)]`;
    - `read`: `Heard` to the update `[M]` float32;
    - `gain`: of amplitudes, the factor from the real or imaginary part of the sum to a number of the update;
    - `size`: norm of the largest update, by which the receiver's noise in the update scales; 1 if it does not.
    """

    payload: NDArray[Any]
    read: Callable[[Heard], F32]
    gain: float | None = None
    size: float = 1.0


def unchanged(bits: U8) -> U8:
    """Return bits that nothing covers."""
    return bits


class AirForm(ABC):
    """Symbols that stand for updates of M numbers; `bits`: they are those of packed bits, one per number."""

    bits = False
    coder: Coder | None = None
    """Of the scheme whose bits are sent, in whatever form."""
    num_symbols: int
    """Complex symbols of an upload; of `bits` known to the link alone."""
    distance = 2.0
    """Largest distance of two uploads x, x' of S symbols: ||x - x'|| over sqrt(S)."""

    follows_updates = False
    """True if the scale of symbols follows the updates of a round, unless these are `clipped`."""

    def clipped(self, clip: float | None) -> AirForm:
        """Return the form of updates that are clipped to an l2 norm; where nothing follows updates, this one."""
        return self

    @abstractmethod
    def send(self, updates: F32, senders: Senders, *, cover: Cover = unchanged) -> SentAmplitudes:
        """Return what `senders` send for their updates `[K, M]`, with `cover` on its bits if there are any.

        Raises LearningError for NaN and infinity.
        """


class Amplitudes(AirForm):
    """Analog AirComp: sum_k w_k g_k of updates g_k `[M]` as the real and imaginary parts of amplitudes.

        x_k = u w_k g_k / w_max,    u = sqrt(S) / max_k ||w_k g_k / w_max||

    With S = ceil(M / 2) symbols nobody's mean power exceeds 1. Every device must know u, and the server too: one number
    per device and round on a control channel, which is taken to be free of errors and of cost. With `clip` updates are
    scaled to this l2 norm at most, and u = sqrt(S) / clip is known before: the largest norm of a round stays secret.
    """

    follows_updates = True

    def __init__(self, num_values: int, *, clip: float | None = None) -> None:
        self._num_values, self.num_symbols, self._clip = num_values, -(-num_values // 2), clip

    def clipped(self, clip: float | None) -> Amplitudes:
        return Amplitudes(self._num_values, clip=clip)

    def send(self, updates: F32, senders: Senders, *, cover: Cover = unchanged) -> SentAmplitudes:
        updates = checked_updates(updates, devices=senders.devices, num_values=self._num_values)
        shares = senders.weights / max(senders.weights.max(initial=0.0), np.finfo(float).tiny)
        norms = np.sqrt(np.einsum("km,km->k", updates, updates, dtype=np.float64))
        if self._clip is None:
            largest, scales = (shares * norms).max(initial=0.0), shares
        else:
            largest, scales = self._clip, shares * np.minimum(1.0, self._clip / np.maximum(norms, self._clip))
        unit = np.sqrt(self.num_symbols) / largest if largest > 0.0 else 1.0
        gain = 1.0 / (unit * shares.sum()) if len(updates) else 1.0
        padded = np.zeros((len(updates), 2 * self.num_symbols), np.float32)
        np.multiply(updates, (unit * scales)[:, None].astype(np.float32), out=padded[:, : self._num_values])

        def read(heard: Heard) -> F32:
            return np.asarray(parts(heard.total)[: self._num_values] / (unit * shares.sum()), np.float32)

        return SentAmplitudes(payload=padded.view(np.complex64), read=read, gain=gain, size=float(largest))


class Coded(AirForm):
    """The bits of a scheme, in whatever form they are sent."""

    coder: Coder

    def __init__(self, coder: Coder, *, num_values: int) -> None:
        self.coder, self.num_values = coder, num_values

    def encode(self, updates: F32, senders: Senders, *, cover: Cover) -> U8:
        """Return the packed bits of a round after `cover`, `[K, num_bytes]`."""
        self.coder.begin(senders.context, devices=senders.devices, flip_rate=np.zeros(len(senders.devices)))
        return cover(self.coder.encode(updates, devices=senders.devices, context=senders.context)[0])


class DecodedAmplitudes(Coded):
    """The numbers that the server would read from each device's bits, as amplitudes: it needs their mean alone.

    A device decodes its own bits after privacy, with the codewords and the dither that it shares with the server. What
    it sends is a function of its bits, and reveals no more than they do.
    """

    follows_updates = True

    def __init__(self, coder: Coder, *, num_values: int, rows_at_once: int = 1, clip: float | None = None) -> None:
        super().__init__(coder, num_values=num_values)
        self._rows_at_once, self._amplitudes = rows_at_once, Amplitudes(num_values, clip=clip)
        self.num_symbols = self._amplitudes.num_symbols

    def clipped(self, clip: float | None) -> DecodedAmplitudes:
        return DecodedAmplitudes(self.coder, num_values=self.num_values, rows_at_once=self._rows_at_once, clip=clip)

    def send(self, updates: F32, senders: Senders, *, cover: Cover = unchanged) -> SentAmplitudes:
        bits = self.encode(updates, senders, cover=cover)
        numbers = np.empty((len(bits), self.num_values), np.float32)
        for rows in spans(len(bits), step=self._rows_at_once):
            whose = replace(
                senders, devices=senders.devices[rows], weights=senders.weights[rows], factor=senders.factor[rows]
            )
            numbers[rows] = self.coder.read(bits[None, rows], whose)
        return self._amplitudes.send(numbers, senders)


class Votes(Coded):
    """The bits of a scheme as signs, one vote per device and bit, whatever its weight; see `Coder.of_votes`."""

    bits = True
    num_symbols = 0

    def send(self, updates: F32, senders: Senders, *, cover: Cover = unchanged) -> SentAmplitudes:
        payload = self.encode(updates, senders, cover=cover)

        def read(heard: Heard) -> F32:
            count = len(senders.devices)
            mean = -parts(heard.total, of_bits=self.num_values) / count  # BPSK sends bit 0 as +1
            return self.coder.of_votes(mean, senders, noise_power=heard.noise_power / count**2)

        return SentAmplitudes(payload=payload, read=read)


def parts(symbols: Complex, *, of_bits: int | None = None) -> F64:
    """Real and imaginary parts of symbols `[S]` side by side, `[2 S]`; of bits, whose one or two per symbol they are.

    `of_bits` `[M]` numbers: of M symbols the real parts (BPSK), of ceil(M / 2) both parts times sqrt(2) (QPSK).
    """
    both = np.ascontiguousarray(symbols, np.complex128)
    if of_bits is None:
        return both.view(np.float64)
    return np.asarray(both.real if len(both) == of_bits else np.sqrt(2.0) * both.view(np.float64)[:of_bits])


def qpsk_symbols(payload: U8, *, num_bits: int) -> NDArray[np.complex64]:
    """Symbols `[..., ceil(num_bits / 2)]` of packed bits: (+-1 +- j) / sqrt(2), the first bit real; bit 0 is +1."""
    signs = np.ones((*payload.shape[:-1], 2 * -(-num_bits // 2)), np.float32)
    signs[..., :num_bits] -= 2.0 * np.unpackbits(payload, axis=-1, count=num_bits)
    signs *= np.float32(np.sqrt(0.5))
    return signs.view(np.complex64)
