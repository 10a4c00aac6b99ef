"""The user's own code, named `module:function`: which file it is in and what that is, before anything of it runs."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

from fl.tasks.base import LearningError


def code_digest(function: str) -> str:
    """SHA-256, in hexadecimal, of the file of `function`'s module; nothing is imported.

    Modules that this one imports are not part of it. LearningError if the module cannot be found or read, or is not
    one file of Python.
    """
    module = function.partition(":")[0]
    spec = _find(module)
    if spec is None:
        raise LearningError(
            f"model {function}: there is no module {module} in {Path.cwd()} nor among the installed packages; "
            "run where it lies, or set PYTHONPATH to its folder"
        )
    if spec.origin is None or not spec.has_location:
        raise LearningError(f"model {function}: {module} is not a file of Python; name the module that defines it")
    try:
        return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    except OSError as error:
        raise LearningError(f"model {function}: {spec.origin} cannot be read ({error.strerror}); allow it") from error


def check_digest(function: str, *, digest: str) -> None:
    """LearningError unless the file of `function` is the one that had `digest`."""
    found = code_digest(function)
    if found != digest:
        raise LearningError(
            f"model {function}: its file has SHA-256 {found[:12]}..., the run was begun with {digest[:12]}...; put the "
            "file back, or begin again without the key code"
        )


def _find(module: str) -> ModuleSpec | None:
    """Where Python would find a module; the packages around it are looked into and not imported."""
    path: Sequence[str] = [str(Path.cwd()), *sys.path]
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for depth in range(len(parts)):
        name = ".".join(parts[: depth + 1])
        spec = next((found for finder in sys.meta_path if (found := _ask(finder, name, path)) is not None), None)
        if spec is None or (depth + 1 < len(parts) and spec.submodule_search_locations is None):
            return None
        path = list(spec.submodule_search_locations or ())
    return spec


def _ask(finder: object, name: str, path: Sequence[str]) -> ModuleSpec | None:
    find = getattr(finder, "find_spec", None)
    found: ModuleSpec | None = None if find is None else find(name, path, None)
    return found
