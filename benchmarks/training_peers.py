"""One local step of the papers' networks beside Keras, PyTorch, JAX and the product of two matrices.

    python benchmarks/training_peers.py [--peers PYTHON]

`PYTHON` is an interpreter with `torch` and `jax` (`pip install torch jax` in an environment of its own); without it,
Keras alone is compared. Each device takes one full-batch step from the same weights, with and without per-sample
clipping. Ours trains all devices in one call; a rival trains one device and its time is scaled up, as its time per
device does not depend on how many there are. Our times include dropout, drawing and handing out the weights; rivals
only compute gradients, without dropout. GFLOP/s counts 3 forward passes of multiplications and additions, whatever was
really computed; the peak is NumPy's product of two 2048 x 2048 float32 matrices. Medians of `TURNS` turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from timing import interleaved_rates, markdown_table, median_ratio

from fl.data.arrays import ImageData
from fl.data.partition.split import Partition
from fl.local.config import LocalConfig
from fl.local.trainer import LocalTrainer
from fl.models.build import build_model
from fl.models.federated import FederatedModel
from fl.models.kinds.networks import ModelConfig, ModelName, architecture
from fl.models.layers import Conv, Dense, Function, MaxPool, walk

CLIP = 1.0
TURNS = 3
_KINDS = {Conv: "conv", Dense: "dense", MaxPool: "pool"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A network, its images, and how many devices with how many samples."""

    model: ModelName
    image: tuple[int, int, int]
    num_devices: int
    samples: int
    classes: int

    @property
    def layers(self) -> list[dict[str, Any]]:
        """Layers as `training_rivals.py` reads them, without dropout."""
        found: list[dict[str, Any]] = []
        for layer in self._architecture():
            kind = layer.kind if isinstance(layer, Function) else _KINDS.get(type(layer))
            if kind:
                sizes = {"filters", "kernel", "units", "window"}
                found.append({"kind": kind, **{name: getattr(layer, name) for name in sizes if hasattr(layer, name)}})
        return found

    @property
    def flop(self) -> float:
        """Of one sample: 3 forward passes, 2 per multiplication and addition."""
        total = 0
        for layer, before, after in walk(self._architecture(), self.image):
            if isinstance(layer, Conv):
                total += int(np.prod(after)) * layer.kernel**2 * before[-1]
            elif isinstance(layer, Dense):
                total += before[-1] * layer.units
        return 6.0 * total

    def built(self) -> FederatedModel:
        """The network as Keras has it."""
        config = ModelConfig(name=self.model)
        return build_model(config, image_shape=self.image, num_classes=self.classes, seed=1, trial=0)

    def _architecture(self) -> tuple[Any, ...]:
        return architecture(ModelConfig(name=self.model), image_shape=self.image, num_classes=self.classes)


CASES = (
    Case(model="emnist-cnn", image=(28, 28, 1), num_devices=4, samples=500, classes=62),
    Case(model="cnn2", image=(32, 32, 3), num_devices=100, samples=16, classes=10),
    Case(model="cnn3", image=(32, 32, 3), num_devices=100, samples=16, classes=10),
    Case(model="mlp", image=(28, 28, 1), num_devices=1000, samples=5, classes=10),
)


def our_step(case: Case, *, clip: float | None) -> Callable[[], object]:
    """`LocalTrainer` over all devices."""
    total = case.num_devices * case.samples
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 256, (total, *case.image), dtype=np.uint8), rng.integers(0, case.classes, total)
    data = ImageData(
        name="emnist",
        x_train=x,
        y_train=y,
        x_test=x[:1],
        y_test=y[:1],
        x_validation=x[:0],
        y_validation=y[:0],
        num_classes=case.classes,
        scale=1.0 / 255.0,
        shift=0.0,
        source="random",
    )
    dealt = Partition(devices=tuple(np.arange(total).reshape(case.num_devices, -1)), labels=y, num_classes=case.classes)
    model, local = case.built(), LocalConfig(learning_rate=0.1, clip=clip, steps=1)
    learner = LocalTrainer(model, config=local, data=data, partition=dealt, seed=1, trial=0)
    start, devices = model.initial_weights(), np.arange(case.num_devices)
    return lambda: learner.train(start, devices=devices, round_index=0).weights


def keras_step(case: Case) -> Callable[[], None]:
    """One compiled step of one device with a tape, without clipping."""
    import tensorflow as tf

    network = case.built().network
    rng = np.random.default_rng(1)
    images = tf.constant(rng.random((case.samples, *case.image), np.float32))
    labels = tf.constant(rng.integers(0, case.classes, case.samples))

    @tf.function(jit_compile=True)
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, network(images, training=False))
            )
        return tape.gradient(loss, [variable.value for variable in network.trainable_variables])

    return lambda: step()[-1].numpy()


class Peers:
    """`training_rivals.py` in another interpreter; the package folders are kept off its path."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, Path(__file__).with_name("training_rivals.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        )

    def seconds(self, rival: str, case: Case, clip: float | None) -> float:
        """How long a step of all devices takes there, from that of one."""
        assert self.process.stdin
        assert self.process.stdout
        order = {"rival": rival, "layers": case.layers, "image": case.image, "samples": case.samples}
        print(json.dumps({**order, "classes": case.classes, "clip": clip}), file=self.process.stdin, flush=True)
        if not (answer := self.process.stdout.readline()):
            raise SystemExit(f"{rival} ended with {self.process.wait()}.")
        return case.num_devices * float(json.loads(answer))


def timed(call: Callable[[], Any]) -> float:
    """Wall time of a call [s]."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def product() -> float:
    """GFLOP/s of a product of two float32 matrices."""
    return 2.0 * 2048**3 / timed(lambda: _LEFT @ _LEFT) / 1e9


_LEFT = np.random.default_rng(1).random((2048, 2048), np.float32)


def rows_of(case: Case, *, clip: float | None, peers: Peers | None) -> list[tuple[str, ...]]:
    """One row per trainer: seconds per step of all devices, GFLOP/s, share of the peak, time over ours."""
    mine = our_step(case, clip=clip)
    calls: dict[str, Callable[[], float]] = {"phyloop": lambda: timed(mine), "product": product}
    if clip is None:
        keras = keras_step(case)
        calls["Keras"] = lambda: case.num_devices * timed(keras)
    if peers:
        for rival in ("PyTorch", "JAX"):
            calls[rival] = partial(peers.seconds, rival, case, clip)
    told = interleaved_rates(calls, repeats=TURNS, slow_s=1e9)
    peak = statistics.median(told.pop("product"))
    name = f"{case.model} {case.num_devices} x {case.samples}, {'clipped' if clip else 'plain'}"
    rows: list[tuple[str, ...]] = []
    for trainer, seconds in told.items():
        rate = case.num_devices * case.samples * case.flop / statistics.median(seconds) / 1e9
        ratio = median_ratio(seconds, told["phyloop"])
        cells = (f"{statistics.median(seconds):.3f}", f"{rate:.0f}", f"{rate / peak:.2f}", f"{ratio:.2f}")
        rows.append((name, trainer, *cells))
    return rows


def main() -> None:
    """Print the table."""
    reads = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reads.add_argument("--peers", help="an interpreter with torch and jax")
    peers = Peers(given) if (given := reads.parse_args().peers) else None
    rows = [row for case in CASES for clip in (None, CLIP) for row in rows_of(case, clip=clip, peers=peers)]
    print(markdown_table(("step", "trained by", "s", "GFLOP/s", "of the product", "time over ours"), rows))


if __name__ == "__main__":
    main()
