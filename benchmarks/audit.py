"""Games of FLMC's audit in batches, beside one game at a time through the same link.

    python benchmarks/audit.py

Both play the same games: a game is a trial, whatever batch it is in, and their scores are compared. Exit 1 if the first
audit of 100,000 games, loading and compiling included, takes two minutes or more, or if one game at a time is not at
least 20 times slower than a second audit, everything compiled for both.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from timing import print_table

from fl.algorithms.flmc.config import FlmcConfig
from fl.audit.flmc_game import FlmcGame
from phy.config import LinkConfig
from privacy.audit.attack import audit
from privacy.config import PrivacyConfig

GAMES = 100_000
ALONE = 200
MOST_SECONDS = 120.0
LEAST_RATIO = 20.0


def game(scheme: str, *, trials_at_once: int | None = None, seed: int = 1) -> FlmcGame:
    """The paper's setting: 20 devices, 5 entries, 25 dB."""
    link = LinkConfig.model_validate(
        {
            "access": "superposition",
            "modulation": "analog" if scheme == "analog" else "bpsk",
            "channel": {"model": "flat", "gain": 0.04, "noise_power": 1.0},
            "power": {"policy": "inversion", "snr_max_db": 25},
        }
    )
    config = FlmcConfig.model_validate({"scheme": scheme})
    privacy = PrivacyConfig.model_validate({"epsilon": 5.0, "delta": 0.01})
    return FlmcGame(config, link=link, privacy=privacy, seed=seed, trials_at_once=trials_at_once)


def seconds(scheme: str, *, seed: int) -> float:
    """Of one audit, keys and statistics included."""
    started = time.perf_counter()
    audit(game(scheme, seed=seed), num_games=GAMES, delta=0.01, confidence=0.999)
    return time.perf_counter() - started


def main() -> int:
    """Measure, compare, tell."""
    rows: list[tuple[str, ...]] = []
    good = True
    for scheme in ("analog", "digital"):
        first, together = (seconds(scheme, seed=seed) for seed in (2, 3))
        single = game(scheme, trials_at_once=1)
        single.play(ALONE)
        started = time.perf_counter()
        scores = [single.play(number).score[0] for number in range(ALONE)]
        alone = (time.perf_counter() - started) * GAMES / ALONE
        np.testing.assert_allclose(scores, game(scheme).play(0).score[:ALONE], rtol=1e-4, atol=1e-5)
        good &= first < MOST_SECONDS and alone / together >= LEAST_RATIO
        rows.append((scheme, f"{first:.1f}", f"{together:.1f}", f"{alone:.0f}", f"{alone / together:.0f}"))
    print_table(("scheme", f"{GAMES:,} games, first [s]", "again [s]", "one at a time [s]", "ratio"), rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
