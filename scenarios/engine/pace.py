"""Time of a round, measured by a dry round: nothing is stored."""

from __future__ import annotations

import time
from dataclasses import dataclass

from scenarios.engine.batch import batch_size
from scenarios.engine.start import prepare_tensorflow
from scenarios.schema.schema import Scenario


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds of one process: `start_s` to the end of the first round, with all that compiles, `round_s` of the next.

    `trials` are computed side by side in a round; `round_s` is None where a trial has one round.
    """

    start_s: float
    round_s: float | None
    trials: int

    def sentence(self) -> str:
        """The measurement as `phyloop check` says it."""
        of = f" of {self.trials} trials" if self.trials > 1 else ""
        begun = f"set-up and the first round{of} {_seconds(self.start_s)}, compiling included"
        if self.round_s is None:
            return f"first sweep point: {begun}"
        return f"first sweep point: {_seconds(self.round_s)} a round{of}; {begun}"


def measure_pace(scenario: Scenario, *, trials: int) -> Pace:
    """Run two rounds of a sweep point, and time the second.

    `trials` is the number of trials of the run, of which as many are computed as a batch has. Raises as
    `fl.algorithms.run.run_trials`.
    """
    prepare_tensorflow()
    which = tuple(range(min(batch_size(scenario), trials)))
    started = time.perf_counter()
    learning = scenario.learning.settled(link=scenario.link.resolve_digital(), privacy=scenario.mechanism)
    running = learning.build(link=scenario.link, privacy=scenario.mechanism, seed=scenario.seed, trials=which)
    running.round(0)
    begun = time.perf_counter()
    after: float | None = None
    if learning.rounds > 1 and not running.ended:
        running.round(1)
        after = time.perf_counter() - begun
    return Pace(start_s=begun - started, round_s=after, trials=len(which))


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1.0 else f"{1e3 * value:.3g} ms"
