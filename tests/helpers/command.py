"""The installed command, run as a user runs it: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from learning_run import run_plan

from scenarios.engine.batch import InProcess
from scenarios.engine.study import Progress
from scenarios.plan.plan import expand
from scenarios.schema.loader import load_scenario

ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
COMMAND = (sys.executable, "-c", "from scenarios.cli.app import main; main()")

SMALL = """\
name: small
seed: 7
trials: 6
link:
  channel: {model: flat, gain: 0.04, noise_power: 1.0}
learning:
  task: {name: gaussian-linear, num_samples: 60, dimension: 3}
  num_devices: 4
  rounds: 20
  burn_in: 10
  step_size: 1e-3
  lmc_cap: none
sweep:
  - learning.scheme: [analog, digital, digital-orthogonal]
    link.power.snr_max_db: [10, 20]
  - learning.scheme: [noiseless, exact]
report:
  figures:
    - {x: link.power.snr_max_db, y: mse, series: learning.scheme, y_scale: log}
    - {x: link.power.snr_max_db, y: bit_error_rate, series: learning.scheme, y_scale: log}
"""


def phyloop(*arguments: str | Path, cwd: Path | None = None, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def run_here(scenario: Path, folder: Path) -> None:
    """What `run` does, in this process: where it is not the command that is tested, it need not load TensorFlow."""
    loaded = load_scenario(str(scenario))
    outcome = run_plan(loaded, expand(loaded), folder=folder, engine=InProcess(), progress=Progress())
    assert outcome.failed == 0


def start_phyloop(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start the command and let it run."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def write_scenario(folder: Path, text: str = SMALL, name: str = "small.yaml") -> Path:
    """A scenario file in `folder`."""
    path = folder / name
    path.write_text(text)
    return path


def exported(run: Path, out: Path) -> dict[str, str]:
    """The tidy tables of a run, by file name."""
    result = phyloop("export", run, "--out", out, "--table", "all")
    assert result.returncode == 0, result.stderr
    return {path.name: path.read_text() for path in sorted(out.glob("*.csv"))}
