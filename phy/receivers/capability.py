"""Limits of receivers, checked before a run; free of TensorFlow."""

from __future__ import annotations

import math
from itertools import pairwise

from phy.config import BITS_PER_SYMBOL, LinkConfig
from phy.config.conflict import Conflict, LeaveOut, Say, Write
from phy.config.levels import listed_gains

MAX_COMBINATIONS = 4096
"""Largest number of symbol vectors of joint detection: 16 KiB of metrics per symbol."""

_CLEAR_STEP_DB = 0.1


def receiver_problem(config: LinkConfig) -> Conflict | None:
    """Return the conflict if the receiver cannot separate its users, else None."""
    if config.access != "noma":
        return None
    config = config.resolve_mcs()
    users, antennas, detector = config.noma.group_size, config.receiver.num_antennas, config.noma.detector
    if detector == "lmmse":
        if antennas < users:
            return Conflict(
                "noma.detector noma.group_size noma receiver.num_antennas noma.ladder_db access",
                f"noma.group_size {users} is more NOMA users than the receiver can separate: detector lmmse separates "
                f"as many as there are antennas, receiver.num_antennas is {antennas}",
                Write({"receiver.num_antennas": users}),
                Write({"noma.detector": "sic"}),
            )
        if config.receiver.equalizer == "zf":
            return Conflict(
                "noma.detector noma access",
                "noma.detector lmmse contradicts receiver.equalizer zf",
                LeaveOut("receiver.equalizer"),
                Write({"noma.detector": "sic"}),
            )
    if detector == "ml" and config.modulation in BITS_PER_SYMBOL:
        bits = BITS_PER_SYMBOL[config.modulation]
        if users * bits > math.log2(MAX_COMBINATIONS):
            fewer = int(math.log2(MAX_COMBINATIONS)) // bits
            return Conflict(
                "noma.detector noma.group_size noma access",
                f"joint detection of {users} users of {config.modulation} tries {2**bits}^{users} = "
                f"{2 ** (bits * users)} combinations per symbol, the limit is {MAX_COMBINATIONS}",
                Write({"noma.detector": "sic"}),
                Say("a smaller constellation"),
                *([Write({"noma.group_size": fewer})] if fewer > 1 else []),
            )
    if config.ofdm != "none" and config.ofdm.num_carriers < users:
        return Conflict(
            "noma.group_size noma noma.detector noma.ladder_db access",
            f"noma.group_size {users} is more than the {config.ofdm.num_carriers} carriers in use, and every user "
            "needs pilot carriers of its own",
            Write({"ofdm.num_subcarriers": config.ofdm.num_subcarriers + users - config.ofdm.num_carriers}),
        )
    return _equal_powers(config)


def _equal_powers(config: LinkConfig) -> Conflict | None:
    """The conflict of users of equal power over a static channel, which one antenna cannot separate."""
    separable = config.channel.fades or config.channel.cell is not None or config.receiver.num_antennas > 1
    if separable or config.control.closed_loop:
        return None
    users, unequal = config.noma.group_size, [config.channel.gain, config.power.written[1]]
    count = max((len(one) for one in unequal if isinstance(one, tuple)), default=users)
    ladder_db = [10.0 * math.log10(share) for share in config.noma.power_shares]
    # Inversion takes the gains out again; otherwise they come on top of the ladder.
    listed = listed_gains(config, count).tolist() if config.control.kernel == "constant" else [1.0] * users
    for first in range(0, len(listed) - users + 1, users):
        group = zip(ladder_db, listed[first : first + users], strict=True)
        arriving_db = sorted(level + 20.0 * math.log10(one) for level, one in group)
        step_db = min(upper - lower for lower, upper in pairwise(arriving_db))
        if step_db < _CLEAR_STEP_DB:
            return Conflict(
                "noma.ladder_db channel.gain noma access",
                f"two users of a NOMA group arrive within {step_db:.2g} dB of each other over a channel that does not "
                f"fade, at one antenna: at least {_CLEAR_STEP_DB} dB is needed to tell them apart",
                LeaveOut("noma.ladder_db") if config.noma.ladder_db else Write({"channel.gain": 1.0}),
            )
    return None
