"""Source files as logs and reasons name them: below their package, wherever a machine keeps that."""

from __future__ import annotations

from pathlib import PurePath


def short_path(file: str) -> str:
    """`fl/algorithms/flmc_trials.py` for that file, wherever it was installed; `tensorflow/...` for a library's."""
    parts = PurePath(file).parts
    for mark in ("site-packages", "dist-packages"):
        if mark in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(mark) :])
    root = PurePath(__file__).parts[:-3]
    return "/".join(parts[len(root) :]) if parts[: len(root)] == root else PurePath(file).name
