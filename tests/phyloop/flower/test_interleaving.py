"""Pushes and pulls in any order: each reply is delivered once, with its noise and its row, or it is refused."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

pytest.importorskip("flwr")
from flower_app import ERROR_FREE, NODES, MemoryGrid, arrays
from flwr.app import ConfigRecord, Error, Message, RecordDict
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from phyloop.flower import UNKNOWN, AirGrid
from phyloop.flower.pending import Pending, Sent, transmissions

SIZE = 16
ROUNDS = 500
PRIVACY = {"mechanism": "gaussian", "epsilon": 50.0}
LEARNING = {"rounds": ROUNDS, "local": {"clip": 1.0, "learning_rate": 0.1, "steps": 1}}


def update(number: int) -> np.ndarray:
    """Return the update of a client that was sent model `number`: no two are alike, and all are below the clip."""
    return np.full(SIZE, 0.001 * (1 + number % 90), np.float32)


def client(_: int, message: Message) -> RecordDict | Error:
    config = message.content["config"]
    if config["fails"]:
        return Error(7, "the client failed")
    model = message.content.array_records["arrays"]["w"].numpy()
    return RecordDict({"arrays": arrays(w=model + update(config["number"])), "config": ConfigRecord(dict(config))})


def grid_with_privacy() -> AirGrid:
    return AirGrid(
        MemoryGrid(client), link=ERROR_FREE, privacy=PRIVACY, learning=LEARNING, samples=2, num_devices=len(NODES)
    )


class AnyOrder(RuleBasedStateMachine):
    """An app that pushes messages of several types to any client, and pulls any of their replies, joint or late."""

    def __init__(self) -> None:
        super().__init__()
        self.air = grid_with_privacy()
        self.numbers = itertools.count()
        self.expected: dict[str, tuple[int, str, bool]] = {}
        self.pulled: list[str] = []
        self.delivered = 0

    def _message(self, node: int, kind: str, fails: bool) -> tuple[Message, int]:
        number = next(self.numbers)
        config = ConfigRecord({"number": number, "fails": fails})
        content = RecordDict({"arrays": arrays(w=np.full(SIZE, 100.0 * number, np.float32)), "config": config})
        return Message(content, node, kind), number

    def _check(self, replies: list[Message]) -> None:
        for one in replies:
            number, kind, fails = self.expected.pop(one.metadata.reply_to_message_id)
            if fails:
                assert one.error.code == 7
                continue
            error = one.content.array_records["arrays"]["w"].numpy() - (100.0 * number + update(number))
            if not kind.startswith("train"):
                np.testing.assert_array_equal(error, 0.0)
                continue
            self.delivered += 1
            assert (error != 0.0).any(), "an update without noise"
            sigma = self.air.rounds[-1].numbers["sigma"]
            assert np.abs(error).max() < 8 * sigma, "an update on another model"

    @rule(
        sends=st.lists(
            st.tuples(st.sampled_from(NODES), st.sampled_from(["train", "train.b", "evaluate"]), st.booleans()),
            max_size=5,
        ),
        at_once=st.booleans(),
    )
    def push(self, sends: list[tuple[int, str, bool]], at_once: bool) -> None:
        made = [(self._message(node, kind, fails), kind, fails) for node, kind, fails in sends]
        if at_once:
            replies = list(self.air.send_and_receive([message for (message, _), _, _ in made]))
            for (message, number), kind, fails in made:
                self.expected[message.metadata.message_id] = (number, kind, fails)
            assert len(replies) == len(made)
            self._check(replies)
            return
        ids = list(self.air.push_messages([message for (message, _), _, _ in made]))
        assert len(ids) == len(made)
        for message_id, ((_, number), kind, fails) in zip(ids, made, strict=True):
            self.expected[message_id] = (number, kind, fails)

    @rule(data=st.data())
    def pull(self, data: st.DataObject) -> None:
        waiting = list(self.expected)
        ids = data.draw(st.lists(st.sampled_from(waiting), unique=True)) if waiting else []
        replies = list(self.air.pull_messages([*ids, *self.pulled[-2:]]))
        assert sorted(one.metadata.reply_to_message_id for one in replies) == sorted(ids)
        self.pulled += ids
        self._check(replies)

    @rule(node=st.sampled_from(NODES))
    def send_past_the_air_grid(self, node: int) -> None:
        message, _ = self._message(node, "train", False)
        (message_id,) = self.air._grid.push_messages([message])
        (reply,) = self.air.pull_messages([message_id])
        assert reply.error.code == UNKNOWN

    @invariant()
    def every_delivered_update_has_a_row(self) -> None:
        rows = [row for one in self.air.rounds for row in one.rows()]
        assert len(rows) == self.delivered
        assert all(len(set(one.nodes)) == len(one.nodes) for one in self.air.rounds)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=25, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_two_replies_of_one_node_pulled_together_are_two_transmissions() -> None:
    air, machine = grid_with_privacy(), AnyOrder()
    for _ in range(2):
        air.push_messages([machine._message(NODES[0], "train", False)[0]])
    replies = list(air.pull_messages(["m0", "m1"]))
    assert [one.nodes for one in air.rounds] == [(NODES[0],)] * 2
    assert len(replies) == 2


def test_messages_travel_together_by_type_and_turn() -> None:
    waiting = [(1, "train"), (2, "train"), (1, "train"), (1, "train.b"), (2, "train.b"), (1, "train")]
    assert list(transmissions(waiting)) == [[0, 1], [2], [3, 4], [5]]


def test_a_message_that_expired_is_forgotten() -> None:
    now = time.time()
    content = RecordDict()
    sent = [
        Sent(node=1, message_type="train", by_server=content, by_client=content, expires_s=now + wait)
        for wait in (5.0, 500.0)
    ]
    clock = iter((now, now + 50.0))
    pending = Pending(clock=lambda: next(clock))
    pending.keep(["a", "b"], sent)
    pending.keep([], [])
    assert len(pending) == 1
