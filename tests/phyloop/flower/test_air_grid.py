"""`AirGrid` against the link itself, and every kind of message that a Flower app sends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest

pytest.importorskip("flwr")
from flower_app import ERROR_FREE, FADING, FIXED, NODES, MemoryGrid, adds, arrays, instructions
from flwr.app import Error, Message, RecordDict
from flwr.serverapp.strategy import FedAvg

import phyloop
from fl.base.errors import LearningError
from fl.schemes.codecs.partwise import FixedPoint
from phy.config import LinkConfig
from phyloop.flower import LOST, NOT_FINITE, AirGrid
from scenarios.schema.errors import ScenarioError
from scenarios.studies.folders import study_in, write_report_of
from scenarios.studies.tables import export

SIZE = 1000
ORDER = sorted(NODES)
UPDATES = {
    node: np.random.default_rng(number).uniform(-0.4, 0.4, SIZE).astype(np.float32) for number, node in enumerate(NODES)
}
START = np.zeros(SIZE, np.float32)


def received(air: AirGrid, model: np.ndarray = START, nodes: tuple[int, ...] = NODES) -> dict[int, np.ndarray]:
    """Return what the server receives of one round by node."""
    replies = air.send_and_receive(instructions(arrays(w=model), nodes))
    return {
        one.metadata.src_node_id: one.content.array_records["arrays"]["w"].numpy()
        for one in replies
        if one.has_content()
    }


def by_link(updates: np.ndarray, *, link: dict, seed: int, round_index: int) -> np.ndarray:
    """Return updates `[K, M]` as `phyloop.Link.send` delivers their fixed-point codes."""
    codec = FixedPoint(bound=0.5)
    payload = codec.encode(updates[None], keys=np.zeros((1, 2), np.uint32)).payload[0]
    uplink = phyloop.Link(link, num_devices=len(updates), num_bits=SIZE * codec.bits_per_value)
    received = uplink.send(payload, seed=seed, round=round_index)
    return codec.decode(received.bits[None], num_values=SIZE)[0]


@pytest.mark.parametrize(
    "link",
    [FADING, {**FADING, "coding": {"code": "ldpc5g", "rate": 0.5}, "modulation": "16qam"}],
    ids=["uncoded", "coded"],
)
def test_received_updates_are_those_of_the_link_bit_for_bit(link: dict) -> None:
    air = AirGrid(MemoryGrid(adds(UPDATES)), link=link, codec=FIXED, seed=3)
    for round_index in range(2):
        own = received(air)
        expected = by_link(np.stack([UPDATES[node] for node in ORDER]), link=link, seed=3, round_index=round_index)
        assert [air.senders[node] for node in ORDER] == [0, 1, 2, 3]
        np.testing.assert_array_equal(np.stack([own[node] for node in ORDER]), expected)
    assert air.link["bit_errors"].sum() > 0


@pytest.mark.parametrize("packets", [{}, {"crc": "crc16"}], ids=["in parts", "all together"])
def test_clients_keep_their_channel_whoever_else_sends(packets: dict) -> None:
    link = {**FADING, "packets": packets}
    everyone = received(AirGrid(MemoryGrid(adds(UPDATES)), link=link, codec=FIXED, seed=3))
    some = (ORDER[3], ORDER[0], ORDER[2])
    air = AirGrid(MemoryGrid(adds(UPDATES)), link=link, codec=FIXED, seed=3)
    own = received(air, nodes=some)
    assert own.keys() == set(some)
    for node in some:
        np.testing.assert_array_equal(own[node], everyone[node])
    assert air.link["sender"].tolist() == [0, 2, 3]


def test_fedavg_over_an_error_free_link_is_fedavg() -> None:
    def final(grid: MemoryGrid | AirGrid) -> np.ndarray:
        strategy = FedAvg(min_available_nodes=4, min_train_nodes=4)
        return strategy.start(grid=grid, initial_arrays=arrays(w=START), num_rounds=3).arrays["w"].numpy()

    exact = {node: np.round(256 * update) / np.float32(256) for node, update in UPDATES.items()}
    for updates, error in ((exact, 0.0), (UPDATES, 2e-7)):  # other differences are rounded to float32
        plain = final(MemoryGrid(adds(updates)))
        np.testing.assert_allclose(
            final(AirGrid(MemoryGrid(adds(updates)), link=ERROR_FREE)), plain, rtol=0, atol=error
        )


def test_evaluation_and_metrics_stay_as_they_are() -> None:
    grid = MemoryGrid(adds(UPDATES))
    air = AirGrid(grid, link=FADING, codec=FIXED, downlink=FADING)
    model = arrays(w=np.full(SIZE, 0.25, np.float32))
    replies = list(air.send_and_receive(instructions(model, kind="evaluate")))
    assert all(one.content.array_records["arrays"]["w"] == model["w"] for one in grid.received)
    assert [one.content.metric_records["metrics"]["mse"] for one in replies] == [0.0625] * 4
    assert not air.rounds
    assert not air.senders


def test_push_and_pull_are_the_same_radio() -> None:
    expected = received(AirGrid(MemoryGrid(adds(UPDATES)), link=FADING, codec=FIXED, seed=3))
    air = AirGrid(MemoryGrid(adds(UPDATES)), link=FADING, codec=FIXED, seed=3)
    numbers = list(air.push_messages(instructions(arrays(w=START))))
    for one in air.pull_messages(numbers):
        own = one.content.array_records["arrays"]["w"].numpy()
        np.testing.assert_array_equal(own, expected[one.metadata.src_node_id])


def test_every_type_and_record_keeps_its_own() -> None:
    model = {"half": np.ones((2, 3), np.float16), "double": np.pi * np.ones(4), "steps": np.int64(3), "flag": np.True_}

    def client(_: int, message: Message) -> RecordDict:
        sent = message.content.array_records["arrays"]
        changed = {name: array.numpy() for name, array in sent.items()}
        changed = {name: one + one.dtype.type(1) if name != "flag" else ~one for name, one in changed.items()}
        more = arrays(control=np.float32(0.25))
        return RecordDict({"arrays": arrays(**changed), "more": more})

    air = AirGrid(MemoryGrid(client), link=ERROR_FREE)
    for one in air.send_and_receive(instructions(arrays(**model))):
        found = one.content.array_records["arrays"]
        assert [array.dtype for array in found.values()] == ["float16", "float64", "int64", "bool"]
        np.testing.assert_array_equal(found["half"].numpy(), np.full((2, 3), 2, np.float16))
        np.testing.assert_array_equal(found["double"].numpy(), np.pi + np.ones(4))
        assert (int(found["steps"].numpy()), bool(found["flag"].numpy())) == (4, False)
        assert one.content.array_records["more"]["control"].numpy() == np.float32(0.25)
    assert air.link["bits"].tolist() == [32 * 11] * 4


def test_without_floating_point_arrays_nothing_is_sent() -> None:
    air = AirGrid(MemoryGrid(lambda *_: RecordDict({"arrays": arrays(n=np.int64(7))})), link=FADING)
    replies = list(air.send_and_receive(instructions(arrays(n=np.int64(6)))))
    assert [int(one.content.array_records["arrays"]["n"].numpy()) for one in replies] == [7] * 4
    assert not air.rounds


LOSSY = {
    **FADING,
    "power": {"policy": "fixed", "snr_max_db": 18},
    "packets": {"policy": "drop", "crc": "crc16"},
    "packet_size_bytes": 256,
}


def test_a_reply_with_a_lost_packet_becomes_an_error() -> None:
    air = AirGrid(MemoryGrid(adds(UPDATES)), link=LOSSY, codec=FIXED, seed=1)
    replies = list(air.send_and_receive(instructions(arrays(w=START))))
    lost = set(air.rounds[0].lost)
    assert 0 < len(lost) < 4
    assert {one.metadata.src_node_id for one in replies if one.has_error()} == lost
    assert {one.error.code for one in replies if one.has_error()} == {LOST}
    for one in replies:
        if one.has_content():
            own = one.content.array_records["arrays"]["w"].numpy()
            np.testing.assert_allclose(own, UPDATES[one.metadata.src_node_id], atol=1e-6)


def test_numbers_of_a_lost_packet_keep_the_previous_value() -> None:
    model = np.full(SIZE, 2.0, np.float32)
    air = AirGrid(MemoryGrid(adds(UPDATES)), link=LOSSY, codec=FIXED, seed=1, lost="previous")
    own = received(air, model)
    assert len(own) == 4
    for node in air.rounds[0].lost:
        kept = own[node] == 2.0
        assert kept.any()
        np.testing.assert_allclose(own[node][~kept], 2.0 + UPDATES[node][~kept], atol=1e-5)


def test_updates_are_differences_from_the_model_that_the_client_received() -> None:
    grid = MemoryGrid(adds(UPDATES))
    air = AirGrid(grid, link=ERROR_FREE, codec=FIXED, downlink=FADING, seed=5)
    own = received(air)
    noisy = {one.metadata.dst_node_id: one.content.array_records["arrays"]["w"].numpy() for one in grid.received}
    assert any((model != START).any() for model in noisy.values())
    for node in NODES:
        np.testing.assert_allclose(own[node], UPDATES[node], atol=1e-6)
    assert (air.link["downlink_bits"] == 23 * SIZE).all()
    assert air.link["downlink_bit_errors"].sum() > 0


def test_what_the_downlink_loses_is_what_the_client_had() -> None:
    grid = MemoryGrid(adds(UPDATES))
    air = AirGrid(grid, link=ERROR_FREE, codec={**FIXED, "bound": 4}, downlink=LOSSY, seed=1)
    for value in (1.0, 2.0):
        received(air, np.full(SIZE, value, np.float32))
    models = [one.content.array_records["arrays"]["w"].numpy() for one in grid.received]
    assert all((model == 1.0).all() for model in models[:4])
    assert {float(value) for model in models[4:] for value in np.unique(model)} == {1.0, 2.0}


def test_a_new_client_needs_room_on_the_link() -> None:
    grid = MemoryGrid(adds({**UPDATES, 1: UPDATES[42]}))
    roomy = AirGrid(grid, link=FADING, codec=FIXED, num_devices=5)
    for air in (AirGrid(grid, link=FADING, codec=FIXED), roomy):
        received(air)
        if air is roomy:
            received(air, nodes=(1, 42))
            assert air.senders[1] == 4
        else:
            with pytest.raises(ScenarioError, match="fewer senders than the app has clients"):
                received(air, nodes=(1, 42))


def test_clients_with_other_models_are_refused() -> None:
    grid = MemoryGrid(lambda node, _: RecordDict({"arrays": arrays(w=np.zeros(node % 7))}))
    with pytest.raises(LearningError, match="differ in name or shape"):
        AirGrid(grid, link=FADING).send_and_receive(instructions(arrays(w=START)))


def test_phyloop_reports_and_exports_what_was_measured(tmp_path: Path) -> None:
    air = AirGrid(MemoryGrid(adds(UPDATES)), link=LOSSY, codec=FIXED, seed=1, downlink=ERROR_FREE, out=tmp_path / "app")
    for nodes in (NODES, ORDER[1:3]):
        received(air, nodes=tuple(nodes))
    paths = write_report_of(study_in(tmp_path / "app"), tmp_path / "app")
    page = paths.html.read_text()
    assert all(str(node) in page for node in NODES)
    assert len(paths.figures) == 4
    file, curves = export(study_in(tmp_path / "app"), tmp_path / "app", tmp_path)
    assert set(pandas.read_csv(curves)["quantity"]) == {"bit_error_rate", "packet_error_rate", "airtime_s", "energy_j"}
    table = pandas.read_csv(file)
    pandas.testing.assert_frame_equal(table, air.link, check_dtype=False)
    assert table["energy_j"].gt(0).all()


def test_a_folder_holds_one_run(tmp_path: Path) -> None:
    air = AirGrid(MemoryGrid(adds(UPDATES)), link=FADING, codec=FIXED, out=tmp_path)
    received(air)
    air.close()
    with pytest.raises(ScenarioError, match="holds 1 round of an earlier run"):
        AirGrid(MemoryGrid(adds(UPDATES)), link=FADING, codec=FIXED, out=tmp_path)


def test_a_client_with_nan_does_not_send_and_the_others_do() -> None:
    def client(node: int, message: Message) -> RecordDict:
        content = adds(UPDATES)(node, message)
        if node == 42:
            content.array_records["arrays"] = arrays(w=np.full(SIZE, np.nan, np.float32))
        return content

    air = AirGrid(MemoryGrid(client), link=FADING, codec=FIXED, seed=3)
    replies = {one.metadata.src_node_id: one for one in air.send_and_receive(instructions(arrays(w=START)))}
    assert [node for node, one in replies.items() if one.has_error()] == [42]
    assert replies[42].error.code == NOT_FINITE
    assert "node 42" in replies[42].error.reason
    assert air.link["node_id"].tolist() == [11, 907, max(NODES)]


def test_values_beyond_the_codecs_bound_name_the_node() -> None:
    wide = {node: 3 * update if node == 42 else update for node, update in UPDATES.items()}
    air = AirGrid(MemoryGrid(adds(wide)), link=FADING, codec={**FIXED, "max_clipped": 0.1})
    with pytest.raises(LearningError, match="of the values of node 42 lie beyond"):
        air.send_and_receive(instructions(arrays(w=START)))


def test_a_round_of_errors_alone_is_told(caplog: pytest.LogCaptureFixture) -> None:
    air = AirGrid(MemoryGrid(lambda *_: Error(7, "out of memory")), link=FADING)
    replies = list(air.send_and_receive(instructions(arrays(w=START))))
    assert [one.error.code for one in replies] == [7] * 4
    assert "all 4 replies are errors; the first: out of memory" in caplog.text


def test_arrays_without_a_value_are_not_sent() -> None:
    air = AirGrid(MemoryGrid(lambda *_: RecordDict({"arrays": arrays(w=np.zeros(0))})), link=FADING, scheme="probit")
    assert all(one.has_content() for one in air.send_and_receive(instructions(arrays(w=np.zeros(0)))))
    assert not air.rounds


def test_an_apps_message_keeps_its_model_when_the_downlink_changes_it() -> None:
    air = AirGrid(MemoryGrid(adds(UPDATES)), link=ERROR_FREE, codec=FIXED, downlink=FADING, seed=5)
    messages = instructions(arrays(w=START))
    air.send_and_receive(messages)
    assert air.link["downlink_bit_errors"].sum() > 0
    assert all((one.content.array_records["arrays"]["w"].numpy() == START).all() for one in messages)


def test_a_link_is_a_file_a_dictionary_or_a_configuration(tmp_path: Path) -> None:
    section = "channel: {fading: rayleigh, coherence: round}\npower: {policy: fixed, snr_max_db: 8}\n"
    (tmp_path / "keys.yaml").write_text(section)
    (tmp_path / "link.yaml").write_text("link:\n  " + section.replace("\n", "\n  "))
    links = [FADING, LinkConfig.model_validate(FADING), tmp_path / "keys.yaml", str(tmp_path / "link.yaml")]
    first, *others = (received(AirGrid(MemoryGrid(adds(UPDATES)), link=one, codec=FIXED, seed=3)) for one in links)
    for own in others:
        for node in NODES:
            np.testing.assert_array_equal(own[node], first[node])
