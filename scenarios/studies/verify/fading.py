"""Cards on the channel itself: delays and powers of its taps, and how it moves in time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from phy.config import ChannelConfig
from scenarios.schema.loader import LoadedScenario
from scenarios.studies.verify.check import CONFIDENCE, Check
from scenarios.studies.verify.config import DopplerCorrelation, PowerDelayProfile

_ROWS = 4096
"""Realisations drawn in one call."""
_ROUNDING = 1e-4
"""Sionna keeps delays in single precision."""


def measure_profile(loaded: LoadedScenario, expected: PowerDelayProfile, *, resolves_db: float) -> Iterator[Check]:
    """Mean power of every tap (the one farthest off is shown), and their delays."""
    channel = loaded.scenario.link.channel
    taps = _Taps(channel, seed=loaded.scenario.seed)
    powers = 10.0 ** (np.asarray(expected.powers_db) / 10.0)
    powers = powers / powers.sum()
    delays = taps.delays_s / channel.delay_spread_s
    if len(delays) != len(powers):
        raise ValueError(f"{channel.model} has {len(delays)} taps, the card lists {len(powers)}")
    width = np.inf
    drawn: list[NDArray[np.float64]] = []
    # Largest relative spread of a tap's power is that of a Rayleigh one, 1; its interval is twice z / sqrt(n) wide.
    while width > resolves_db and len(drawn) < 100:
        drawn.append(np.abs(taps.draw(np.zeros(1))[..., 0]) ** 2)
        found = np.concatenate(drawn) / powers
        half = _quantile() * found.std(axis=0, ddof=1) / np.sqrt(len(found))
        width = float(10.0 * np.log10((1.0 + half.max()) / (1.0 - half.max())))
    off = (found.mean(axis=0) - 1.0) / half
    worst = int(np.argmax(np.abs(off)))
    mean, spread = float(found.mean(axis=0)[worst]), float(half[worst])
    yield Check(
        what=f"power over its table, worst of {len(powers)} taps ({worst + 1})",
        measured=mean,
        low=mean - spread,
        high=mean + spread,
        expected=(1.0, 1.0),
        resolves=f"{width:.2f} dB",
        enough=width <= resolves_db,
        observations=len(found),
    )
    gap = np.abs(delays - np.asarray(expected.delays))
    farthest = int(np.argmax(gap))
    yield _exact(f"delay over delay spread, worst of {len(delays)} taps", delays[farthest], expected.delays[farthest])
    mean_delay = float(powers @ delays)
    spread_s = float(np.sqrt(powers @ (delays - mean_delay) ** 2))
    # The table is rounded to four digits and 0.1 dB.
    yield _exact("RMS delay spread over that asked for", spread_s, 1.0, tolerance=0.01)


def measure_doppler(loaded: LoadedScenario, expected: DopplerCorrelation, *, resolves_db: float) -> Iterator[Check]:
    """Correlation of the taps over time; `resolves_db` is read as that much of the Doppler frequency."""
    from scipy import special

    channel = loaded.scenario.link.channel
    doppler_hz = channel.max_doppler_hz
    taps = _Taps(channel, seed=loaded.scenario.seed)
    share = 10.0 ** (resolves_db / 10.0) - 1.0
    instants = np.array([0.0, *expected.turns]) / doppler_hz
    angle = 2.0 * np.pi * np.asarray(expected.turns)
    # How fast the correlation moves with the frequency.
    slope = angle * special.j1(angle)
    drawn: list[NDArray[np.float64]] = []
    fine = False
    while not fine and len(drawn) < 100:
        paths = taps.draw(instants)
        drawn.append((paths[..., :1] * paths[..., 1:].conj()).sum(axis=1).real)
        found = np.concatenate(drawn)
        half = _quantile() * found.std(axis=0, ddof=1) / np.sqrt(len(found))
        fine = bool((2.0 * half <= share * np.abs(slope)).all())
    for number, turns in enumerate(expected.turns):
        mean, spread = float(found[:, number].mean()), float(half[number])
        known = float(special.j0(angle[number]))
        resolved = 2.0 * spread / abs(float(slope[number]))
        yield Check(
            what=f"correlation {turns:g} turns apart",
            measured=mean,
            low=mean - spread,
            high=mean + spread,
            expected=(known, known),
            resolves=f"{100 * resolved:.0f} % of the speed",
            enough=fine,
            observations=len(found),
        )


class _Taps:
    """Realisations of the paths to one antenna, a new lot at every call."""

    def __init__(self, channel: ChannelConfig, *, seed: int) -> None:
        from scenarios.engine.batch import start_tensorflow

        start_tensorflow()
        from phy.fading.build import build_propagation

        self._propagation = build_propagation(channel, num_antennas=1)
        self._seed, self._next = seed, 0
        self.delays_s = np.asarray(self._propagation.delays_s, float)

    def draw(self, instants_s: NDArray[np.float64]) -> NDArray[np.complex128]:
        """`[_ROWS, num_paths, instants]` at `instants_s` `[instants]` [s]."""
        from phy.numerics.random import Purpose, round_keys

        trials = tuple(range(self._next, self._next + _ROWS))
        self._next += _ROWS
        keys = round_keys(self._seed, trials, Purpose.CHANNEL, 0)
        at = np.broadcast_to(instants_s.astype(np.float32), (_ROWS, len(instants_s)))
        return np.asarray(self._propagation.taps(keys, at))[:, 0].astype(complex)


def _exact(what: str, found: float, known: float, *, tolerance: float = _ROUNDING) -> Check:
    return Check(
        what=what,
        measured=float(found),
        low=float(found),
        high=float(found),
        expected=(known - tolerance, known + tolerance),
        resolves=f"{tolerance:g}",
    )


def _quantile() -> float:
    """Standard errors to either side of a mean."""
    from scipy import special

    return float(special.ndtri(0.5 + CONFIDENCE / 2.0))
