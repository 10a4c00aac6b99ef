"""The two directions of a Flower app over the radio: models to the clients, updates to the server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress
from typing import NamedTuple

import numpy as np
from flwr.app import Error, RecordDict
from numpy.typing import NDArray

from fl.algorithms.fedavg.federation import downlink_seed, placed_downlink
from fl.base.errors import LearningError
from fl.uplink.protection import Protection
from fl.uplink.transport import BitTransport
from phy.fading.block_taps import UplinkContext
from phyloop.flower.numbers import Layout, Numbers, layout_of, pieces_of, size_of, vector, with_vector
from phyloop.flower.path import CodecPath, Path, Radio, build_path
from phyloop.flower.pending import Sent
from phyloop.flower.settings import Settings
from scenarios.schema.errors import ScenarioError
from scenarios.studies.flower.store import RoundOfClients

Contents = Mapping[int, RecordDict]
"""Content of a message by node id."""
NOT_FINITE = 1002
"""Code of the error that stands in for a reply with NaN, or with numbers beyond the range of float32."""


class ClientUpload(NamedTuple):
    """The content of a client's reply, and the message of training that it answers."""

    content: RecordDict
    sent: Sent


class ClientSenders:
    """Sender index of each node id, the same in every round; `count` senders in all, None: as many as are first seen.

    Nodes that are seen together are numbered in ascending order of their ids.
    """

    def __init__(self, count: int | None) -> None:
        self.count, self.index = count or 0, dict[int, int]()

    def see(self, nodes: Iterable[int]) -> None:
        """Number nodes; ScenarioError where the link has no sender for one of them."""
        for node in sorted(set(nodes).difference(self.index)):
            self.index[node] = len(self.index)
        self.count = self.count or len(self.index)
        if len(self.index) > self.count:
            raise ScenarioError(
                key="num_devices",
                value=self.count,
                problem=f"the link has fewer senders than the app has clients ({len(self.index)})",
                remedy="give the number of clients that may ever connect",
            )

    def at(self, nodes: Iterable[int]) -> tuple[list[int], NDArray[np.int64]]:
        """Return nodes in the order of their indices, and the indices."""
        ordered = sorted(nodes, key=self.index.__getitem__)
        return ordered, np.array([self.index[node] for node in ordered], np.int64)


class Uplink:
    """Updates of clients to the server."""

    def __init__(self, settings: Settings, *, senders: ClientSenders) -> None:
        self._settings, self._senders = settings, senders
        self._paths: dict[Layout, Path] = {}
        self._round = 0

    def send(self, uploads: Mapping[int, ClientUpload]) -> tuple[dict[int, RecordDict | Error], RoundOfClients | None]:
        """Return what the server receives of each node, and what was measured; None where nothing can be sent.

        A client whose update has NaN, or numbers beyond float32, does not send; its reply becomes an error. Raises
        LearningError for replies that differ in their arrays, and where the codec clips more values than it may.
        """
        layout = common_layout({node: one.content for node, one in uploads.items()})
        received: dict[int, RecordDict | Error] = {node: one.content for node, one in uploads.items()}
        if not size_of(layout):
            return received, None
        nodes, at = self._senders.at(uploads)
        sent = [uploads[node].sent for node in nodes]
        models = _vectors((content for one in sent for content in (one.by_server, one.by_client)), layout)
        updates = np.stack(
            [vector(uploads[node].content, layout) - models[id(uploads[node].sent.by_client)] for node in nodes]
        )
        with np.errstate(over="ignore"):
            finite = np.asarray(np.isfinite(updates.astype(np.float32, copy=False)).all(axis=1))
        received |= {
            node: Error(
                NOT_FINITE, f"the update of node {node} has NaN, or numbers beyond 3.4e38, which cannot be sent"
            )
            for node, sends in zip(nodes, finite, strict=True)
            if not sends
        }
        if not finite.any():
            return received, None
        nodes, sent = list(compress(nodes, finite)), list(compress(sent, finite))
        at, updates = at[finite], updates[finite]
        if layout not in self._paths:
            config = self._settings.config(num_devices=self._senders.count, num_values=updates.shape[1])
            self._paths[layout] = build_path(self._settings, config=config, pieces=pieces_of(layout), updates=updates)
        self._settings.refuse_beyond(self._round)
        seed = self._settings.scenario.seed
        context = UplinkContext(seed=seed, trials=(0,), round_index=self._round)
        arrived = self._paths[layout].send(updates, at, nodes=nodes, context=context)
        values = arrived.values if arrived.known is None else np.where(arrived.known, arrived.values, 0)
        for node, one, row in zip(nodes, sent, values, strict=True):
            received[node] = with_vector(uploads[node].content, layout, models[id(one.by_server)] + row)
        measured = RoundOfClients(
            index=self._round,
            nodes=tuple(nodes),
            columns={"sender": at, "lost": arrived.lost.astype(np.int64), **arrived.link, **arrived.devices},
            numbers={**arrived.numbers, "num_values": updates.shape[1]},
        )
        self._round += 1
        return received, measured


