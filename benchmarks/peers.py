"""scikit-commpy and pyldpc on the same chains, where they have them; both are optional (`pip install '.[peers]'`).

scikit-commpy has the same constellations, AWGN and Rayleigh fading per symbol, hard decisions and a Viterbi decoder of
the same code; it works on one array of symbols and knows no fading per block, no OFDM and no 5G code. pyldpc builds
regular codes of its own by Gallager's construction, here n = 8192 with 4 ones in a column and 8 in a row, decoded by
flooding belief propagation in float64, which ends once the block is a code word. It decodes noisy zeros, for its
encoder would have to find a dense generator matrix of that size first.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy as np
from coded import LDPC_ITERATIONS, LDPC_N, TRELLIS_K
from rivals import Chain, Rival

from phy.config import BITS_PER_SYMBOL

COMMPY_BITS = 3 << 14


def installed() -> dict[str, str]:
    """Versions of the peers that are here."""
    found = {}
    for package in ("scikit-commpy", "pyldpc"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def peer_of(chain: Chain) -> Callable[[], Rival] | None:
    """Who else does this chain; None where nobody does, or nobody is installed."""
    if chain.channel in ("AWGN", "Rayleigh per symbol") and find_spec("commpy"):
        return lambda: _commpy_uncoded(chain)
    if chain.channel == "trellis of 16 states" and find_spec("commpy"):
        return lambda: _commpy_trellis(chain)
    # Below 1.6 dB, the threshold of its regular code, there is nothing to compare: it hardly ever ends.
    if chain.channel == "LDPC" and chain.modulation == "qpsk" and chain.snr_db > 1.6 and find_spec("pyldpc"):
        return lambda: _pyldpc(chain)
    return None


def _commpy_uncoded(chain: Chain) -> Rival:
    """Bits drawn, mapped, faded, decided and packed; counts nothing."""
    from commpy.channels import SISOFlatChannel
    from commpy.modulation import PSKModem, QAMModem

    bits_per_symbol = BITS_PER_SYMBOL[chain.modulation]
    modem = PSKModem(2) if bits_per_symbol == 1 else QAMModem(2**bits_per_symbol)
    faded = chain.channel != "AWGN"
    channel = SISOFlatChannel(fading_param=(0j, 1.0) if faded else (1 + 0j, 0.0))
    # Its noise has a variance of noise_std^2 / 4 in each real dimension.
    channel.noise_std = float(np.sqrt(2.0 * modem.Es * 10.0 ** (-chain.snr_db / 10.0)))
    drawn = np.random.default_rng(1)

    def call() -> Any:
        bits = drawn.integers(0, 2, COMMPY_BITS)
        received = channel.propagate(modem.modulate(bits).astype(complex))
        if faded:
            received = received / channel.channel_gains
        return np.packbits(modem.demodulate(received, "hard"))

    return Rival(COMMPY_BITS, call)


def _commpy_trellis(chain: Chain) -> Rival:
    """The same code by its Viterbi decoder on unquantised values, one block."""
    from commpy.channelcoding import Trellis, conv_encode, viterbi_decode

    # Polynomials of Sionna's code of 16 states: 10011 and 11101.
    trellis = Trellis(np.array([4]), np.array([[0o23, 0o35]]))
    sigma = np.sqrt(0.5 * 10.0 ** (-chain.snr_db / 10.0))
    drawn = np.random.default_rng(1)

    def call() -> Any:
        coded = conv_encode(drawn.integers(0, 2, TRELLIS_K), trellis)
        received = 2.0 * coded - 1.0 + np.sqrt(2.0) * sigma * drawn.standard_normal(len(coded))
        decided = viterbi_decode(received, trellis, tb_depth=25, decoding_type="unquantized")
        return np.packbits(decided[:TRELLIS_K].astype(np.uint8))

    return Rival(TRELLIS_K, call)


def _pyldpc(chain: Chain) -> Rival:
    """One block of zeros in BPSK, noise, decoded and packed."""
    from pyldpc import decode
    from pyldpc.code import parity_check_matrix

    checks = parity_check_matrix(LDPC_N, 4, 8, seed=1)
    drawn = np.random.default_rng(1)
    sigma = 10.0 ** (-chain.snr_db / 20.0)  # a real dimension of QPSK at rate 1/2

    def call() -> Any:
        received = 1.0 + sigma * drawn.standard_normal(LDPC_N)
        return np.packbits(decode(checks, received, chain.snr_db, maxiter=LDPC_ITERATIONS).astype(np.uint8))

    return Rival(LDPC_N // 2, call)
