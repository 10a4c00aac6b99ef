"""The example Flower apps, run by `run_simulation` with four clients."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("library", ["sklearn", "pytorch"])
def test_the_app_learns_over_the_radio(library: str) -> None:
    if library == "pytorch":
        pytest.importorskip("torch")
    app = ROOT / "examples" / f"flower_{library}"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=app,
        env={**os.environ, "PYTHONPATH": path, "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    lines = done.stdout.splitlines()
    accuracy = next(line for line in lines if line.startswith("accuracy"))
    first, *_, last = (float(word) for word in accuracy.removeprefix("accuracy [").rstrip("]").split(","))
    assert last > 0.7 > 0.3 > first
    rows = [line.split() for line in lines if len(line.split()) == 6 and line.split()[0].isdigit()]
    assert [(row[0], row[1]) for row in rows] == [
        (str(index), str(sender)) for index in range(1, 4) for sender in range(4)
    ]
    assert sum(int(row[3]) for row in rows) > 0
