"""Whole federated runs beside PyTorch, Flower and BlazeFL, and the share of the radio in a round.

    python benchmarks/federated_rivals.py [--torch PYTHON] [--flower PYTHON] [--blazefl PYTHON]

Each `PYTHON` is an interpreter of its own: with `torch`, with `torch` and `flwr[simulation]`, with `torch` and
`blazefl`. A rival without its interpreter is left out. All rivals learn from the same MNIST images, dealt to devices in
the same way, from the same initial weights, with the same local steps on all samples of a device: no batch is drawn, so
that all of them compute the same model up to rounding, but for the run with radio. Accuracies show that where rounding
stays small: early rounds of `cnn2` let it grow.

Each run is a process of its own, and runs take turns. A round has no test. The end of the first round counts from the
start of the process: imports, data, compiling, workers. Wall time is the median of the rounds after the first.
Processor time is their mean, over all processes of a rival. Both are medians of the repeats. Kernels are on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from timing import markdown_table
from training_peers import Case

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.algorithms.fedavg.federation import Federation
from fl.local.evaluation import evaluate
from fl.models.kinds.networks import ModelConfig, architecture
from fl.models.layers import walk
from phy.config import LinkConfig
from scenarios.engine.start import prepare_tensorflow

ROUNDS, SAMPLES, STEPS, LEARNING_RATE = 50, 100, 5, 0.1
RADIO = {
    "modulation": "qpsk",
    "channel": {"fading": "rayleigh", "coherence": "packet"},
    "power": {"policy": "fixed", "snr_max_db": 20.0},
}
OFF = {"error_model": "error_free"}
STUDIES = {
    "mlp": Case(model="mlp", image=(28, 28, 1), num_devices=100, samples=SAMPLES, classes=10),
    "cnn2": Case(model="cnn2", image=(28, 28, 1), num_devices=20, samples=SAMPLES, classes=10),
}
OURS: dict[str, dict[str, Any]] = {"phyloop, radio off": OFF, "phyloop, radio on": RADIO}
FOREIGN = {
    "torch": ("PyTorch, 1 thread", "PyTorch, all threads"),
    "flower": ("Flower",),
    "blazefl": ("BlazeFL, threads", "BlazeFL, processes"),
}
AXES = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}
"""From Keras' order of a weight's axes to PyTorch's."""
ORDER = "PHYLOOP_RIVAL"
"""Environment variable: the order of a process, as JSON."""


class Run(NamedTuple):
    """Wall and processor time [s] of a round and until the first has ended, and the accuracy of the last model."""

    wall: float
    processor: float
    start_wall: float
    start_processor: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Runs rivals, each in a process of its own."""

    folder: Path
    rounds: int
    pythons: dict[str, str]

    def run(self, study: str, rival: str, *, rounds: int | None = None) -> Run:
        """One run of a rival."""
        kind = next((kind for kind, names in FOREIGN.items() if rival in names), None)
        command: list[str | Path] = (
            [self.pythons[kind], Path(__file__).with_name("federated_peers.py")] if kind else [sys.executable, __file__]
        )
        sizes = {"rounds": rounds or self.rounds, "steps": STEPS, "learning_rate": LEARNING_RATE}
        order = {"rival": rival, "name": study, "study": str(self.folder / f"{study}.npz"), **sizes}
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH" or not kind}
        launched = time.time()
        done = subprocess.run(
            command, env={**environment, ORDER: json.dumps(order)}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{rival}:\n{done.stderr}")
        answer = json.loads(done.stdout.splitlines()[-1])
        ends, spent = zip(*answer["stamps"], strict=True)
        wall, processor = float(np.median(np.diff(ends))), (spent[-1] - spent[0]) / (len(spent) - 1)
        return Run(wall, processor, ends[0] - launched, spent[0], answer["accuracy"])


def federation(study: str, link: dict[str, Any], *, rounds: int) -> Federation:
    """The devices of a study with this link; a test comes after all rounds that are timed."""
    case = STUDIES[study]
    config = FedAvgConfig.model_validate(
        {
            "num_devices": case.num_devices,
            "rounds": rounds + 1,
            "test_every": rounds + 1,
            "data": "mnist",
            "partition": {"kind": "iid", "samples_per_device": SAMPLES},
            "model": case.model,
            "local": {"optimizer": "gd", "learning_rate": LEARNING_RATE, "steps": STEPS},
            "codec": {"name": "fixed-point", "bound": 0.2},
        }
    )
    return Federation(config, link=LinkConfig.model_validate(link), privacy=None, seed=1, trial=0)


def write_study(study: str, file: Path) -> None:
    """Images and labels by device, test images, kinds of layers, and weights in PyTorch's order of axes."""
    here, case = federation(study, OFF, rounds=1), STUDIES[study]
    data, dealt, shape = here.data, np.stack(here.partition.devices), (28, 28)
    layers = architecture(ModelConfig(name=case.model), image_shape=case.image, num_classes=case.classes)
    flat = next(before for layer, before, after in walk(layers, case.image) if len(after) < len(before))
    weights: dict[str, Any] = {}
    for index, piece in enumerate(here.model.pieces):
        value = here.weights[piece.place].reshape(piece.shape)
        if piece.shape[0] == np.prod(flat):
            value = value.reshape(*flat, -1).transpose(2, 0, 1, 3).reshape(piece.shape)
        weights[f"weights{index}"] = np.ascontiguousarray(value.transpose(AXES[value.ndim]))
    np.savez(
        file,
        images=data.x_train[dealt].reshape(*dealt.shape, *shape),
        labels=data.y_train[dealt],
        x_test=data.x_test.reshape(-1, *shape),
        y_test=data.y_test,
        kinds=np.array([layer["kind"] for layer in case.layers]),
        **weights,
    )


