"""Whole federated runs in PyTorch, Flower and BlazeFL, for `federated_rivals.py`: reads one order, prints one answer.

Runs in an interpreter of its own, which has `torch` and, by the rival, `flwr[simulation]` or `blazefl`: none of them is
a package of phyloop. An order is `{"rival": .., "study": FILE, "rounds": n, "steps": n, "learning_rate": eta}`.
The file has images, labels and initial weights as NumPy arrays. The answer has the clock and the processor time of all
processes of the rival after each round, and the accuracy of the last model.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

ORDER = "PHYLOOP_RIVAL"
"""Environment variable: the order, which processes that a rival starts inherit."""


class Study:
    """Devices, their samples as tensors, the initial model, and the local steps of an order."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.steps, self.learning_rate, self.rounds = order["steps"], order["learning_rate"], order["rounds"]
        stored = np.load(order["study"])
        pixels = torch.from_numpy(stored["images"])[:, :, None].float() / 255
        self.images, self.labels = list(pixels), list(torch.from_numpy(stored["labels"]))
        self.test = torch.from_numpy(stored["x_test"])[:, None].float() / 255, torch.from_numpy(stored["y_test"])
        self.kinds = stored["kinds"].tolist()
        self.given = [torch.from_numpy(stored[f"weights{i}"]) for i in range(sum("weights" in name for name in stored))]
        self.start = torch.cat([value.flatten() for value in self.given])

    def network(self) -> nn.Sequential:
        """A network of these layers, with weights yet to be set."""
        shapes = iter([value.shape for value in self.given if value.ndim > 1])
        return nn.Sequential(*(_module(kind, shapes) for kind in self.kinds))

    def trained(self, network: nn.Module, start: torch.Tensor, device: int) -> torch.Tensor:
        """The weights of a device after its local steps from `start`, each on all its samples."""
        vector_to_parameters(start.clone(), network.parameters())  # which would step on `start` itself
        optimizer = torch.optim.SGD(network.parameters(), lr=self.learning_rate)
        for _ in range(self.steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(self.images[device]), self.labels[device]).backward()
            optimizer.step()
        return parameters_to_vector(network.parameters()).detach()

    def accuracy(self, weights: torch.Tensor) -> float:
        """Share of right labels on the test images."""
        network, (x, y) = self.network(), self.test
        vector_to_parameters(weights, network.parameters())
        with torch.no_grad():
            return float((network(x).argmax(dim=1) == y).float().mean())


def _module(kind: str, shapes: Any) -> nn.Module:
    match kind:
        case "conv":
            after, before, size, _ = next(shapes)
            return nn.Conv2d(before, after, size)
        case "dense":
            after, before = next(shapes)
            return nn.Linear(before, after)
        case "pool":
            return nn.MaxPool2d(2)
        case "flatten":
            return nn.Flatten()
        case _:
            return nn.ReLU()


@lru_cache(maxsize=1)
def study() -> Study:
    """The study of the order, read once in each process."""
    return Study(json.loads(os.environ[ORDER]))


