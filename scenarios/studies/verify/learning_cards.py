"""Cards on federated Langevin Monte Carlo: the error of a sum in the air, and the caps on its amplitude."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fl.config import FlmcConfig
from privacy.config import PrivacyConfig
from scenarios.plan.plan import expand
from scenarios.plan.points import Point
from scenarios.schema.caps import caps_of
from scenarios.schema.consistency import resolve_auto
from scenarios.schema.loader import LoadedScenario
from scenarios.schema.schema import Scenario
from scenarios.studies.verify.check import CONFIDENCE, Check
from scenarios.studies.verify.config import AmplitudeCaps, SumError

_TRIALS = 16


def measure_sums(loaded: LoadedScenario, expected: SumError, *, resolves_db: float) -> Iterator[Check]:
    """Error of y / A against the sum that was sent, at every point of the sweep."""
    plan = expand(loaded)
    for number, point in enumerate(plan.points):
        scenario = resolve_auto(point.scenario)
        error = np.concatenate(list(_errors(scenario, expected.num_symbols // _TRIALS, first_trial=number * _TRIALS)))
        yield _sum_check(_label(point), error, resolves_db)


def _errors(scenario: Scenario, num_symbols: int, *, first_trial: int) -> Iterator[NDArray[np.float64]]:
    """Real parts of the errors times A / sqrt(N0), A by the formula: standard normal, trial by trial.

    Where the channel fades, A is the least |h_k| of the trial times sqrt(P0) over the magnitude, which only the
    receiver's own account of it can tell.
    """
    from scenarios.engine.batch import start_tensorflow

    start_tensorflow()
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
    heard = uplink.superpose(payload, context=UplinkContext(seed=scenario.seed, trials=trials), caps={})
    amplitude = heard.decision.amplitude[:, None]
    if not link.channel.fades:
        weakest = min(link.channel.gains(learning.num_devices))
        amplitude = np.full((_TRIALS, 1), weakest * link.max_power**0.5 / bound)
    error = heard.received.real.astype(float) / amplitude - values.sum(axis=1)
    yield from error * amplitude / link.channel.noise_power**0.5


def _sum_check(what: str, error: NDArray[np.float64], resolves_db: float) -> Check:
    """n times the mean square of standard normals is chi-square of n degrees."""
    from scipy import special

    tail = (1.0 - CONFIDENCE) / 2.0
    total = float((error**2).sum())
    low, high = (total / (2.0 * float(special.gammaincinv(error.size / 2.0, p))) for p in (1.0 - tail, tail))
    width = float(10.0 * np.log10(high / low))
    return Check(
        what=f"{what}: MSE A^2 / N0",
        measured=total / error.size,
        low=low,
        high=high,
        expected=(1.0, 1.0),
        resolves=f"{width:.2f} dB",
        enough=width <= resolves_db,
        observations=error.size,
    )


def measure_caps(loaded: LoadedScenario, expected: AmplitudeCaps) -> Iterator[Check]:
    """The caps as `phyloop check` tells them, and the amplitude at which a few rounds send."""
    from scenarios.engine.batch import start_tensorflow

    plan = expand(loaded)
    scenario = resolve_auto(plan.points[0].scenario)
    caps = caps_of(scenario)
    if caps is None or caps.power is None or caps.lmc is None:
        raise ValueError("caps of this scenario are known only as it runs")
    told = {"power": caps.power, "lmc": caps.lmc, "privacy": caps.privacy}
    for name, found in told.items():
        yield _digits(f"{name} cap", found, getattr(expected, name))
    start_tensorflow()
    from fl.results import CAP_NAMES
    from fl.run import run_trials

    privacy = scenario.privacy if isinstance(scenario.privacy, PrivacyConfig) else None
    (result,) = run_trials(_flmc(scenario), link=scenario.link, privacy=privacy, seed=scenario.seed, trials=(0,))
    bound = CAP_NAMES[int(result.metrics["active_cap"])]
    if bound != expected.binds:
        raise ValueError(f"the cap that binds is {bound}, the card says {expected.binds}")
    yield _digits(f"amplitude sent, held by {bound}", float(result.metrics["amplitude"]), getattr(expected, bound))


def _flmc(scenario: Scenario) -> FlmcConfig:
    if not isinstance(scenario.learning, FlmcConfig):
        raise ValueError(f"this card is about flmc, the algorithm is {scenario.learning.algorithm}")
    return scenario.learning


def _digits(what: str, found: float, known: tuple[float, float]) -> Check:
    value, half_digit = known
    return Check(
        what=what,
        measured=found,
        low=found,
        high=found,
        expected=(value - half_digit, value + half_digit),
        resolves=f"{half_digit:g}",
    )


def _label(point: Point) -> str:
    link = resolve_auto(point.scenario).link
    return ", ".join([link.modulation, link.channel.fading, "single carrier" if link.ofdm == "none" else "OFDM"])