def carry_out(order: dict[str, Any]) -> None:
    """Run phyloop in this process, print what `federated_peers.py` prints."""
    prepare_tensorflow()  # one thread for each product of matrices, as in every run
    run = federation(order["name"], OURS[order["rival"]], rounds=order["rounds"])
    stamps = []
    for index in range(order["rounds"]):
        run.round(index)
        stamps.append((time.time(), time.process_time()))
    data = run.data
    accuracy = evaluate(run.model, run.weights, data.x_test, data.y_test, scale=data.scale, shift=data.shift)[1]
    print(json.dumps({"stamps": stamps, "accuracy": accuracy}), flush=True)


def rows_of(study: str, runner: Runner, *, repeats: int) -> list[tuple[str, ...]]:
    """One row per rival: medians over the repeats, and wall time over that of phyloop with radio."""
    rivals = [*OURS, *(name for kind in runner.pythons for name in FOREIGN[kind])]
    for rival in OURS:
        runner.run(study, rival, rounds=2)
    runs: dict[str, list[Run]] = {rival: [] for rival in rivals}
    for _ in range(repeats):
        for rival in rivals:
            runs[rival].append(runner.run(study, rival))
            print(f"... {study}, {rival}: {runs[rival][-1]}", file=sys.stderr, flush=True)
    found = {rival: Run(*map(statistics.median, zip(*some, strict=True))) for rival, some in runs.items()}
    off, on = (found[name] for name in OURS)
    shares = [f"{1 - getattr(off, clock) / getattr(on, clock):.0%} of {clock} time" for clock in ("wall", "processor")]
    print(f"{study}: the radio takes {' and '.join(shares)} of a round.\n")
    case = STUDIES[study]
    name = f"`{case.model}`, {case.num_devices} devices"
    return [
        (
            name,
            rival,
            *(f"{seconds:.3f}" for seconds in (run.wall, run.processor)),
            f"{run.wall / on.wall:.2f}",
            *(f"{seconds:.1f}" for seconds in (run.start_wall, run.start_processor)),
            f"{run.accuracy:.4f}",
        )
        for rival, run in found.items()
    ]


def main() -> None:
    """Print the table, or carry out an order."""
    if ORDER in os.environ:
        carry_out(json.loads(os.environ[ORDER]))
        return
    reads = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind, names in FOREIGN.items():
        reads.add_argument(f"--{kind}", metavar="PYTHON", help=f"an interpreter for {' and '.join(names)}")
    reads.add_argument("--studies", nargs="*", default=list(STUDIES), choices=STUDIES, help="all if left out")
    reads.add_argument("--rounds", type=int, default=ROUNDS, help="of a run")
    reads.add_argument("--repeats", type=int, default=3, help="runs of each rival")
    asked = reads.parse_args()
    pythons = {kind: given for kind in FOREIGN if (given := getattr(asked, kind))}
    for kind in (kind for kind in FOREIGN if kind not in pythons):
        print(f"{' and '.join(FOREIGN[kind])}: left out, for want of --{kind} PYTHON.")
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(folder=Path(folder), rounds=asked.rounds, pythons=pythons)
        rows = []
        for study in asked.studies:
            write_study(study, runner.folder / f"{study}.npz")
            rows += rows_of(study, runner, repeats=asked.repeats)
    header = ("study", "run", "s a round", "processor", "over radio on", "first ends", "processor", "accuracy")
    print(markdown_table(header, rows))


if __name__ == "__main__":
    main()
