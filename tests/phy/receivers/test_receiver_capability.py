"""Limits of receivers: checked without TensorFlow, with problem and remedy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from phy.config import ChannelConfig, LinkConfig, NomaConfig, OfdmConfig, PowerConfig, ReceiverConfig
from phy.receivers.build import build_receiver
from phy.receivers.capability import receiver_problem


def noma(
    detector: str = "sic",
    *,
    modulation: str = "qpsk",
    users: int = 2,
    ladder_db: tuple[float, ...] | None = None,
    antennas: int = 1,
    equalizer: str = "lmmse",
    channel: dict[str, Any] | None = None,
    policy: str = "fixed",
    **link: Any,
) -> LinkConfig:
    return LinkConfig(
        access="noma",
        modulation=modulation,
        noma=NomaConfig(group_size=users, detector=detector, ladder_db=ladder_db),
        receiver=ReceiverConfig(num_antennas=antennas, equalizer=equalizer),
        channel=ChannelConfig(**(channel or {})),
        power=PowerConfig(policy=policy),
        **link,
    )


EQUAL = {"ladder_db": (0.0, 0.05)}

IMPOSSIBLE = {
    "fewer antennas than users": (
        noma("lmmse", users=3, antennas=2),
        ["group_size 3 is more NOMA users than the receiver can separate", "num_antennas is 2", "num_antennas: 3"],
    ),
    "zero forcing by name, LMMSE by detector": (
        noma("lmmse", antennas=2, equalizer="zf"),
        ["lmmse contradicts receiver.equalizer zf"],
    ),
    "too many combinations": (
        noma("ml", modulation="16qam", users=4),
        ["16^4 = 65536", "limit is 4096", "noma.group_size: 3"],
    ),
    "too large a constellation for any group": (
        noma("ml", modulation="256qam"),
        ["256^2 = 65536", "smaller constellation"],
    ),
    "a constellation named by its MCS": (noma("ml", modulation="auto", mcs=20, users=3), ["64^3 = 262144"]),
    "fewer carriers than users": (
        noma(users=5, ofdm=OfdmConfig(num_subcarriers=4, cyclic_prefix_length=0)),
        ["group_size 5 is more than the 4 carriers"],
    ),
    "equal powers on one still antenna": (noma(**EQUAL), ["within 0.05 dB", "at least 0.1 dB", "ladder_db"]),
    "equal powers for joint detection": (noma("ml", ladder_db=(0.0, 0.0)), ["within 0 dB"]),
    "gains that undo the ladder": (
        noma(ladder_db=(6.0, 0.0), channel={"gain": (4.0, 1.0, 1.0, 10.0**0.3)}),
        ["within", "tell them apart"],
    ),
}

POSSIBLE = {
    "orthogonal access": LinkConfig(access="orthogonal", modulation="qpsk"),
    "as many antennas as users": noma("lmmse", users=3, antennas=3),
    "as many combinations as the limit": noma("ml", modulation="16qam", users=3),
    "the default ladder": noma("sic-codeword", users=8),
    "equal powers that fading separates": noma(**EQUAL, channel={"fading": "rayleigh"}),
    "equal powers that antennas tell apart": noma(**EQUAL, antennas=2),
    "equal powers that positions tell apart": noma(**EQUAL, channel={"cell": {}}),
    "equal powers that a loop moves": noma(**EQUAL, policy="closed-loop"),
    "gains that make the ladder": noma(ladder_db=(0.0, 0.0), channel={"gain": (2.0, 1.0)}),
    "gains that inversion takes out": noma(ladder_db=(6.0, 0.0), channel={"gain": (1.0, 2.0)}, policy="inversion"),
    "a modulation not yet known": noma("ml", modulation="auto", users=8),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_users_that_cannot_be_separated_are_an_error_with_value_limit_and_remedy(case: str) -> None:
    config, expected = IMPOSSIBLE[case]
    problem = receiver_problem(config)
    assert problem is not None
    sentence = str(problem)
    for words in expected:
        assert words in sentence


@pytest.mark.parametrize("case", POSSIBLE)
def test_separable_users_are_no_problem(case: str) -> None:
    assert receiver_problem(POSSIBLE[case]) is None


def test_gains_that_inversion_takes_out_matter_at_fixed_power() -> None:
    assert receiver_problem(noma(ladder_db=(6.0, 0.0), channel={"gain": (1.0, 2.0)})) is not None


def test_no_receiver_is_built_for_inseparable_users() -> None:
    with pytest.raises(ValueError, match="more NOMA users than the receiver can separate"):
        build_receiver(noma("lmmse", users=3, antennas=2), num_users=3)


def test_checking_needs_no_tensorflow() -> None:
    code = "import sys; from phy.receivers.capability import receiver_problem; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
