"""Known numbers of federated Langevin Monte Carlo: the error of a sum in the air, and the caps on its amplitude."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fl.algorithms.flmc.config import FlmcConfig
from phy.config.levels import listed_gains
from scenarios.plan.plan import expand
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.loader import LoadedScenario
from scenarios.schema.schema import Scenario
from scenarios.studies.verify.cards import CONFIDENCE, EXPECTED, CardCheck, Expected, exact

_TRIALS = 16


@EXPECTED.register
class SumError(Expected):
    """Mean square error N0 / A^2 of a sum in the air, A = h sqrt(P0) over the largest magnitude that is sent."""

    kind: Literal["sum-error"]
    num_symbols: Annotated[int, Field(ge=1000)]

    def measure(self, loaded: LoadedScenario, *, resolves_db: float) -> Iterator[CardCheck]:
        """See `Expected`: at every sweep point, y / A against the sum that was sent.

        n times the mean square of standard normals is chi-square of n degrees.
        """
        from scipy import special

        tail = (1.0 - CONFIDENCE) / 2.0
        for number, point in enumerate(expand(loaded).points):
            scenario = resolve_auto(point.scenario)
            link = scenario.link
            error = _errors(scenario, self.num_symbols // _TRIALS, first_trial=number * _TRIALS)
            total = float((error**2).sum())
            low, high = (total / (2.0 * float(special.gammaincinv(error.size / 2.0, p))) for p in (1.0 - tail, tail))
            width = float(10.0 * np.log10(high / low))
            waveform = "single carrier" if link.ofdm == "none" else "OFDM"
            yield CardCheck(
                what=f"{link.modulation}, {link.channel.law.name}, {waveform}: MSE A^2 / N0",
                measured=total / error.size,
                low=low,
                high=high,
                expected=(1.0, 1.0),
                resolves=f"{width:.2f} dB",
                enough=width <= resolves_db,
                observations=error.size,
            )


def _errors(scenario: Scenario, num_symbols: int, *, first_trial: int) -> NDArray[np.float64]:
    """Real parts of the errors times A / sqrt(N0), A by the formula: standard normal, trial by trial.

    Where the channel fades, A is the least |h_k| of the trial times sqrt(P0) over the magnitude, which only the
    receiver's own account of it can tell.
    """
    from scenarios.engine.start import prepare_tensorflow

    prepare_tensorflow()
    from phy.compile import compile_air
    from phy.fading.block_taps import UplinkContext

    link, learning = scenario.link, _flmc(scenario)
    analog = link.modulation == "analog"
    bound = learning.gradient_bound if analog else 1.0
    uplink = compile_air(link, num_devices=learning.num_devices, num_symbols=num_symbols, payload_bound=bound)
    rng = np.random.default_rng(scenario.seed)
    trials = tuple(range(first_trial, first_trial + _TRIALS))
    shape = (_TRIALS, learning.num_devices, num_symbols)
    values = rng.uniform(-bound, bound, shape) if analog else 1.0 - 2.0 * rng.integers(0, 2, shape)
    payload = values if analog else np.packbits(values < 0, axis=-1)
    received = uplink.superpose(payload, context=UplinkContext(seed=scenario.seed, trials=trials), caps={})
    amplitude = received.decision.amplitude[:, None]
    if not link.channel.fades:
        weakest = listed_gains(link, learning.num_devices).min()
        amplitude = np.full((_TRIALS, 1), weakest * link.max_power**0.5 / bound)
    error = received.received.real.astype(float) / amplitude - values.sum(axis=1)
    return np.ravel(error * amplitude / link.channel.noise_power**0.5)


@EXPECTED.register
class AmplitudeCaps(Expected):
    """Caps on the receive amplitude of a learning scenario, each `[value, half a unit of its last digit]`.

    `binds` is the cap at which a short run really sends.
    """

    kind: Literal["amplitude-caps"]
    power: tuple[float, float]
    lmc: tuple[float, float]
    privacy: tuple[float, float]
    binds: Literal["power", "lmc", "privacy"]

    def measure(self, loaded: LoadedScenario, *, resolves_db: float) -> Iterator[CardCheck]:
        """See `Expected`: the caps as `phyloop check` prints them, and the amplitude at which a few rounds send."""
        from scenarios.engine.start import prepare_tensorflow

        known = {"power": self.power, "lmc": self.lmc, "privacy": self.privacy}
        scenario = resolve_auto(expand(loaded).points[0].scenario)
        caps = scenario.learning.caps(link=scenario.link, privacy=scenario.mechanism)
        if caps is None or caps.power is None or caps.lmc is None:
            raise ValueError("caps of this scenario are known only as it runs")
        for name, cap in {"power": caps.power, "lmc": caps.lmc, "privacy": caps.privacy}.items():
            yield exact(f"{name} cap", cap, known[name][0], tolerance=known[name][1])
        prepare_tensorflow()
        from fl.algorithms.run import run_trials
        from fl.base.results import CAP_NAMES

        privacy = scenario.mechanism
        (result,) = run_trials(_flmc(scenario), link=scenario.link, privacy=privacy, seed=scenario.seed, trials=(0,))
        binding = CAP_NAMES[int(result.metrics["active_cap"])]
        if binding != self.binds:
            raise ValueError(f"the cap that binds is {binding}, not {self.binds}")
        sent, (value, half_digit) = float(result.metrics["amplitude"]), known[binding]
        yield exact(f"amplitude sent, held by {binding}", sent, value, tolerance=half_digit)


def _flmc(scenario: Scenario) -> FlmcConfig:
    from fl.algorithms.flmc.config import FlmcConfig

    if not isinstance(scenario.learning, FlmcConfig):
        raise ValueError(f"this answer is about flmc, the algorithm is {scenario.learning.algorithm}")
    return scenario.learning