def processor_s() -> float:
    """Processor time of this process and of all that descend from it [s]."""
    parents, spent = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        process = int(path.parent.name)
        parents[process], spent[process] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while grown := {child for child, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(spent[one] for one in family) / os.sysconf("SC_CLK_TCK")


class Watch:
    """Clock and processor time after each round."""

    def __init__(self) -> None:
        self.stamps: list[tuple[float, float]] = []

    def stamp(self) -> None:
        """Note the end of a round."""
        self.stamps.append((time.time(), processor_s()))


def torch_loop(watch: Watch, *, threads: int) -> torch.Tensor:
    """Device after device in one loop."""
    torch.set_num_threads(threads)
    one = study()
    network, weights, count = one.network(), one.start, len(one.images)
    for _ in range(one.rounds):
        weights = torch.stack([one.trained(network, weights, device) for device in range(count)]).mean(dim=0)
        watch.stamp()
    return weights


def flower(watch: Watch) -> torch.Tensor:
    """A ServerApp with FedAvg and a ClientApp of PyTorch in Flower's simulation, one core for each worker."""
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client, server = ClientApp(), ServerApp()
    last: list[torch.Tensor] = []
    count = len(study().images)

    def vector(arrays: Any) -> torch.Tensor:
        return torch.from_numpy(arrays["weights"].numpy().copy())

    def record(weights: torch.Tensor) -> Any:
        return ArrayRecord({"weights": weights})

    @client.train()
    def train(message: Message, context: Context) -> Message:
        from federated_peers import study  # by name: what a worker has read stays with it

        torch.set_num_threads(1)
        one, device = study(), int(context.node_config["partition-id"])
        trained = one.trained(one.network(), vector(message.content["arrays"]), device)
        metrics = MetricRecord({"num-examples": len(one.labels[device])})
        return Message(RecordDict({"arrays": record(trained), "metrics": metrics}), reply_to=message)

    def ended(index: int, arrays: Any) -> None:
        if index:
            watch.stamp()
            last[:] = [vector(arrays)]

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        del context
        strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=count, min_available_nodes=count)
        strategy.start(grid=grid, initial_arrays=record(study().start), num_rounds=study().rounds, evaluate_fn=ended)

    resources: Any = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app=server, client_app=client, num_supernodes=count, backend_config=resources)
    return last[0]


def _trained_there(start: torch.Tensor, device: int) -> torch.Tensor:
    torch.set_num_threads(1)
    return study().trained(study().network(), start, device)


def blazefl(watch: Watch, *, processes: bool) -> torch.Tensor:
    """BlazeFL's pool of threads or processes, one for each core, around the same local training."""
    import torch.multiprocessing as mp
    from blazefl.core import IPCMode, ProcessPoolClientTrainer, ThreadPoolClientTrainer

    class Threads(ThreadPoolClientTrainer[torch.Tensor, torch.Tensor]):
        def __init__(self) -> None:
            self.num_parallels, self.device, self.device_count = os.cpu_count() or 1, "cpu", 0
            self.cache: list[torch.Tensor] = []
            self.stop_event = threading.Event()

        def worker(self, cid: int, device: str, payload: torch.Tensor, stop_event: Any) -> torch.Tensor:
            del device, stop_event
            return _trained_there(payload, cid)

    class Processes(ProcessPoolClientTrainer[torch.Tensor, torch.Tensor, int]):
        def __init__(self) -> None:
            self.num_parallels, self.device, self.device_count = os.cpu_count() or 1, "cpu", 0
            self.cache: list[torch.Tensor] = []
            self.stop_event, self.ipc_mode = mp.Manager().Event(), IPCMode.SHARED_MEMORY

        def get_client_config(self, cid: int) -> int:
            return cid

        def prepare_uplink_package_buffer(self) -> torch.Tensor:
            return torch.empty_like(study().start)

        worker = staticmethod(_blazefl_worker)

    torch.set_num_threads(1)
    weights, trainer = study().start, Processes() if processes else Threads()
    for _ in range(study().rounds):
        trainer.local_process(weights.clone(), list(range(len(study().images))))
        weights = torch.stack(trainer.cache).mean(dim=0)
        trainer.cache = []
        watch.stamp()
    return weights


def _blazefl_worker(config: int, payload: torch.Tensor, device: str, stop_event: Any, *, shm_buffer: Any) -> Any:
    from blazefl.core import SHMHandle

    del device, stop_event
    shm_buffer.copy_(_trained_there(payload, config))
    return SHMHandle()


RIVALS: dict[str, Callable[[Watch], torch.Tensor]] = {
    "PyTorch, 1 thread": lambda watch: torch_loop(watch, threads=1),
    "PyTorch, all threads": lambda watch: torch_loop(watch, threads=os.cpu_count() or 1),
    "Flower": flower,
    "BlazeFL, threads": lambda watch: blazefl(watch, processes=False),
    "BlazeFL, processes": lambda watch: blazefl(watch, processes=True),
}


def main() -> None:
    """Carry out the order."""
    watch = Watch()
    weights = RIVALS[json.loads(os.environ[ORDER])["rival"]](watch)
    print(json.dumps({"stamps": watch.stamps, "accuracy": study().accuracy(weights)}), file=sys.stdout, flush=True)


if __name__ == "__main__":
    main()
