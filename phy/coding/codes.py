"""The codes of one block, each as `encode` and `decode` of a batch; Sionna's blocks wherever it has one.

A block code takes float32 bits `[n, block_bits]` to `[n, coded_block_bits]` and LLRs ln P(1)/P(0) back to hard bits.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any, Literal, Protocol

import numpy as np
import tensorflow as tf

from phy.coding.convolutional import polynomials_of
from phy.coding.kernel_codes import KernelCode, kernel_code
from phy.coding.plan import Coding, PacketPlan, ldpc_mother_bits
from phy.coding.polar.graph import PolarGraph
from phy.coding.repetition import Repetition
from phy.coding.trellis import TrellisEncoder
from phy.coding.turbo.sizes import TAIL_STEPS
from phy.config.coding import CodingConfig

_TURBO_LLR_MAX = 20.0
"""Sionna's BCJR decoder exponentiates sums of LLRs in float32; it bounds its own messages at the same value."""


class BlockCode(Protocol):
    """Code of one block length."""

    xla: bool
    """Encoder and decoder compile under XLA within seconds."""
    decoder_floats: int
    """Rough number of float32 the decoder holds per block."""

    def encode(self, bits: Any) -> Any:
        """`[n, block_bits]` float32 to `[n, coded_block_bits]` float32."""
        ...

    def decode(self, llrs: Any) -> Any:
        """`[n, coded_block_bits]` float32 to `[n, block_bits]` float32 in {0, 1}."""
        ...


def block_code(coding: Coding, plan: PacketPlan, *, bits_per_symbol: int, fused: bool) -> BlockCode:
    """The code of one block of `plan`; `fused` selects its kernels for a code that has them."""
    if coding == "none":
        return Repetition(plan.block_bits, plan.block_bits)
    if fused and coding.fusible:
        return OnHost(kernel_code(coding, plan, bits_per_symbol=bits_per_symbol), plan)
    if coding.only_in_kernels:
        raise ValueError(
            f"Sionna's blocks have code {coding.code} by Sionna's conventions, coding.standard is 3gpp; write "
            "coding.standard: sionna, or engine: auto"
        )
    if coding.code == "repetition":
        return Repetition(plan.block_bits, plan.coded_block_bits)
    if coding.code == "convolutional":
        return Convolutional(coding, plan)
    if coding.code == "turbo":
        return Turbo(coding, plan)
    if coding.code == "polar5g":
        return PolarGraph(plan.block_bits, plan.coded_block_bits, list_size=coding.list_size)
    return Ldpc(coding, plan, bits_per_symbol=bits_per_symbol)


class OnHost:
    """A code in kernels: they run on the host, called from the TensorFlow graph."""

    xla = False

    def __init__(self, code: KernelCode, plan: PacketPlan) -> None:
        self._code = code
        self._block_bits, self._coded_bits = plan.block_bits, plan.coded_block_bits
        # What the graph holds; values of the few code words under way are in the kernel's cache.
        self.decoder_floats = 2 * (plan.coded_block_bits + plan.block_bits)

    def encode(self, bits: Any) -> Any:
        coded = tf.numpy_function(self._code.encode, [tf.cast(bits, tf.uint8)], tf.uint8, stateful=False)
        coded.set_shape([bits.shape[0], self._coded_bits])
        return tf.cast(coded, tf.float32)

    def decode(self, llrs: Any) -> Any:
        decided = tf.numpy_function(self._code.decode, [llrs], tf.uint8, stateful=False)
        decided.set_shape([llrs.shape[0], self._block_bits])
        return tf.cast(decided, tf.float32)


