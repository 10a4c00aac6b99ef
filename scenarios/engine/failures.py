"""Exceptions inside a job: trials that failed with their reason, or the end of the run."""

from __future__ import annotations

import errno
import gc
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fl.base.results import TrialResult
from scenarios.engine.interruption import stop_if_asked
from scenarios.files.log import short_path
from scenarios.schema.plugins import has_plugins, is_plugin_file

Attempt = Callable[[tuple[int, ...]], Sequence[TrialResult]]
"""Computes trials side by side; each one's numbers are those it has alone."""

PACKAGES = ("phy", "fl", "privacy", "scenarios")
"""Errors of these packages are sentences or stops, on a state that no trial can have."""

_MESSAGE_LENGTH = 300
_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "OOM when allocating", "std::bad_alloc")
"""Words of native code where the type of the error does not say it."""


@dataclass(frozen=True, kw_only=True)
class Incident:
    """An exception that failed `trials`: `reason` is a sentence without its full stop, `trace` the full traceback.

    `kind`: name of its type; `memory`: memory was refused.
    """

    trials: tuple[int, ...]
    reason: str
    trace: str
    kind: str
    memory: bool


def results_or_failures(attempt: Attempt, trials: Sequence[int]) -> tuple[list[TrialResult], list[Incident]]:
    """One result per trial in their order, failed where an exception ended it, and those exceptions.

    Trials that failed together are tried again in halves: side by side they may want more memory than there is, and
    one of them alone may be what went wrong. Out of memory, halves are halved down to single trials; after any other
    exception only until both halves end with the same one, which then is no matter of single trials.

    Passes on what is no fault of a task: errors of our own, which are sentences on the scenario, files and disks
    (OSError), a broken installation (ImportError), a stop that was asked for.
    """
    results: list[TrialResult] = []
    incidents: list[Incident] = []

    def settle(part: tuple[int, ...], found: Sequence[TrialResult], incident: Incident | None) -> None:
        results.extend(found)
        if incident is None:
            return
        middle = len(part) // 2
        halves = [(half, *_try(attempt, half)) for half in (part[:middle], part[middle:]) if middle]
        if not halves or (not incident.memory and {one and one.kind for _, _, one in halves} == {incident.kind}):
            incidents.append(incident)
            results.extend(TrialResult(trial=one, metrics={}, rounds={}, failure=incident.reason) for one in part)
        else:
            for half in halves:
                settle(*half)

    settle(tuple(trials), *_try(attempt, tuple(trials)))
    return results, incidents


def _try(attempt: Attempt, part: tuple[int, ...]) -> tuple[Sequence[TrialResult], Incident | None]:
    """Return the results of some trials, or none and the exception that ended them."""
    try:
        return attempt(part), None
    except Exception as error:
        stop_if_asked()
        if is_of_the_run(error):
            raise
        memory, kind = is_out_of_memory(error), type(error).__name__
        reason, trace = _reason(error, memory=memory), short_trace(error)
    if memory:  # not in the handler: until it ends, the frames of the exception hold the arrays to give back
        gc.collect()
    return (), Incident(trials=part, reason=reason, trace=trace, kind=kind, memory=memory)


def is_of_the_run(error: Exception) -> bool:
    """Tell an exception about the scenario or the machine, which other tasks meet too, from one of a task.

    One that passed a plug-in is the plug-in's, as is that of a link, which may refuse the bits that the plug-in made.
    """
    package = type(error).__module__.split(".")[0]
    frames = traceback.extract_tb(error.__traceback__)
    of_a_plugin = any(is_plugin_file(frame.filename) for frame in frames) or (package == "phy" and has_plugins())
    if of_a_plugin or is_out_of_memory(error):
        return False
    return isinstance(error, OSError | ImportError) or package in PACKAGES


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether memory was refused, by Python, NumPy, TensorFlow, XLA or the system."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    return type(error).__name__ == "ResourceExhaustedError" or any(words in str(error) for words in _OUT_OF_MEMORY)


def _reason(error: Exception, *, memory: bool) -> str:
    """Return the error in words, with the innermost line of a plug-in or of our packages that it passed."""
    message = " ".join(str(error).split()).rstrip(".")
    if len(message) > _MESSAGE_LENGTH:
        message = message[: _MESSAGE_LENGTH - 1] + "…"
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if short_path(frame.filename).split("/")[0] in PACKAGES]
    last = ([frame for frame in frames if is_plugin_file(frame.filename)] or ours or frames)[-1]
    remedy = "; phyloop check-plugin tests the plug-ins" if has_plugins() and not memory else ""
    kind = "out of memory" if memory else "unexpected"
    return f"{kind} {text} (at {short_path(last.filename)}:{last.lineno}){remedy}"


def short_trace(error: BaseException) -> str:
    """The traceback with files named below their package, not by their place on this machine."""
    full = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = full
    while part is not None:
        for frame in part.stack:
            frame.filename = short_path(frame.filename)
        part = part.__cause__ or part.__context__
    return "".join(full.format())
