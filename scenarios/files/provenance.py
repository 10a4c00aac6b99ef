"""Where numbers come from: versions, commit, machine and command line of one invocation."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from scenarios.files.clock import utc_now

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
    """One invocation, as it is stored with the results. None means: could not be found out."""

    command: str
    date_utc: str
    versions: Mapping[str, str | None]
    commit: str | None
    dirty: bool | None
    platform: str
    cpu_model: str
    cpu_count: int


def collect_provenance(*, argv: Sequence[str] | None = None) -> Provenance:
    """What can be said about this process and machine; imports none of the packages it names.

    `argv` defaults to `sys.argv`.
    """
    commit, dirty = find_commit(Path(__file__).resolve())
    return Provenance(
        # Bytes of a file name that are no text cannot be stored as text.
        command=shlex.join(sys.argv if argv is None else argv).encode(errors="replace").decode(),
        date_utc=utc_now(),
        versions={"python": platform.python_version()}
        | {name: find_version(candidates) for name, candidates in PACKAGES.items()},
        commit=commit,
        dirty=dirty,
        platform=platform.platform(),
        cpu_model=find_cpu_model(),
        cpu_count=count_cpus(),
    )


def find_version(distributions: Sequence[str]) -> str | None:
    """Version of the first installed distribution, read from its metadata."""
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def find_commit(file: Path) -> tuple[str | None, bool | None]:
    """Commit of the checkout that tracks `file`, and whether tracked files differ from it.

    A package installed below somebody else's repository is not tracked by it and has no commit.
    """
    if _git(file.parent, "ls-files", "--error-unmatch", "--", file.name) is None:
        return None, None
    commit = _git(file.parent, "rev-parse", "HEAD")
    changes = _git(file.parent, "status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else bool(changes)


def _git(folder: Path, *arguments: str) -> str | None:
    """Output of a git command, None if git is missing, slow or unhappy."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # only looking: never lock the index
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def find_cpu_model() -> str:
    """The processor by the name its maker gave it, else its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def count_cpus() -> int:
    """Processors this process may use: a container or a batch job often has fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
