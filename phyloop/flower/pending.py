"""Messages of training on their way: what was sent under each message id, until its reply has come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message, MessageType, RecordDict


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A message of training: its content as the server sent it and as the client received it.

    `downlink` are the measured numbers of its transmission to the client by name.
    """

    node: int
    message_type: str
    by_server: RecordDict
    by_client: RecordDict
    expires_s: float
    downlink: Mapping[str, Any] = field(default_factory=dict)


class Pending:
    """The messages that have no reply yet, by message id; one that has expired is forgotten, as Flower forgets it."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._sent, self._clock = dict[str, Sent](), clock

    def __len__(self) -> int:
        return len(self._sent)

    def keep(self, message_ids: Iterable[str | None], sent: Sequence[Sent | None]) -> None:
        """Keep what was sent under each id; None among ids: the grid did not take the message."""
        now = self._clock()
        self._sent = {number: one for number, one in self._sent.items() if one.expires_s >= now}
        for number, one in zip(message_ids, sent, strict=True):
            if number and one is not None:
                self._sent[number] = one

    def take(self, reply: Message) -> Sent | None:
        """Return what `reply` answers, and forget it; None where no message of training waits for it."""
        return self._sent.pop(reply.metadata.reply_to_message_id, None)


def trains(message: Message) -> bool:
    """Return True for messages of training: of type `train` or `train.NAME`."""
    return message.metadata.message_type.split(".")[0] == MessageType.TRAIN


def transmissions(waiting: Iterable[tuple[int, str]]) -> Iterator[list[int]]:
    """Yield the positions of what travels together: of one message type, and at most one of each node.

    `waiting` holds (node, message type) of each message, in order. A second message of a node travels after the first.
    """
    groups = dict[tuple[str, int], list[int]]()
    seen = dict[tuple[int, str], int]()
    for position, (node, kind) in enumerate(waiting):
        turn = seen.get((node, kind), 0)
        seen[node, kind] = turn + 1
        groups.setdefault((kind, turn), []).append(position)
    yield from groups.values()
