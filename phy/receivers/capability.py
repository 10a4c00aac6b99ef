"""Limits of receivers, checked before a run; free of TensorFlow."""

from __future__ import annotations

import math
from itertools import pairwise

from phy.config import BITS_PER_SYMBOL, LinkConfig

MAX_COMBINATIONS = 4096
"""Largest number of symbol vectors of joint detection: 16 KiB of metrics per symbol."""

_CLEAR_STEP_DB = 0.1


def receiver_problem(config: LinkConfig) -> tuple[str, str] | None:
    """Return (problem, remedy) if the receiver cannot separate its users, else None."""
    if config.access != "noma":
        return None
    config = config.resolve_mcs()
    users, antennas, detector = config.noma.group_size, config.receiver.num_antennas, config.noma.detector
    if detector == "lmmse":
        if antennas < users:
            return (
                f"noma.group_size {users} is more NOMA users than the receiver can separate: detector lmmse separates "
                f"as many as there are antennas, receiver.num_antennas is {antennas}",
                f"write receiver.num_antennas: {users}, or noma.detector: sic",
            )
        if config.receiver.equalizer == "zf":
            return (
                "noma.detector lmmse contradicts receiver.equalizer zf",
                "leave receiver.equalizer out, or write noma.detector: sic",
            )
    if detector == "ml" and config.modulation in BITS_PER_SYMBOL:
        bits = BITS_PER_SYMBOL[config.modulation]
        if users * bits > math.log2(MAX_COMBINATIONS):
            return (
                f"joint detection of {users} users of {config.modulation} tries {2**bits}^{users} = "
                f"{2 ** (bits * users)} combinations per symbol, the limit is {MAX_COMBINATIONS}",
                "write noma.detector: sic, or a smaller constellation"
                + (
                    f", or noma.group_size: {int(math.log2(MAX_COMBINATIONS)) // bits}"
                    if 2 * bits <= math.log2(MAX_COMBINATIONS)
                    else ""
                ),
            )
    if config.ofdm != "none" and config.ofdm.num_carriers < users:
        return (
            f"noma.group_size {users} is more than the {config.ofdm.num_carriers} carriers in use, and every user "
            "needs pilot carriers of its own",
            f"write ofdm.num_subcarriers: {config.ofdm.num_subcarriers + users - config.ofdm.num_carriers}",
        )
    return _equal_powers(config)


def _equal_powers(config: LinkConfig) -> tuple[str, str] | None:
    """(problem, remedy) for users of equal power over a static channel, which one antenna cannot separate."""
    separable = config.channel.fades or config.channel.cell is not None or config.receiver.num_antennas > 1
    if separable or config.control.closed_loop:
        return None
    users, gain = config.noma.group_size, config.channel.gain
    ladder_db = [10.0 * math.log10(share) for share in config.noma.power_shares]
    # Inversion takes the gains out again; otherwise they come on top of the ladder.
    listed = gain if isinstance(gain, tuple) and config.control.kernel == "constant" else (1.0,) * users
    for first in range(0, len(listed) - users + 1, users):
        group = zip(ladder_db, listed[first : first + users], strict=True)
        arriving_db = sorted(level + 20.0 * math.log10(one) for level, one in group)
        step_db = min(upper - lower for lower, upper in pairwise(arriving_db))
        if step_db < _CLEAR_STEP_DB:
            return (
                f"two users of a NOMA group arrive within {step_db:.2g} dB of each other over a channel that does not "
                f"fade, at one antenna: at least {_CLEAR_STEP_DB} dB is needed to tell them apart",
                "leave noma.ladder_db out" if config.noma.ladder_db else "write channel.gain: 1.0",
            )
    return None
