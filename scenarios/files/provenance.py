"""Where numbers come from: versions, commit, machine and command line of one invocation."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGES: dict[str, tuple[str, ...]] = {
    "phyloop": ("phyloop",),
    "numpy": ("numpy",),
    "scipy": ("scipy",),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "sionna": ("sionna-no-rt", "sionna"),
    "numba": ("numba",),
}
"""Name shown -> distributions that provide it; the first one installed is reported."""

GIT_TIMEOUT_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """One invocation, as it is stored with the results. None means: not known."""

    command: str
    date_utc: str
    versions: Mapping[str, str | None]
    commit: str | None
    dirty: bool | None
    platform: str
    cpu_model: str
    cpu_count: int


def collect_provenance(*, argv: Sequence[str] | None = None) -> Provenance:
    """Return facts about this process and machine, without importing a package; `argv` defaults to `sys.argv`."""
    commit, dirty = find_commit(Path(__file__).resolve())
    given = sys.argv if argv is None else argv
    # `python -m phyloop` has the file of a module in place of a command.
    started = ("python", "-m", "phyloop") if Path(given[0]).name == "__main__.py" else given[:1]
    return Provenance(
        # Bytes of a file name that are not text cannot be stored as text.
        command=shlex.join((*started, *given[1:])).encode(errors="replace").decode(),
        date_utc=utc_now(),
        versions={"python": platform.python_version()}
        | {name: find_version(candidates) for name, candidates in PACKAGES.items()},
        commit=commit,
        dirty=dirty,
        platform=platform.platform(),
        cpu_model=find_cpu_model(),
        cpu_count=count_cpus(),
    )


def utc_now() -> str:
    """Return the current time as ISO 8601 text in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache  # metadata is parsed whole
def find_version(distributions: Sequence[str]) -> str | None:
    """Return the version of the first installed distribution, read from its metadata."""
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def find_commit(file: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the checkout that tracks `file`, and whether tracked files differ from it.

    A package installed below another repository is not tracked by it and has no commit. Nothing is known without git.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(file.parent), *arguments]
        only_looking = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
        return subprocess.check_output(
            command, stderr=subprocess.DEVNULL, text=True, timeout=GIT_TIMEOUT_S, env=only_looking
        ).strip()

    try:
        git("ls-files", "--error-unmatch", "--", file.name)
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return None, None


def find_cpu_model() -> str:
    """Return the name of the processor, or its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def count_cpus() -> int:
    """Return the processors this process may use: a container or a batch job often has fewer than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
