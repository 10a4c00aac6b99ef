"""Known properties of the channel itself: delays and powers of its taps, and how it moves in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from scenarios.schema.loader import LoadedScenario
from scenarios.studies.verify.cards import CONFIDENCE, EXPECTED, CardCheck, Expected, exact

_Array = NDArray[np.float64]
_DRAWS = 4096
"""Realisations drawn in one call."""
_MOST_CALLS = 100
_ROUNDING = 1e-4
"""Sionna keeps delays in single precision."""


@EXPECTED.register
class PowerDelayProfile(Expected):
    """Delays, in units of the delay spread, and powers [dB] of the taps as the standard prints them.

    The tap whose mean power is farthest off is shown.
    """

    kind: Literal["power-delay-profile"]
    delays: tuple[float, ...]
    powers_db: tuple[float, ...]

    def measure(self, loaded: LoadedScenario, *, resolves_db: float) -> Iterator[CardCheck]:
        channel = loaded.scenario.link.channel
        delays_s, draw = _taps(loaded)
        powers = 10.0 ** (np.asarray(self.powers_db) / 10.0)
        powers = powers / powers.sum()
        delays = delays_s / channel.delay_spread_s
        if len(delays) != len(powers):
            raise ValueError(f"{channel.model} has {len(delays)} taps, {len(powers)} are listed")

        def width_db(half: NDArray[np.float64]) -> float:
            return float(10.0 * np.log10((1.0 + half.max()) / (1.0 - half.max())))

        # Largest relative spread of a tap's power is that of a Rayleigh one, 1; its interval is twice z / sqrt(n) wide.
        rows, half = _rows(
            lambda: np.abs(draw(np.zeros(1))[..., 0]) ** 2 / powers,
            fine=lambda half: width_db(half) <= resolves_db,
        )
        mean = rows.mean(axis=0)
        worst = int(np.argmax(np.abs((mean - 1.0) / half)))
        what, width = f"power over its table, worst of {len(powers)} taps ({worst + 1})", width_db(half)
        counted = {"enough": width <= resolves_db, "observations": len(rows)}
        yield _check(what, mean[worst], half[worst], 1.0, resolves=f"{width:.2f} dB", **counted)
        worst = int(np.argmax(np.abs(delays - np.asarray(self.delays))))
        what = f"delay over delay spread, worst of {len(delays)} taps"
        yield exact(what, float(delays[worst]), self.delays[worst], tolerance=_ROUNDING)
        mean_delay = float(powers @ delays)
        spread = float(np.sqrt(powers @ (delays - mean_delay) ** 2))
        # The table is rounded to four digits and 0.1 dB.
        yield exact("RMS delay spread over that asked for", spread, 1.0, tolerance=0.01)


@EXPECTED.register
class DopplerCorrelation(Expected):
    """Clarke's J0(2 pi f_D tau) between instants `turns` = f_D tau apart.

    `resolves_db` is read as that much of the Doppler frequency.
    """

    kind: Literal["doppler-correlation"]
    turns: Annotated[tuple[float, ...], Field(min_length=1)]

    def measure(self, loaded: LoadedScenario, *, resolves_db: float) -> Iterator[CardCheck]:
        from scipy import special

        _, draw = _taps(loaded)
        share = 10.0 ** (resolves_db / 10.0) - 1.0
        instants = np.array([0.0, *self.turns]) / loaded.scenario.link.channel.max_doppler_hz
        angle = 2.0 * np.pi * np.asarray(self.turns)
        # How fast the correlation moves with the frequency.
        slope = np.abs(angle * special.j1(angle))

        def products() -> NDArray[np.float64]:
            paths = draw(instants)
            return np.asarray((paths[..., :1] * paths[..., 1:].conj()).sum(axis=1).real)

        def fine(half: NDArray[np.float64]) -> bool:
            return bool((2.0 * half <= share * slope).all())

        rows, half = _rows(products, fine=fine)
        for place, turns in enumerate(self.turns):
            what, known = f"correlation {turns:g} turns apart", float(special.j0(angle[place]))
            counted = {"enough": fine(half), "observations": len(rows)}
            speed = f"{100 * (2.0 * half[place] / slope[place]):.0f} % of the speed"
            yield _check(what, rows[:, place].mean(), half[place], known, resolves=speed, **counted)


def _taps(loaded: LoadedScenario) -> tuple[_Array, Callable[[_Array], NDArray[np.complex128]]]:
    """Return the delays of the paths [s], and a function that draws the paths to one antenna, others at every call.

    It takes instants [s] and returns `[_DRAWS, num_paths, instants]`.
    """
    from scenarios.engine.start import prepare_tensorflow

    prepare_tensorflow()
    from phy.fading.build import build_propagation
    from phy.numerics.random import Purpose, round_keys

    propagation = build_propagation(loaded.scenario.link.channel, num_antennas=1)
    lots = count(0, _DRAWS)

    def draw(instants_s: _Array) -> NDArray[np.complex128]:
        first = next(lots)
        keys = round_keys(loaded.scenario.seed, tuple(range(first, first + _DRAWS)), Purpose.CHANNEL, 0)
        at = np.broadcast_to(instants_s.astype(np.float32), (_DRAWS, len(instants_s)))
        return np.asarray(propagation.taps(keys, at))[:, 0].astype(complex)

    return np.asarray(propagation.delays_s, float), draw


def _rows(draw: Callable[[], _Array], *, fine: Callable[[_Array], bool]) -> tuple[_Array, _Array]:
    """Draw rows until half the intervals of the means of the columns are `fine`; return rows and half intervals."""
    from scipy import special

    quantile = float(special.ndtri(0.5 + CONFIDENCE / 2.0))
    drawn: list[_Array] = []
    while True:
        drawn.append(draw())
        rows = np.concatenate(drawn)
        half = quantile * rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
        if fine(half) or len(drawn) == _MOST_CALLS:
            return rows, half


def _check(what: str, mean: float, half: float, known: float, **others: Any) -> CardCheck:
    """Compare a mean, within `half` to either side, with a known number."""
    low, high = float(mean - half), float(mean + half)
    return CardCheck(what=what, measured=float(mean), low=low, high=high, expected=(known, known), **others)
