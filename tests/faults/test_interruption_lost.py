"""A Ctrl-C that native code swallows or turns into an error of its own still stops the run."""

from __future__ import annotations

import subprocess
import sys

import pytest
from harness import ENVIRONMENT

BODY = """
import os, signal
from scenarios.cli import app as cli, command
from scenarios.engine import interruption

def app():
    interruption_lost = {lost}
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10**7):
            pass
    except KeyboardInterrupt:
        if not interruption_lost:
            raise ImportError("an error of a library's own")
    interruption.stop_if_asked()
    print("went on")

app.registered_commands = []
cli.app = app
cli.main()
"""


@pytest.mark.parametrize("lost", [False, True], ids=["turned into an error", "swallowed"])
def test_a_stop_is_a_stop_whatever_becomes_of_the_exception(lost: bool) -> None:
    found = subprocess.run(
        [sys.executable, "-c", BODY.format(lost=lost)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 130, found.stderr
    assert "stopped" in found.stderr
    assert "went on" not in found.stdout
