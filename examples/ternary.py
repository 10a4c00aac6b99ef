"""An aggregation scheme of one's own: ternary quantization with error feedback, `aggregation: {name: ternary}`.

TernGrad, W. Wen et al., "TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning", NIPS 2017,
sends s t of an update v, s = max_i |v_i|, t in {-1, 0, 1}^M. What it leaves out is added to the device's next update
(F. Seide et al., Interspeech 2014; S. P. Karimireddy et al., ICML 2019):

    v = update + residual,   t_i = sign(v_i) if |v_i| > s / 2 else 0,   residual = v - s t.

Without error feedback t_i is random as in TernGrad, t_i = sign(v_i) with probability |v_i| / s, so that E[s t] = v.
That rounding does not suit error feedback: the variance |v_i| (s - |v_i|) of most numbers exceeds v_i^2, so that
residuals grow without limit.

An upload has 3 * 32 + 2 M bits: s as binary32 three times, then a bit per number for t_i != 0, then one for t_i < 0. A
bit error in t changes one number by s or 2 s. One in s could change all of them to 1e38: the server takes the majority
of the three copies bit by bit, and ignores a device whose s is negative, not finite or above `largest_scale`. Devices
clip v to that. A device does not learn whether its upload arrived: what was lost is not sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fl.base.fields import PositiveFloat
from fl.models.federated import Piece
from fl.schemes.coders.coder import Coder, Gathering, Known, Senders, checked_updates
from fl.schemes.scheme import Scheme, schemes
from phy.fading.block_taps import UplinkContext
from phy.numerics.draws import chosen, device_words
from phy.numerics.random import Purpose

_COPIES, _SCALE_BITS = 3, 32


@schemes.register
class Ternary(Scheme):
    """-1, 0 or 1 per number, times the largest of the update; the rest is added to the device's next update."""

    label: ClassVar[str] = "ternary"
    in_blocks: ClassVar[bool] = True

    name: Literal["ternary"] = "ternary"
    error_feedback: bool = True
    largest_scale: PositiveFloat = 1.0

    def upload_bits(self, num_values: int) -> int:
        """Three copies of the scale, and two bits per number."""
        return _COPIES * _SCALE_BITS + 2 * num_values

    def build(self, *, pieces: Sequence[Piece], receiver_limit: float | None = None) -> TernaryCoder:
        """Return the coder; `receiver_limit` is not used."""
        del receiver_limit
        return TernaryCoder(self, num_values=sum(piece.size for piece in pieces))

    @property
    def unbiased(self) -> bool:
        """Random rounding alone is unbiased."""
        return not self.error_feedback


class TernaryCoder(Coder):
    """Keeps the residual `[M]` of every device that has sent."""

    def __init__(self, scheme: Ternary, *, num_values: int) -> None:
        self.scheme, self.num_values = scheme, num_values
        self._residuals: dict[int, NDArray[np.float32]] = {}

    def encode(
        self, updates: NDArray[np.float32], *, devices: NDArray[np.int64], context: UplinkContext
    ) -> NDArray[np.uint8]:
        """See `Coder.encode`."""
        v = checked_updates(updates, devices=devices, num_values=self.num_values).copy()
        for row, device in enumerate(devices.tolist()):
            v[row] += self._residuals.get(device, np.float32(0.0))
        sent = np.clip(v, -self.scheme.largest_scale, self.scheme.largest_scale)
        scale = np.abs(sent).max(axis=1, keepdims=True)
        if self.scheme.error_feedback:
            nonzero = np.abs(sent) > 0.5 * scale
            left_out = v - np.where(nonzero, np.sign(sent) * scale, np.float32(0.0))
            self._residuals.update(zip(devices.tolist(), left_out, strict=True))
        else:
            words = device_words(context.keys(Purpose.ROUNDING)[0], devices=devices, count=self.num_values)
            nonzero = chosen(words, share=np.abs(sent) / np.where(scale > 0.0, scale, np.float32(1.0)))
        copies = np.tile(scale.astype(">f4").view(np.uint8), _COPIES)
        bits = [np.unpackbits(copies, axis=1), nonzero, sent < 0.0]
        return np.packbits(np.concatenate(bits, axis=1), axis=1)[None]

    def gather(self, senders: Senders) -> Gathering:
        """See `Coder.gather`."""
        return _Mean(senders, num_values=self.num_values, largest_scale=self.scheme.largest_scale)

    def state(self) -> dict[str, Any]:
        """Return the residuals of the devices that have sent: a checkpoint keeps them."""
        residuals = list(self._residuals.values())
        return {
            "devices": np.array(list(self._residuals), np.int64),
            "residuals": np.stack(residuals) if residuals else np.zeros((0, self.num_values), np.float32),
        }

    def restore(self, state: Any) -> None:
        """Continue with the residuals of a state."""
        self._residuals = dict(zip(state["devices"].tolist(), np.array(state["residuals"]), strict=True))


class _Mean(Gathering):
    """sum_k w_k s_k t_k over the devices of which a number arrived, device after device."""

    def __init__(self, senders: Senders, *, num_values: int, largest_scale: float) -> None:
        self._weights, self._largest = senders.weights, largest_scale
        self._total, self._heard, self._done = np.zeros(num_values), np.zeros(num_values), 0

    def add(self, payload: NDArray[np.uint8], *, known: Known) -> None:
        """See `Gathering.add`."""
        head, num_values = _COPIES * _SCALE_BITS, len(self._total)
        bits = np.unpackbits(payload[0], axis=1, count=head + 2 * num_values)
        votes = bits[:, :head].reshape(-1, _COPIES, _SCALE_BITS).sum(axis=1)
        with np.errstate(invalid="ignore"):  # bit errors may have made a NaN
            scale = np.packbits(2 * votes > _COPIES, axis=1).view(">f4")[:, 0].astype(np.float64)
        values = bits[:, head : head + num_values] * (1.0 - 2.0 * bits[:, head + num_values :])
        held = np.ones(values.shape, bool)
        if known is not None:
            held = known[:, :head].all(axis=1, keepdims=True) & known[:, head:].reshape(-1, 2, num_values).all(axis=1)
        for row, weight in enumerate(self._weights[self._done : self._done + len(bits)]):
            if 0.0 <= scale[row] <= self._largest:  # False for NaN
                self._total += weight * scale[row] * values[row] * held[row]
                self._heard += weight * held[row]
        self._done += len(bits)

    def update(self) -> NDArray[np.float32]:
        """See `Gathering.update`."""
        return (self._total / np.where(self._heard > 0.0, self._heard, 1.0)).astype(np.float32)
