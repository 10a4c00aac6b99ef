"""Runs and link studies in fused kernels load neither TensorFlow nor Sionna nor Keras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command import ENVIRONMENT, SMALL, write_scenario

from scenarios.plan.plan import expand
from scenarios.schema.loader import load_scenario

_COMMAND = """\
import sys
from scenarios.cli.app import main
try:
    main()
finally:
    print(sorted({"tensorflow", "sionna", "keras"} & set(sys.modules)), file=sys.stderr)
"""

_LINK = """\
name: small
seed: 3
link:
  access: orthogonal
  modulation: qpsk
  packet_size_bytes: 32
  power: {policy: fixed}
measure: {over: esno_db, values: [5], stop: {max_bits: 1e4}}
sweep:
  - link.channel.fading: [constant, rayleigh]
  - link.coding: [{code: ldpc5g, rate: 1/2}]
    link.packets: [{crc: crc24a}]
    link.channel: [{model: tdl-a, delay_spread_s: 1e-7, speed_m_s: 3, coherence: packet}]
    link.ofdm: [{num_subcarriers: 72, cyclic_prefix_length: 6}]
    link.csi: [perfect, {estimator: lmmse}, {estimator: ls}]
"""

_FEDAVG = """\
name: small
seed: 2025
trials: 1
link:
  modulation: qpsk
  channel: {model: flat, fading: constant}
  power: {policy: fixed, snr_max_db: 10}
learning:
  algorithm: fedavg
  data: digits
  model: linear
  upload: update
  num_devices: 4
  rounds: 2
sweep:
  - learning.codec: [{name: fixed-point, bound: 2.0}, {name: uniform, bits: 4, bound: 4.0}]
  - learning.aggregation: [{name: probit, b: 0.05}, {name: sign, epsilon: none, vote: mean, step: 0.01}]
"""

_MLP = """\
model: {name: mlp, hidden: [8], activation: tanh}
  local: {optimizer: adam, batch_size: 32, decay_steps: 5}
  personal: {lam: 0.1}"""


@pytest.mark.parametrize(
    ("command", "text"),
    [("run", SMALL), ("run", _FEDAVG), ("run", _FEDAVG.replace("model: linear", _MLP)), ("link", _LINK)],
    ids=["flmc", "fedavg", "mlp", "link"],
)
def test_fused_kernels_run_without_tensorflow(command: str, text: str, tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, text)
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, command, scenario, "--out", tmp_path / "out"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
    assert (tmp_path / "out" / "report.html").exists()
    if command == "run":
        points = expand(load_scenario(scenario)).points
        assert not any(one.scenario.learning.loads_tensorflow(one.scenario.link) for one in points)
