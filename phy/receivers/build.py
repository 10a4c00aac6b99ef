"""Build the receiver that a link configuration describes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from phy.config import LinkConfig
from phy.receivers.capability import receiver_problem
from phy.receivers.codeword import CodewordCancellation
from phy.receivers.detectors import Detector, DetectorSpec, linear, successive
from phy.receivers.joint import joint
from phy.stages import ChannelCodec, Decoded, Observation, Receiver


@dataclass(frozen=True)
class DetectThenDecode:
    """Receiver whose detector does not use the code."""

    detect: Detector

    def receive(self, observation: Observation, *, codec: ChannelCodec, earlier_llrs: Any) -> Decoded:
        """See `Receiver.receive`; to be called inside a graph, whose parts are compiled here."""
        llrs = self.detect(observation)
        total = llrs if earlier_llrs is None else llrs + earlier_llrs
        rows, users, num_bits = llrs.shape
        bits, accepted = codec.decode(tf.reshape(total, [rows * users, num_bits]))
        return Decoded(tf.reshape(bits, [rows, users, -1]), tf.reshape(accepted, [rows, -1]), llrs)


def build_receiver(config: LinkConfig, *, num_users: int) -> Receiver:
    """Return the receiver of `num_users` devices on one resource; `config.modulation` names a constellation.

    `Decoded.llrs` are those of this attempt alone; earlier LLRs enter the decoder only. A silent user has LLRs of
    exactly 0 and does not disturb the others. Raises ValueError for a problem of `receiver_problem`.
    """
    problem = receiver_problem(config)
    if problem is not None:
        raise ValueError(problem)
    spec = DetectorSpec(
        modulation=config.modulation,
        # Without a code only signs count, and those of maxlog are the nearest point's.
        demapper="maxlog" if config.coding == "none" else config.coding.demapper,
        equalizer=config.receiver.equalizer,
        num_users=num_users,
    )
    if num_users == 1:
        return DetectThenDecode(linear(spec))
    if config.noma.detector == "sic-codeword":
        return CodewordCancellation(spec)
    return DetectThenDecode({"sic": successive, "ml": joint, "lmmse": linear}[config.noma.detector](spec))


def label_errors(llrs: Any, coded_bits: Any, *, bits_per_symbol: int) -> Any:
    """Errors of hard decisions before the decoder, by position in the label, `[rows, users, bits_per_symbol]` int32.

    `llrs` as `Decoded.llrs`, `coded_bits` the bits sent in the same shape, int32 in {0, 1}. Pure TensorFlow.
    """
    rows, users, num_bits = llrs.shape
    wrong = tf.cast(llrs > 0.0, tf.int32) != coded_bits
    by_label = tf.reshape(wrong, [rows, users, num_bits // bits_per_symbol, bits_per_symbol])
    return tf.reduce_sum(tf.cast(by_label, tf.int32), axis=2)
