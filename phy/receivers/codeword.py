"""Successive cancellation of whole packets: decode, encode again, map again, subtract."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import tensorflow as tf

from phy.coding.modulation import modulator
from phy.receivers.demapping import SoftSymbols
from phy.receivers.detectors import DetectorSpec, cancel, demap_kernel, in_user_order, sorted_layers
from phy.stages import ChannelCodec, Decoded, Observation


@lru_cache(maxsize=32)
def _kernels(spec: DetectorSpec) -> tuple[Any, Any]:
    @tf.function(jit_compile=True, autograph=False)
    def clean(soft: SoftSymbols, leakage: tuple[Any, ...], symbols: list[Any]) -> SoftSymbols:
        return cancel(soft, leakage, symbols)

    demap = demap_kernel(spec.modulation, spec.demapper)

    @tf.function(jit_compile=True, autograph=False)
    def remap(coded: Any) -> Any:
        return modulator(spec.modulation).modulate_bits(coded)

    def stage(soft: SoftSymbols, leakage: tuple[Any, ...], symbols: list[Any]) -> Any:
        return demap(clean(soft, leakage, symbols))

    return stage, remap


@dataclass(frozen=True)
class CodewordCancellation:
    """Successive cancellation from the strongest to the weakest user, with decoding before subtraction.

    The decoded packet is subtracted even if its CRC fails: a wrong packet disturbs the next user.
    LLRs of earlier attempts help each user's decoding at its stage.
    """

    spec: DetectorSpec

    def receive(self, observation: Observation, *, codec: ChannelCodec, earlier_llrs: Any) -> Decoded:
        """See `Receiver.receive`; to be called inside a graph, since a codec may not compile."""
        stage, remap = _kernels(self.spec)
        turn, layers = sorted_layers(self.spec.equalizer)(observation)
        earlier = None if earlier_llrs is None else tf.gather(earlier_llrs, turn, axis=1, batch_dims=1)
        symbols: list[Any] = []
        packets = []
        for k, (soft, leakage) in enumerate(zip(layers.soft, layers.leakage, strict=True)):
            llrs = stage(soft, leakage, symbols)
            bits, accepted = codec.decode(llrs if earlier is None else llrs + earlier[:, k])
            symbols.append(remap(codec.encode(bits)))
            packets.append((bits, accepted, llrs))
        restore = in_user_order()
        return Decoded(*(restore(tf.stack(parts, axis=1), turn) for parts in zip(*packets, strict=True)))
