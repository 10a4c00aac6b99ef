"""What a plan costs before any work starts: time, memory, disk."""

from __future__ import annotations

from dataclasses import dataclass

from fl.config import FedAvgConfig, FlmcConfig, ReconstructionConfig
from fl.footprint import dimension, seconds_per_trial, trials_side_by_side
from scenarios.engine.batch import BATCH_BYTES, batch_size, trial_bytes
from scenarios.plan.points import Plan
from scenarios.schema.schema import Scenario

LIBRARIES_BYTES = 720 << 20
"""Resident memory of the process before the first batch, most of it TensorFlow."""
MAIN_PROCESS_BYTES = 400 << 20
"""Resident memory of the process that hands tasks to others, stores them and draws figures."""

COMPILED_BYTES = 220 << 20
_COMPILED_TRAINING_BYTES = 100 << 20
_COMPILED_ATTACK_BYTES = 190 << 20
"""What compiling takes and leaves: packets and probed links, local training, the attack on uploads."""

_BYTES_STORED_PER_NUMBER = 6
_START_SECONDS = 8.0
_SECONDS_PER_COMPILATION = 1.5
_SECONDS_PER_CHAIN = 8.0
_SECONDS_PER_FIGURE = 1.0
_REFERENCE_CHAIN_SECONDS = 4.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Rough cost of a plan: time on two cores [s], peak resident memory [B], disk [B]; and of its largest tasks.

    `task_seconds`, `task_memory_bytes` and `task_disk_bytes` are those of one trial alone, the memory with the
    libraries.
    """

    seconds: float
    memory_bytes: int
    disk_bytes: int
    task_seconds: float
    task_memory_bytes: int
    task_disk_bytes: int


def disk_bytes_of_task(scenario: Scenario) -> int:
    """What one stored trial takes on disk [B]."""
    return scenario.learning.rounds * _series(scenario) * _BYTES_STORED_PER_NUMBER


def process_bytes(scenario: Scenario, *, trials: int = 1) -> int:
    """Peak resident memory of a process that computes so many trials of a point at once, libraries included [B].

    Measured on ten scenarios of the library, the estimate was 0.9 to 1.6 times the peak.
    """
    learning = scenario.learning
    compiled = COMPILED_BYTES if _detects(scenario) and not _compiles_quickly(scenario) else 0
    if isinstance(learning, FlmcConfig):
        compiled = max(compiled, COMPILED_BYTES * (learning.scheme == "digital-orthogonal"))
    elif isinstance(learning, ReconstructionConfig):
        compiled += _COMPILED_ATTACK_BYTES
    elif isinstance(learning, FedAvgConfig):
        compiled += _COMPILED_TRAINING_BYTES
    return LIBRARIES_BYTES + compiled + trials * trial_bytes(scenario)


def estimate(plan: Plan, *, batch_bytes: int = BATCH_BYTES) -> Cost:
    """Cost of computing every task of the plan once, batches in `batch_bytes`."""
    seconds, memory, disk = _START_SECONDS, 0, 0
    longest, largest, most = 0.0, 0, 0
    for point in plan.points:
        learning, link = point.scenario.learning, point.scenario.link
        batch = min(batch_size(point.scenario, batch_bytes=batch_bytes), plan.trials)
        seconds += plan.trials * seconds_per_trial(learning, link, batch=batch)
        together = batch if trials_side_by_side(learning) else 1
        memory = max(memory, process_bytes(point.scenario, trials=together))
        stored = disk_bytes_of_task(point.scenario)
        disk += plan.trials * stored
        longest = max(longest, seconds_per_trial(learning, link, batch=1))
        largest, most = max(largest, process_bytes(point.scenario)), max(most, stored)
    scenarios = [point.scenario for point in plan.points]
    compiled = {_compiled_in(scenario): _compiles_quickly(scenario) for scenario in scenarios}
    seconds += sum(_SECONDS_PER_COMPILATION if short else _SECONDS_PER_CHAIN for short in compiled.values())
    seconds += _REFERENCE_CHAIN_SECONDS * any(
        isinstance(s.learning, FlmcConfig) and s.learning.task.name == "logistic" for s in scenarios
    )
    seconds += _SECONDS_PER_FIGURE * sum(1 + 2 * (f.panels is not None) for f in scenarios[0].report.figures)
    return Cost(
        seconds=seconds,
        memory_bytes=memory,
        disk_bytes=disk,
        task_seconds=longest,
        task_memory_bytes=largest,
        task_disk_bytes=most,
    )


def _series(scenario: Scenario) -> int:
    """Numbers kept per round."""
    learning = scenario.learning
    if isinstance(learning, FlmcConfig):
        return 4 + (5 * learning.num_devices if learning.scheme == "digital-orthogonal" else 0)
    return 10 + 8 * learning.num_devices if learning.uses_radio else 0


def _detects(scenario: Scenario) -> bool:
    """Whether the bits of every device are detected on their own."""
    return scenario.learning.uses_radio and not scenario.learning.superposes


def _compiles_quickly(scenario: Scenario) -> bool:
    return scenario.link.ofdm == "none" and (scenario.link.plain or not _detects(scenario))


def _compiled_in(scenario: Scenario) -> tuple[object, ...]:
    """What needs compiled code of its own."""
    learning, link = scenario.learning, scenario.link
    what = learning.scheme if isinstance(learning, FlmcConfig) else learning.algorithm
    size = dimension(learning)
    channel = (link.channel.fading, link.channel.coherence, link.csi_error_variance > 0, link.power.policy)
    if _detects(scenario) and not link.plain:
        static = link.model_copy(update={"power": None, "error_model": None, "probe_bits": None, "packets": None})
        return (learning.num_devices, size, static, link.packets.crc_name(size or 0))
    if learning.superposes and link.ofdm != "none":
        return (what, learning.num_devices, link.ofdm, link.csi, link.impairments, link.channel.model)
    return (what, link.modulation, link.error_model, learning.num_devices, size, channel)
