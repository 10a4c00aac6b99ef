"""The `Grid` of a Flower ServerApp whose messages of training travel over a simulated radio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flwr.app import Error, Message, MessageType
from flwr.serverapp import Grid

from fl.tasks.base import LearningError
from phyloop.arguments import checked
from phyloop.flower.directions import Downlink, Senders, Sent, Uplink
from phyloop.flower.settings import LinkSource, read_settings
from phyloop.links import in_words
from scenarios.studies.flower.store import FlowerStore, RoundOfClients

if TYPE_CHECKING:
    from pandas import DataFrame

LOST = 1000
"""Code of the error that stands in for a reply of which a packet was lost."""


class AirGrid(Grid):
    """A Flower `Grid` over which the updates of clients travel through phyloop's link, measured bit by bit.

    Hand it to any strategy in place of the grid of the ServerApp. Replies to messages of type `train` travel over the
    uplink: their floating-point arrays less those that the client received. Their other arrays, other records, and
    messages of other types stay as they are. A client is the sender with index `senders[node_id]`, in every round.

    Args:
        grid: the grid of the ServerApp.
        link: the uplink: a YAML file with a `link:` section or its keys alone, the name of a library scenario, a
            dictionary, or a `LinkConfig`. Access is orthogonal (or noma); modulation `auto` is QPSK.
        codec: numbers to bits, as `learning.codec` of a scenario. The default is binary32, in which one wrong bit may
            change a number by 1e38: over a link with bit errors write a codec with a bound, or `receiver_limit`.
        scheme: jopeq, laplace, mvu, probit, or sign with vote mean, in place of a codec, as `learning.aggregation`. The
            strategy receives what the scheme decodes of each client.
        privacy: a mechanism for uploads, as `privacy:` of a scenario. It needs `learning` and `samples`.
        learning: settings of the clients' training on which a mechanism rests, and which phyloop cannot see: `rounds`
            and `local`. Also `receiver_limit`: larger received numbers keep the value that the server sent.
        samples: number of samples of each client, in the order of `senders`, or one number for all.
        downlink: a link over which the clients receive the model; None: without errors. A number that does not arrive
            keeps the value that the client received last.
        lost: `drop` turns a reply of which a packet was lost into an error, so that a strategy aggregates the others;
            `previous` keeps the value that the server sent for each number that did not arrive.
        num_devices: number of clients of the link. The default is the number of nodes at the first upload.
        seed: seed of all random draws.
        out: run folder for the measured numbers, which `phyloop report` draws and `phyloop export` writes as CSV.

    Raises:
        ScenarioError: a setting is wrong, or settings exclude each other; where this depends on the number of clients
            or values, at the first upload.

    Example:
        >>> from flwr.serverapp.strategy import FedAvg
        >>> link = {"channel": {"fading": "rayleigh"}, "power": {"snr_max_db": 18}}
        >>> def main(grid, context):
        ...     air = AirGrid(grid, link=link, codec={"name": "fixed-point", "bound": 0.5}, seed=1)
        ...     result = FedAvg().start(grid=air, initial_arrays=arrays, num_rounds=3)
        ...     print(air.link.groupby("round")["bit_errors"].sum())
    """

    @checked
    def __init__(
        self,
        grid: Grid,
        *,
        link: LinkSource,
        codec: str | Mapping[str, Any] | None = None,
        scheme: str | Mapping[str, Any] | None = None,
        privacy: Mapping[str, Any] | None = None,
        learning: Mapping[str, Any] | None = None,
        samples: int | Sequence[int] | None = None,
        downlink: LinkSource | None = None,
        lost: Literal["drop", "previous"] = "drop",
        num_devices: int | None = None,
        seed: int = 0,
        out: str | Path | None = None,
    ) -> None:
        self._grid, self._senders = grid, Senders(num_devices)
        self._settings = read_settings(
            link=link,
            codec=codec,
            scheme=scheme,
            privacy=privacy,
            learning=learning,
            samples=samples,
            downlink=downlink,
            lost=lost,
            seed=seed,
        )
        self.rounds: list[RoundOfClients] = []
        """Measured numbers of each transmission over the uplink."""
        self._sent: dict[int, Sent] = {}
        self._uplink = Uplink(self._settings, senders=self._senders)
        self._downlink = None if downlink is None else Downlink(self._settings, senders=self._senders)
        self._folder = None if out is None else FlowerStore.begin(Path(out), root=self._settings.root)

    @property
    def senders(self) -> Mapping[int, int]:
        """Sender index of each node id; nodes that were first seen together are in ascending order of their ids."""
        return self._senders.index

    @property
    def link(self) -> DataFrame:
        """Measured numbers of the uplink: one row per round and client that sent.

        `round` counts transmissions from 1; `lost` is 1 where a packet did not arrive. Airtime in seconds, energy in
        joules, SNR in dB.
        """
        from pandas import DataFrame

        return DataFrame([row for one in self.rounds for row in one.rows()])

    def close(self) -> None:
        """Close the run folder, which then may be deleted or moved."""
        if self._folder is not None:
            self._folder.close()

    def __repr__(self) -> str:
        return f"<AirGrid: {in_words(self._settings.link)}, {len(self.rounds)} rounds measured>"

    # --- the interface of Grid ---------------------------------------------------------------------

    def set_run(self, run: Any) -> None:
        """See `Grid`."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """See `Grid`."""
        return self._grid.run

    def create_message(self, *args: Any, **settings: Any) -> Message:
        """See `Grid`."""
        return self._grid.create_message(*args, **settings)

    def get_node_ids(self) -> Iterable[int]:
        """See `Grid`."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        """See `Grid`."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """See `Grid`; messages of training travel over the downlink."""
        return self._grid.push_messages(self._to_clients(list(messages)))

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """See `Grid`; the replies of training that are pulled together are one transmission over the uplink."""
        return self._to_server(list(self._grid.pull_messages(message_ids)))

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """See `Grid`; messages of training travel over the downlink, their replies over the uplink."""
        return self._to_server(list(self._grid.send_and_receive(self._to_clients(list(messages)), timeout=timeout)))

    # --- messages of training ----------------------------------------------------------------------

    def _to_clients(self, messages: list[Message]) -> list[Message]:
        """Return the messages as the clients receive them, and remember those of training."""
        training = [one for one in messages if _trains(one)]
        models = {one.metadata.dst_node_id: one.content for one in training}
        if len(models) < len(training):
            raise LearningError("a client is sent two messages of training at once; send one message to each client")
        if not models:
            return messages
        self._senders.see(models if self._senders.index else {*self._grid.get_node_ids(), *models})
        received = models
        if self._downlink is not None:
            received = self._downlink.send(models)
        for one in training:
            node = one.metadata.dst_node_id
            one.content = received[node]
            self._sent[node] = Sent(one, models[node], received[node])
        return messages

    def _to_server(self, replies: list[Message]) -> list[Message]:
        """Return the replies as the server receives them; those of training are one transmission."""
        training = {
            one.metadata.src_node_id: one
            for one in replies
            if _trains(one) and one.has_content() and one.metadata.src_node_id in self._sent
        }
        sent = {node: self._sent.pop(node) for node in training}
        updates = {node: one.content for node, one in training.items()}
        received, measured = self._uplink.send(updates, sent=sent)
        for node, content in received.items():
            training[node].content = content
        if measured is None:
            return replies
        if self._downlink is not None:
            measured = measured.beside(self._downlink.measured, prefix="downlink_")
        self.rounds.append(measured)
        if self._folder is not None:
            self._folder.keep(measured)
        if self._settings.lost == "previous":
            return replies
        error = Error(LOST, "a packet was lost on the uplink")
        lost = {node: Message(error, reply_to=sent[node].message) for node in measured.lost}
        return [lost.get(one.metadata.src_node_id, one) if _trains(one) else one for one in replies]


def _trains(message: Message) -> bool:
    return message.metadata.message_type.split(".")[0] == MessageType.TRAIN
