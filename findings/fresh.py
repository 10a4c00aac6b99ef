"""Run a program in a fresh environment with pinned packages, and compare what it prints."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path


def output_of(program: str, *packages: str) -> str:
    """Return what `program` prints in a temporary environment that has `packages` alone."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        done = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def report(program: str, *packages: str, seen: str) -> None:
    """Print what the program prints; exit with 1 if that is not `seen`."""
    found = output_of(program, *packages)
    print(f"{' '.join(packages)}\n{found}")
    if found != seen.strip():
        print(f"This is no longer what was seen:\n{seen.strip()}")
        sys.exit(1)