class Downlink:
    """Models of the server to the clients."""

    def __init__(self, settings: Settings, *, senders: ClientSenders) -> None:
        self._settings, self._senders = settings, senders
        self._paths: dict[Layout, CodecPath] = {}
        self._held: dict[int, RecordDict] = {}
        self._round = 0
        self.measured: dict[int, dict[str, float]] = {}
        """Measured numbers of the last transmission to each node."""

    def send(self, models: Contents) -> dict[int, RecordDict]:
        """Return the models as the clients receive them; a number that does not arrive is what the client had.

        Each client knows the first model that is sent to it. Raises as `Uplink.send`.
        """
        layout = common_layout(models)
        if not size_of(layout):
            return dict(models)
        nodes, at = self._senders.at(models)
        numbers = np.stack([vector(models[node], layout) for node in nodes])
        before = [vector(self._held.get(node, models[node]), layout) for node in nodes]
        if layout not in self._paths:
            self._paths[layout] = self._path(num_values=numbers.shape[1])
        context = UplinkContext(seed=downlink_seed(self._settings.scenario.seed), trials=(0,), round_index=self._round)
        arrived = self._paths[layout].send(numbers, at, nodes=nodes, context=context)
        values = arrived.values if arrived.known is None else np.where(arrived.known, arrived.values, before)
        for row, node in enumerate(nodes):
            self._held[node] = with_vector(models[node], layout, values[row])
            self.measured[node] = {name: column[row] for name, column in arrived.link.items()}
        self._round += 1
        return {node: self._held[node] for node in nodes}

    def _path(self, *, num_values: int) -> CodecPath:
        config = self._settings.config(num_devices=self._senders.count, num_values=num_values)
        assert config.downlink != "ideal"
        assert config.downlink_codec is not None
        link = placed_downlink(
            config.downlink, num_devices=self._senders.count, seed=self._settings.scenario.seed, trial=0
        )
        codec = config.downlink_codec
        bits = BitTransport(
            link.resolve_digital(),
            protection=Protection(),
            num_devices=self._senders.count,
            num_bits=num_values * codec.bits_per_value,
        )
        return CodecPath(codec, receiver_limit=config.receiver_limit, radio=Radio(bits=bits))


def _vectors(contents: Iterable[RecordDict], layout: Layout) -> dict[int, Numbers]:
    """Return the vector of each content by its `id`; clients may share one content."""
    return {number: vector(content, layout) for number, content in {id(one): one for one in contents}.items()}


def common_layout(contents: Contents) -> Layout:
    """Return the layout of all contents. Raises LearningError where two differ."""
    layouts = {layout_of(content): node for node, content in contents.items()}
    if len(layouts) > 1:
        first, second = list(layouts.values())[:2]
        raise LearningError(
            f"the arrays of nodes {first} and {second} differ in name or shape", "let all clients train the same model"
        )
    return next(iter(layouts), ())
