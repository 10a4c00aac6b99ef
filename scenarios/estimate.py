"""What `phyloop check` says before any work starts: tasks, time, memory, and which limits will bind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl.config import FlmcConfig, GaussianLinearConfig
from fl.footprint import bytes_per_trial, dimension, seconds_per_trial
from phy.config import LinkConfig
from privacy.config import PrivacyConfig
from scenarios.engine import batch_size
from scenarios.plan import Plan
from scenarios.schema import Scenario

LIBRARIES_BYTES = 650 << 20
"""Resident memory of the process before the first batch, most of it TensorFlow."""

_BYTES_STORED_PER_NUMBER = 6
_START_SECONDS = 8.0
_SECONDS_PER_COMPILATION = 1.5
_SECONDS_PER_CHAIN = 8.0
_SECONDS_PER_FIGURE = 1.0
_REFERENCE_CHAIN_SECONDS = 4.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Rough cost of a plan: time on two cores [s], peak resident memory [B], disk [B]."""

    seconds: float
    memory_bytes: int
    disk_bytes: int


@dataclass(frozen=True, kw_only=True)
class Caps:
    """Ceilings on the receive amplitude A of one point; None where it is known only as the run goes.

    `binding` names the smallest, or says why it cannot be told yet. `loss_bound` is the largest privacy
    loss of a round whatever the amplitude, None without a privacy bound.
    """

    power: float | None
    lmc: float | None
    privacy: float
    binding: str
    loss_bound: float | None


def estimate(plan: Plan) -> Cost:
    """Cost of computing every task of the plan once."""
    seconds, memory, disk = _START_SECONDS, 0, 0
    for point in plan.points:
        learning, link = point.scenario.learning, point.scenario.link
        batch = min(batch_size(point.scenario), plan.trials)
        per_trial = bytes_per_trial(learning, link)
        seconds += plan.trials * seconds_per_trial(learning, link, batch=batch)
        memory = max(memory, batch * per_trial)
        series = 4 + (5 * learning.num_devices if learning.scheme == "digital-orthogonal" else 0)
        disk += plan.trials * learning.rounds * series * _BYTES_STORED_PER_NUMBER
    scenarios = [point.scenario for point in plan.points]
    compiled = {
        _compiled_in(scenario): scenario.link.ofdm == "none" and (scenario.link.plain or scenario.learning.superposes)
        for scenario in scenarios
    }
    seconds += sum(_SECONDS_PER_COMPILATION if short else _SECONDS_PER_CHAIN for short in compiled.values())
    seconds += _REFERENCE_CHAIN_SECONDS * any(s.learning.task.name == "logistic" for s in scenarios)
    seconds += _SECONDS_PER_FIGURE * sum(1 + 2 * (f.panels is not None) for f in scenarios[0].report.figures)
    return Cost(seconds=seconds, memory_bytes=LIBRARIES_BYTES + memory, disk_bytes=disk)


def _compiled_in(scenario: Scenario) -> tuple[object, ...]:
    """What needs compiled code of its own."""
    learning, link = scenario.learning, scenario.link
    channel = (link.channel.fading, link.channel.coherence, link.csi_error_variance > 0, link.power.policy)
    if learning.scheme == "digital-orthogonal" and not link.plain:
        static = link.model_copy(update={"power": None, "error_model": None, "probe_bits": None, "packets": None})
        return (learning.num_devices, dimension(learning), static, link.packets.crc_name(dimension(learning)))
    if learning.superposes and link.ofdm != "none":
        return (learning.scheme, learning.num_devices, link.ofdm, link.csi, link.impairments, link.channel.model)
    return (learning.scheme, link.modulation, link.error_model, learning.num_devices, dimension(learning), channel)


def caps_of(scenario: Scenario) -> Caps | None:
    """Caps of one point; None for schemes without a radio."""
    learning, link = scenario.learning, scenario.link
    if not learning.uses_radio or link.error_model == "error_free":
        return None
    privacy = None if scenario.privacy == "none" else scenario.privacy
    power = _power_cap(learning, link)
    lmc = _lmc_cap(learning, link)
    private, loss_bound = _privacy_cap(learning, link, privacy)
    if power is None:
        binding = "varies with the channel"
    elif lmc is None:
        binding = "depends on the data"
    else:
        binding = min([(power, "power"), (lmc, "lmc"), (private, "privacy")])[1]
    return Caps(power=power, lmc=lmc, privacy=private, binding=binding, loss_bound=loss_bound)


def _power_cap(learning: FlmcConfig, link: LinkConfig) -> float | None:
    if link.channel.fades or link.channel.cell is not None or link.csi_error_variance > 0:
        return None
    bound = learning.gradient_bound if learning.scheme == "analog" else 1.0
    gains = link.channel.gains(learning.num_devices)
    weakest = float(np.mean(gains)) if link.power.policy == "fixed" else min(gains)
    return float(weakest * link.max_power**0.5 / bound)


def _lmc_cap(learning: FlmcConfig, link: LinkConfig) -> float | None:
    from fl.algorithms.flmc import lmc_cap

    if learning.step_size == "auto" and learning.resolved_lmc_cap != "none":
        return None
    eta = np.array([learning.step_size if learning.step_size != "auto" else 1.0])
    return float(lmc_cap(learning, eta=eta, noise_power=link.channel.noise_power)[0])


def _privacy_cap(learning: FlmcConfig, link: LinkConfig, privacy: PrivacyConfig | None) -> tuple[float, float | None]:
    if privacy is None:
        return float("inf"), None
    from fl.algorithms.flmc import round_privacy

    bound = round_privacy(learning, link=link, privacy=privacy, dimension=dimension(learning))
    return bound.amplitude_cap(), bound.loss_bound()


def describe_size(scenario: Scenario) -> str:
    """One line on what is learnt and how large a round is."""
    learning = scenario.learning
    task = learning.task
    samples = task.num_samples if isinstance(task, GaussianLinearConfig) else 569
    return (
        f"{task.name}, {samples} samples, {dimension(learning)} parameters, "
        f"{learning.num_devices} devices, {learning.rounds} rounds"
    )
