"""5G LDPC decoding: fused kernels against Sionna's boxplus-phi of 20 flooding iterations under XLA, on the same LLRs.

    python benchmarks/ldpc.py

k = 4096, n = 8192 (base graph 1), QPSK over AWGN. At Eb/N0 1.2 dB ours runs a fixed number of iterations, at 3 dB it
stops at code words. Decoders take turns on the same float32 LLRs and hand back one byte per bit (ours) or one float
(Sionna). Blocks that only one of both decodes are counted (McNemar), and told with the 95 % interval of both error
rates. Exit 1 if a ratio is below its target, if ours loses more blocks than chance explains, or if the kernel has left
its vectors: an update of a message then takes longer than ten additions of 8-bit numbers in NumPy.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from scipy.stats import binomtest
from timing import interleaved_medians, print_table

from phy.coding.ldpc.decoder import LdpcDecoder
from phy.coding.ldpc.encoder import LdpcEncoder
from phy.coding.ldpc.plan import plan_ldpc

BLOCK_BITS, CODED_BITS, BITS_PER_SYMBOL = 4096, 8192, 2
FRAMES, BATCHES_COMPARED = 96, 6
SIONNA_ITERATIONS = 20
MOST_ADDITIONS = 10.0
PLAN = plan_ldpc(BLOCK_BITS, CODED_BITS, bits_per_symbol=BITS_PER_SYMBOL)


@dataclass(frozen=True)
class Point:
    """One row: a signal, how our decoder runs there, and how many times as fast it has to be."""

    ebno_db: float
    iterations: int
    early_stop: bool
    least_ratio: float

    @property
    def decoder(self) -> LdpcDecoder:
        """Ours."""
        return LdpcDecoder(plan=PLAN, iterations=self.iterations, early_stop=self.early_stop)


POINTS = (Point(1.2, 15, False, 50.0), Point(3.0, 20, True, 100.0))


def received(ebno_db: float, *, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Random blocks and their LLRs ln P(1)/P(0)."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (FRAMES, BLOCK_BITS), dtype=np.uint8)
    # A real dimension of QPSK: amplitude^2 over variance is 2 R Eb / N0.
    snr = np.float32(2.0 * BLOCK_BITS / CODED_BITS * 10 ** (ebno_db / 10))
    signs = 2.0 * LdpcEncoder(PLAN).encode(bits).astype(np.float32) - 1.0
    return bits, (2.0 * snr * (signs + rng.standard_normal(signs.shape, np.float32) / np.sqrt(snr))).astype(np.float32)


def sionna_decoder() -> Any:
    """LLRs to bits, compiled."""
    from sionna.phy.fec.ldpc import LDPC5GDecoder, LDPC5GEncoder

    encoder = LDPC5GEncoder(BLOCK_BITS, CODED_BITS, num_bits_per_symbol=BITS_PER_SYMBOL)
    decoder = LDPC5GDecoder(encoder, cn_update="boxplus-phi", num_iter=SIONNA_ITERATIONS, hard_out=True)
    compiled = tf.function(decoder.__call__, jit_compile=True)
    return lambda llrs: compiled(tf.constant(llrs)).numpy()


def error_rate(errors: int, blocks: int) -> str:
    """Counts, rate and its 95 % interval."""
    interval = binomtest(errors, blocks).proportion_ci(0.95, "exact")
    return f"{errors}/{blocks} [{interval.low:.4f}, {interval.high:.4f}]"


def additions_per_update() -> float:
    """Time of one message update on one thread in additions of 8-bit numbers, both at their fastest."""
    _, llrs = received(1.2, seed=0)
    # One group of frames is one task, and one task is run where it is called: on this thread.
    group = llrs[: LdpcDecoder(plan=PLAN, iterations=1).frames_per_group]
    old, new = np.zeros(1 << 20, np.int8), np.ones(1 << 20, np.int8)

    def fastest_s(call: Any) -> float:
        seconds = []
        for _ in range(200):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
        return min(seconds)

    few, many = (
        fastest_s(lambda count=count: LdpcDecoder(plan=PLAN, iterations=count, early_stop=False).decode(group))
        for count in (1, 21)
    )
    updates = 20 * len(group) * PLAN.num_edges * PLAN.lifting_size
    return (many - few) / updates / (fastest_s(lambda: np.add(old, new, out=old)) / old.size)


def compare(point: Point, sionna: Any) -> tuple[tuple[str, ...], bool]:
    """A row of the table, and whether it keeps what is promised."""
    _, llrs = received(point.ebno_db, seed=1)
    ours = point.decoder
    seconds = interleaved_medians({"ours": lambda: ours.decode(llrs), "sionna": lambda: sionna(llrs)}, repeats=7)
    wrong = []
    for seed in range(BATCHES_COMPARED):
        bits, values = received(point.ebno_db, seed=10 + seed)
        wrong.append([(decided != bits).any(axis=1) for decided in (ours.decode(values)[0], sionna(values))])
    mine, theirs = np.concatenate(wrong, axis=1)
    lost, won = int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
    ratio = seconds["sionna"] / seconds["ours"]
    row = (
        f"{point.ebno_db} dB, {point.iterations} iterations{', early stop' if point.early_stop else ''}",
        f"{FRAMES * BLOCK_BITS / seconds['ours'] / 1e6:.1f}",
        f"{FRAMES * BLOCK_BITS / seconds['sionna'] / 1e6:.2f}",
        f"{ratio:.0f} (>= {point.least_ratio:.0f})",
        error_rate(int(mine.sum()), len(mine)),
        error_rate(int(theirs.sum()), len(theirs)),
        f"{won} / {lost}",
    )
    return row, ratio >= point.least_ratio and lost - won <= 4.0 * np.sqrt(lost + won)


def main() -> int:
    """Print the table and the verdict."""
    sionna = sionna_decoder()
    found = [compare(point, sionna) for point in POINTS]
    header = (
        "median of 7 turns",
        "ours [Mbit/s]",
        "Sionna [Mbit/s]",
        "ratio",
        "our BLER",
        "Sionna's BLER",
        "won / lost",
    )
    print_table(header, [row for row, _ in found])
    additions = additions_per_update()
    print(f"a message update takes {additions:.1f} 8-bit additions of NumPy; allowed are {MOST_ADDITIONS:.0f}")
    return 0 if all(kept for _, kept in found) and additions <= MOST_ADDITIONS else 1


if __name__ == "__main__":
    sys.exit(main())
