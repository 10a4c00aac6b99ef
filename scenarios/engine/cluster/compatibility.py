"""Tell if two processes would compute the same numbers: versions and source of what computes them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from scenarios.files.provenance import PACKAGES, find_version
from scenarios.schema.errors import ScenarioError

SOURCE = "phyloop source"
_ROOMS = ("phy", "privacy", "fl", "scenarios")
_PACKAGES = {**PACKAGES, "distributed": ("distributed",), "keras": ("keras",), "scikit-learn": ("scikit-learn",)}
_MISSING = "none"


@lru_cache(maxsize=1)
def versions() -> Mapping[str, str]:
    """Return everything that must be the same here and there, as this process had it when it was first asked."""
    found = {name: find_version(candidates) or _MISSING for name, candidates in _PACKAGES.items()}
    return {"python": f"{sys.version_info.major}.{sys.version_info.minor}", **found, SOURCE: source_digest()}


def source_digest() -> str:
    """First 12 hex digits of the SHA-256 over names and bytes of all Python files of the four packages."""
    digest = hashlib.sha256()
    for room in _ROOMS:
        spec = find_spec(room)
        for folder in spec.submodule_search_locations or () if spec else ():
            for file in sorted(Path(folder).rglob("*.py")):
                data = file.read_bytes()
                digest.update(f"{room}/{file.relative_to(folder).as_posix()} {len(data)}\n".encode() + data)
    return digest.hexdigest()[:12]


def refuse_other_versions(client: Mapping[str, str], worker: Mapping[str, str], *, address: str) -> None:
    """ScenarioError that names the first difference between the versions of a client and of a worker at `address`."""
    for name in {**client, **worker}:
        here, there = client.get(name, _MISSING), worker.get(name, _MISSING)
        if here != there:
            raise ScenarioError(
                file=f"worker {address}",
                problem=f"has {name} {there}, and this process {here}, which may compute other numbers",
                remedy="install the same versions of phyloop and all packages on both, and start the worker again",
            )