class Convolutional:
    """Terminated feed-forward code, Viterbi on soft values (`ViterbiDecoder`)."""

    xla = True

    def __init__(self, coding: CodingConfig, plan: PacketPlan) -> None:
        from sionna.phy.fec.conv import ConvEncoder, ViterbiDecoder

        rate: Literal[2, 3] = 2 if coding.rate > 0.4 else 3
        length = coding.constraint_length
        chosen = polynomials_of(rate, length, standard=coding.standard)
        encoder = ConvEncoder(gen_poly=tuple(f"{one:0{length}b}" for one in chosen), terminate=True)
        self._encode = TrellisEncoder(encoder.gen_poly, recursive=False)
        self.decode = tf.function(ViterbiDecoder(encoder=encoder, method="soft_llr").__call__)
        states = 2 ** (length - 1)
        # Branch metrics, path metrics and traceback of every step.
        self.decoder_floats = (2**rate + 2 * states) * (plan.coded_block_bits // rate)

    def encode(self, bits: Any) -> Any:
        coded = self._encode(bits)
        return tf.reshape(coded, [coded.shape[0], -1])


class Turbo:
    """Turbo code as Sionna reads TS 36.212 5.1.3.2, terminated, `TurboDecoder` with the exact BCJR algorithm.

    The encoder is written out: Sionna's unrolls every bit, and takes 12 s to compile at 1024 bits where this one
    takes a fraction of a second.
    """

    xla = True

    def __init__(self, coding: CodingConfig, plan: PacketPlan) -> None:
        from sionna.phy.fec.turbo import TurboDecoder, TurboEncoder

        outputs: Literal[2, 3] = 2 if coding.rate > 0.4 else 3
        encoder = TurboEncoder(rate=1 / outputs, constraint_length=TAIL_STEPS + 1, terminate=True)
        self._component = TrellisEncoder(encoder.gen_poly, recursive=True)
        self._interleaver = encoder.internal_interleaver
        self._decoder = tf.function(TurboDecoder(encoder, num_iter=coding.iterations, algorithm="map").__call__)
        pattern = np.asarray(encoder.punct_pattern, bool)
        steps = plan.coded_block_bits // outputs
        self._sent = np.flatnonzero(np.resize(pattern, (steps, 3)).ravel())
        # Forward state probabilities, branch metrics and messages of every step, twice.
        self.decoder_floats = 2 * (2**TAIL_STEPS + 8) * steps

    def encode(self, bits: Any) -> Any:
        rows, length = bits.shape
        first, second = self._component(bits), self._component(self._interleaver(bits))
        body = tf.concat([first[:, :length], second[:, :length, 1:]], axis=2)
        tails = [tf.reshape(coded[:, length:], [rows, -1]) for coded in (first, second)]
        return tf.gather(tf.concat([tf.reshape(body, [rows, -1]), *tails], axis=1), self._sent, axis=1)

    def decode(self, llrs: Any) -> Any:
        # Sionna's decoder prints the type of its input whenever it is traced.
        with contextlib.redirect_stdout(io.StringIO()):
            return self._decoder(tf.clip_by_value(llrs, -_TURBO_LLR_MAX, _TURBO_LLR_MAX))


class Ldpc:
    """5G LDPC (TS 38.212 5.3.2) with rate matching and interleaver of 5.4.2, flooding belief propagation.

    Below rate 1/5 the code word of rate 1/5 is repeated cyclically, as the circular buffer of 5.4.2.1 does.
    """

    xla = True

    def __init__(self, coding: CodingConfig, plan: PacketPlan, *, bits_per_symbol: int) -> None:
        from sionna.phy.fec.ldpc import LDPC5GDecoder, LDPC5GEncoder

        mother_bits = ldpc_mother_bits(plan.block_bits, plan.coded_block_bits, bits_per_symbol)
        encoder = LDPC5GEncoder(plan.block_bits, mother_bits, num_bits_per_symbol=bits_per_symbol)
        # Sionna checks its first input only; here all inputs are bits.
        encoder._check_input = False
        filler = encoder.k_ldpc - encoder.k
        everything_sent = encoder.n_ldpc - filler - 2 * encoder.z == mother_bits
        decoder = LDPC5GDecoder(
            encoder,
            cn_update=coding.check_update,
            num_iter=coding.iterations,
            hard_out=True,
            return_infobits=True,
            # If all bits are sent, Sionna's pruning removes the whole graph.
            prune_pcm=not everything_sent,
        )
        self._encoder, self._decoder = tf.function(encoder.__call__), tf.function(decoder.__call__)
        self._repetition = Repetition(mother_bits, plan.coded_block_bits)
        # Messages in both directions and the temporaries of their update.
        self.decoder_floats = 6 * int(decoder.num_edges)

    def encode(self, bits: Any) -> Any:
        return self._repetition.encode(self._encoder(bits))

    def decode(self, llrs: Any) -> Any:
        return self._decoder(self._repetition.combine(llrs))
