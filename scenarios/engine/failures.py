"""What becomes of an exception inside a job: trials that failed with their reason, or an end of the whole run."""

from __future__ import annotations

import errno
import gc
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fl.results import TrialResult
from scenarios.engine.interruption import stop_if_asked
from scenarios.store.short_paths import short_path

Attempt = Callable[[tuple[int, ...]], Sequence[TrialResult]]
"""Computes trials side by side; each one's numbers are those it has alone."""

ROOMS = ("phy", "fl", "privacy", "scenarios")
"""Their own errors are sentences or stops: of a state that cannot be, whichever trial meets it."""

_MESSAGE_LENGTH = 300
_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "OOM when allocating", "std::bad_alloc")
"""How native code says it where the type of the error does not."""


@dataclass(frozen=True, kw_only=True)
class Incident:
    """An exception that failed `trials`: `reason` is a sentence without its full stop, `trace` the whole traceback."""

    trials: tuple[int, ...]
    reason: str
    trace: str


@dataclass(frozen=True, kw_only=True)
class _Broken:
    incident: Incident
    kind: type[Exception]
    memory: bool


def results_or_failures(attempt: Attempt, trials: Sequence[int]) -> tuple[list[TrialResult], list[Incident]]:
    """One result per trial in their order, failed where an exception ended it, and those exceptions.

    Trials that failed together are tried again in halves: side by side they may want more memory than there is, and
    one of them alone may be what went wrong. Out of memory, halves are halved down to single trials; after any other
    exception only until both halves end with the same one, which then is nothing of single trials.

    Passes on what is no fault of a task: errors of our own, which are sentences on the scenario, files and disks
    (OSError), a broken installation (ImportError), a stop that was asked for.
    """
    order = {trial: place for place, trial in enumerate(trials)}
    try:  # not by `_tried`: every frame of a round that goes well counts
        return list(attempt(tuple(trials))), []
    except Exception as error:
        broken = _broken(error, tuple(trials))
    gc.collect()
    results, incidents = _resolved(attempt, tuple(trials), broken)
    return sorted(results, key=lambda one: order[one.trial]), incidents


def is_of_the_run(error: Exception) -> bool:
    """Whether an exception says something of the scenario or the machine, so that other tasks would meet it too."""
    if isinstance(error, OSError):
        return error.errno != errno.ENOMEM
    return isinstance(error, ImportError) or type(error).__module__.split(".")[0] in ROOMS


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory was refused, by Python, NumPy, TensorFlow, XLA or the system."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return type(error).__name__ == "ResourceExhaustedError" or any(words in str(error) for words in _OUT_OF_MEMORY)


def _tried(attempt: Attempt, trials: tuple[int, ...]) -> list[TrialResult] | _Broken:
    try:
        return list(attempt(trials))
    except Exception as error:
        broken = _broken(error, trials)
    # Not in the handler: until it ends, the frames of the exception hold the arrays that have to be given back.
    gc.collect()
    return broken


def _broken(error: Exception, trials: tuple[int, ...]) -> _Broken:
    """Return what became of trials that met an exception; raise it if it is no fault of theirs."""
    stop_if_asked()
    if is_of_the_run(error):
        raise error
    memory = is_out_of_memory(error)
    incident = Incident(trials=trials, reason=_reason(error, memory=memory), trace=told_trace(error))
    return _Broken(incident=incident, kind=type(error), memory=memory)


def _resolved(
    attempt: Attempt, trials: tuple[int, ...], outcome: list[TrialResult] | _Broken
) -> tuple[list[TrialResult], list[Incident]]:
    if not isinstance(outcome, _Broken):
        return outcome, []
    if len(trials) == 1:
        return _failed(outcome.incident)
    middle = len(trials) // 2
    halves = trials[:middle], trials[middle:]
    tried = [_tried(attempt, half) for half in halves]
    if not outcome.memory and all(isinstance(one, _Broken) and one.kind is outcome.kind for one in tried):
        return _failed(outcome.incident)
    resolved = [_resolved(attempt, half, one) for half, one in zip(halves, tried, strict=True)]
    return [one for results, _ in resolved for one in results], [one for _, found in resolved for one in found]


def _failed(incident: Incident) -> tuple[list[TrialResult], list[Incident]]:
    of_all = [TrialResult(trial=one, metrics={}, rounds={}, failure=incident.reason) for one in incident.trials]
    return of_all, [incident]


def _reason(error: Exception, *, memory: bool) -> str:
    """What happened, in words, and where."""
    message = " ".join(str(error).split()).rstrip(".")
    if len(message) > _MESSAGE_LENGTH:
        message = message[: _MESSAGE_LENGTH - 1] + "…"
    told = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"{'out of memory' if memory else 'unexpected'} {told} (at {_place(error)})"


def _place(error: Exception) -> str:
    """The innermost line of ours that the exception passed, else of anybody."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if short_path(frame.filename).split("/")[0] in ROOMS]
    last = (ours or frames)[-1]
    return f"{short_path(last.filename)}:{last.lineno}"


def told_trace(error: BaseException) -> str:
    """The traceback with files below their package: where a machine keeps them is nobody else's business."""
    told = traceback.TracebackException.from_exception(error)
    seen: list[traceback.TracebackException] = []
    part: traceback.TracebackException | None = told
    while part is not None and part not in seen:
        seen.append(part)
        for frame in part.stack:
            frame.filename = short_path(frame.filename)
        part = part.__cause__ or part.__context__
    return "".join(told.format())
