"""The `Grid` of a Flower ServerApp whose messages of training travel over a simulated radio."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flwr.app import Error, Message, RecordDict
from flwr.app.message import make_message
from flwr.serverapp import Grid

from fl.base.errors import LearningError
from fl.base.words import plural
from phyloop.arguments import checked
from phyloop.flower.directions import ClientSenders, ClientUpload, Downlink, Uplink
from phyloop.flower.pending import Pending, Sent, trains, transmissions
from phyloop.flower.settings import LinkSource, read_settings
from phyloop.wording import in_words
from scenarios.studies.flower.store import MEASURED, FlowerStore, RoundOfClients

if TYPE_CHECKING:
    from pandas import DataFrame

_LOG = logging.getLogger("phyloop.flower")

LOST = 1000
"""Code of the error that stands in for a reply of which a packet was lost."""
UNKNOWN = 1001
"""Code of the error that stands in for a reply of training to no message of training that this grid has sent."""
UNKNOWN_REPLY = Error(
    UNKNOWN, "no message of training waits for this reply; send messages and pull replies with one AirGrid"
)


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
        self._grid, self._senders = grid, ClientSenders(num_devices)
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
        self.logged: dict[str, dict[int, float]] = {}
        """Metrics that the app has logged, name: round: value."""
        self._pending = Pending()
        self._uplink = Uplink(self._settings, senders=self._senders)
        self._downlink = None if downlink is None else Downlink(self._settings, senders=self._senders)
        self._folder = None if out is None else FlowerStore.begin(Path(out), root=self._settings.kept)

    def log(self, round: int, **metrics: float) -> None:
        """Keep metrics that the app has measured itself, such as the accuracy of the model after a round.

        The page of the run folder draws them by round, and `phyloop compare` compares them between apps. Without `out`
        they are in `logged` alone.

        Args:
            round: number of the round; 0 is before the first, when strategies of Flower evaluate as well.
            metrics: finite numbers by name. A later value of a round replaces an earlier one.

        Raises:
            LearningError: the round is below 0, a value is no finite number, or a name is one that phyloop measures.

        Example:
            >>> air.log(1, accuracy=0.83)
            >>> air.logged
            {'accuracy': {1: 0.83}}
        """
        _refuse_to_log(round, metrics)
        numbers = {name: float(value) for name, value in metrics.items()}
        for name, value in numbers.items():
            self.logged.setdefault(name, {})[int(round)] = value
        if self._folder is not None and numbers:
            self._folder.log(numbers, after_round=int(round))

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
        return f"<AirGrid: {in_words(self._settings.link)}, {plural(len(self.rounds), 'round')} measured>"

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
        outgoing, sent = self._to_clients(list(messages))
        numbers = list(self._grid.push_messages(outgoing))
        # A grid may leave out the ids of messages that it did not take, or give None for them.
        taken = set(numbers)
        own = [one.metadata.message_id for one in outgoing]
        self._pending.keep([number if number in taken else None for number in own], sent)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """See `Grid`; the replies of training that are pulled together travel together over the uplink.

        They are one transmission if they are of one message type and of different clients, else one after the other.
        """
        return self._to_server(list(self._grid.pull_messages(message_ids)))

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """See `Grid`; messages of training travel over the downlink, their replies over the uplink."""
        outgoing, sent = self._to_clients(list(messages))
        replies = list(self._grid.send_and_receive(outgoing, timeout=timeout))
        self._pending.keep([one.metadata.message_id for one in outgoing], sent)
        return self._to_server(replies)

    # --- messages of training ----------------------------------------------------------------------

    def _to_clients(self, messages: list[Message]) -> tuple[list[Message], list[Sent | None]]:
        """Return the messages as the clients receive them, and what each message of training carries."""
        training = [position for position, one in enumerate(messages) if trains(one)]
        nodes = {messages[position].metadata.dst_node_id for position in training}
        if nodes:
            self._senders.see(nodes if self._senders.index else {*self._grid.get_node_ids(), *nodes})
        outgoing, sent = list(messages), list[Sent | None]([None] * len(messages))
        kinds = [(messages[at].metadata.dst_node_id, messages[at].metadata.message_type) for at in training]
        for group in transmissions(kinds):
            own = {kinds[row][0]: messages[training[row]].content for row in group}
            received = own if self._downlink is None else self._downlink.send(own)
            for row in group:
                position, (node, kind) = training[row], kinds[row]
                metadata = messages[position].metadata
                # The app's own message keeps its content, so that it may be pushed again.
                outgoing[position] = make_message(metadata=metadata, content=received[node])
                sent[position] = Sent(
                    node=node,
                    message_type=kind,
                    by_server=own[node],
                    by_client=received[node],
                    expires_s=metadata.created_at + metadata.ttl,
                    downlink={} if self._downlink is None else self._downlink.measured.get(node, {}),
                )
        return outgoing, sent

    def _to_server(self, replies: list[Message]) -> list[Message]:
        """Return the replies as the server receives them.

        A reply of training that answers no message sent through this grid, or one that has been answered, becomes an
        error: phyloop knows neither the model that its client trained nor what its privacy costs.
        """
        delivered, waiting, failed = list(replies), list[tuple[int, Sent]](), list[Message]()
        for position, reply in enumerate(replies):
            sent = self._pending.take(reply)
            if not reply.has_content():
                failed += [reply] * (sent is not None)
                continue
            if sent is not None:
                waiting.append((position, sent))
            elif trains(reply):
                delivered[position] = make_message(metadata=reply.metadata, error=UNKNOWN_REPLY)
        if failed and not waiting:
            _LOG.warning(
                "no update travels: all %d replies are errors; the first: %s", len(failed), failed[0].error.reason
            )
        for group in transmissions((sent.node, sent.message_type) for _, sent in waiting):
            positions = {waiting[row][1].node: waiting[row][0] for row in group}
            uploads = {
                waiting[row][1].node: ClientUpload(replies[waiting[row][0]].content, waiting[row][1]) for row in group
            }
            for node, arrived in self._transmit(uploads).items():
                reply = replies[positions[node]]
                if isinstance(arrived, RecordDict):
                    reply.content = arrived
                else:
                    delivered[positions[node]] = make_message(metadata=reply.metadata, error=arrived)
        return delivered

    def _transmit(self, uploads: Mapping[int, ClientUpload]) -> dict[int, RecordDict | Error]:
        """Return what the server receives of each node in one transmission over the uplink; keep what was measured."""
        received, measured = self._uplink.send(uploads)
        if measured is None:
            return received
        measured = measured.beside({node: one.sent.downlink for node, one in uploads.items()}, prefix="downlink_")
        self.rounds.append(measured)
        if self._folder is not None:
            self._folder.keep(measured)
        if self._settings.lost == "drop":
            received |= dict.fromkeys(measured.lost, Error(LOST, "a packet was lost on the uplink"))
        return received


def _refuse_to_log(round: object, metrics: Mapping[str, object]) -> None:
    """Raise LearningError for a round or for metrics that cannot be logged."""
    if isinstance(round, bool) or not isinstance(round, Integral) or int(round) < 0:
        raise LearningError(f"round is {round!r}", "write a whole number from 0, which is before the first round")
    for name, value in metrics.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value):
            raise LearningError(f"{name} is {value!r} in round {round}", "log finite numbers only")
        if name in MEASURED:
            raise LearningError(f"{name} is measured by phyloop", "log yours under another name")
