"""Whether two processes would compute the same numbers: versions and source of what computes them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from scenarios.files.provenance import PACKAGES, find_version
from scenarios.plan.identity import EXECUTION_MODE
from scenarios.schema.errors import ScenarioError
from scenarios.schema.schema import SCHEMA_VERSION
from scenarios.store.database import STORE_VERSION

SOURCE = "phyloop source"
_ROOMS = ("phy", "privacy", "fl", "scenarios")
_PACKAGES = {**PACKAGES, "distributed": ("distributed",), "keras": ("keras",), "scikit-learn": ("scikit-learn",)}
_MISSING = "none"


@lru_cache(maxsize=1)
def versions() -> Mapping[str, str]:
    """Everything that must be the same here and there, by name, as this process had it when it was first asked."""
    found = {name: find_version(candidates) or _MISSING for name, candidates in _PACKAGES.items()}
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        **found,
        "phyloop scenario schema": str(SCHEMA_VERSION),
        "phyloop store": str(STORE_VERSION),
        "phyloop execution mode": EXECUTION_MODE,
        SOURCE: source_digest(),
    }


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
        if here == there:
            continue
        raise ScenarioError(
            file=f"worker {address}",
            problem=f"has {name} {there}, and this process {here}, which may compute other numbers",
            remedy="install the same checkout of phyloop on both and start the worker again"
            if name == SOURCE
            else f"install {name} {here} there and start the worker again, or run with the worker's version",
        )
