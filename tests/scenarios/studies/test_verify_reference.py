"""The counts that `ldpc-five-iterations` cites, from a chain of Sionna's own blocks and nothing of ours."""

from __future__ import annotations

import numpy as np
import pytest

from scenarios.studies.verify.cards import load_card
from scenarios.studies.verify.kinds.rates import Rates


def block_errors(ebno_db: float, *, iterations: int, blocks: int) -> int:
    """QPSK over AWGN with the 5G LDPC code (1024, 512)."""
    import tensorflow as tf
    from sionna.phy import config
    from sionna.phy.channel import AWGN
    from sionna.phy.fec.ldpc import LDPC5GDecoder, LDPC5GEncoder
    from sionna.phy.mapping import BinarySource, Constellation, Demapper, Mapper
    from sionna.phy.utils import count_block_errors, ebnodb2no

    config.seed = 38212
    points = Constellation("qam", 2)
    source, channel = BinarySource(), AWGN()
    mapper, demapper = Mapper(constellation=points), Demapper("app", constellation=points)
    encoder = LDPC5GEncoder(512, 1024)
    decoder = LDPC5GDecoder(encoder, num_iter=iterations)

    @tf.function(jit_compile=True)
    def batch(noise_power: tf.Tensor) -> tf.Tensor:
        bits = source([1000, 512])
        received = channel(mapper(encoder(bits)), noise_power)
        return count_block_errors(bits, decoder(demapper(received, noise_power)))

    noise_power = ebnodb2no(ebno_db, 2, 0.5)
    return sum(int(batch(noise_power)) for _ in range(blocks // 1000))


@pytest.mark.parametrize(("iterations", "agrees"), [(5, True), pytest.param(4, False, marks=pytest.mark.slow)])
def test_sionnas_chain_has_the_rate_that_the_card_cites(iterations: int, agrees: bool) -> None:
    (expected,) = load_card("ldpc-five-iterations").config.expect
    assert isinstance(expected, Rates)
    q, cited = dict(expected.points)[3.75], 16_000
    blocks = 4000
    errors = block_errors(3.75, iterations=iterations, blocks=blocks)
    p = errors / blocks
    # k = 5 standard errors of both together: one seed in a million.
    close = abs(p - q) < 5.0 * np.sqrt(p * (1 - p) / blocks + q * (1 - q) / cited)
    assert close == agrees
