"""A Flower grid in memory, with clients that are functions: no processes and no network."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # what a ServerApp's process knows of itself

Client = Callable[[int, Message], RecordDict | Error]
NODES = (907, 11, 5_000_000_000_000_000_000, 42)
FIXED = {"name": "fixed-point", "bound": 0.5}
FADING = {"channel": {"fading": "rayleigh", "coherence": "round"}, "power": {"policy": "fixed", "snr_max_db": 8}}
ERROR_FREE = {"error_model": "error_free"}


class MemoryGrid(Grid):
    """Hands each message to `client(node_id, message)`, and keeps what the clients received."""

    def __init__(self, client: Client, nodes: Iterable[int] = NODES) -> None:
        self.client, self.nodes = client, tuple(nodes)
        self.received: list[Message] = []
        self._waiting: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        self.of_run = run

    @property
    def run(self) -> Any:
        return self.of_run

    def create_message(self, *args: Any, **settings: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return self.nodes

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        for one in messages:
            number = f"m{len(self.received)}"
            one.metadata.__dict__["_message_id"] = number
            self.received.append(one)
            content = self.client(one.metadata.dst_node_id, one)
            self._waiting[number] = Message(content, reply_to=one)
            yield number

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._waiting.pop(one) for one in message_ids if one in self._waiting]

    def send_and_receive(self, messages: Iterable[Message], **_: Any) -> Iterable[Message]:
        return self.pull_messages(list(self.push_messages(messages)))


def arrays(**values: Any) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in values.items()})


def instructions(model: ArrayRecord, nodes: Iterable[int] = NODES, kind: str = "train") -> list[Message]:
    content = RecordDict({"arrays": model, "config": ConfigRecord({"server-round": 1})})
    return [Message(content, node, kind) for node in nodes]


def adds(updates: dict[int, np.ndarray]) -> Client:
    """Return clients that add an update of their own to the array `w`."""

    def client(node: int, message: Message) -> RecordDict:
        model = message.content.array_records["arrays"]["w"].numpy()
        metrics = MetricRecord({"num-examples": 10, "mse": float(np.mean(model**2))})
        if message.metadata.message_type != "train":
            return RecordDict({"metrics": metrics})
        return RecordDict({"arrays": arrays(w=(model + updates[node]).astype(model.dtype)), "metrics": metrics})

    return client
