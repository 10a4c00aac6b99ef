"""Data of the user in files: what is read, how it is split, and a sentence for each file that cannot be learnt from."""

from __future__ import annotations

import hashlib
import json
import lzma
import sqlite3
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pydantic import ValidationError

from fl.base.errors import LearningError
from fl.data.data_set import PartitionConfig, data_sets
from fl.data.images import load_images
from fl.data.partition.split import partition
from fl.data.sets.own import FileData
from phy.config.files import whole_paths

ROWS = 40


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory of a test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PHYLOOP_DATA", raising=False)
    return tmp_path


def table(owners: int = 4) -> str:
    """Return a table with two features, a class and an owner."""
    rng = np.random.default_rng(7)
    lines = ["age,dose,ill,site"]
    for row in range(ROWS):
        ill = "yes" if row % 2 else "no"
        lines.append(f"{40 + row},{rng.normal():.6f},{ill},site{row % owners}")
    return "\n".join(lines) + "\n"


def read(**keys: Any) -> FileData:
    """Return a set of files."""
    found = data_sets.read(keys)
    assert isinstance(found, FileData)
    return found


def test_a_file_without_a_name_is_a_set_of_files(folder: Path) -> None:
    (folder / "a.csv").write_text(table())
    data = read(file="a.csv", label="ill", owner="site")
    facts = data.described()
    assert (facts.image_shape, facts.num_classes, facts.num_train, facts.num_test) == ((1, 2, 1), 2, 32, 8)
    assert facts.owners == ("site0", "site1", "site2", "site3")
    assert facts.sizes_of_owners == (8, 8, 8, 8)
    # Every site has one class alone: rows alternate in both.
    assert facts.classes_of_owners == (1, 1, 1, 1)
    assert data.file == str(folder / "a.csv")
    assert data.sha256 is not None
    assert data.samples.classes == ("no", "yes")


@pytest.mark.parametrize(("name", "upper"), [("a.tsv", "A.TSV"), ("b.npz", "B.NPZ")])
def test_a_suffix_in_capitals_means_the_same_format(folder: Path, name: str, upper: str) -> None:
    (folder / "a.tsv").write_text(table().replace(",", "\t"))
    np.savez(folder / "b.npz", x=np.arange(40.0).reshape(20, 2), y=np.arange(20) % 2)
    (folder / upper).write_bytes((folder / name).read_bytes())
    keys = {"label": "ill", "owner": "site"} if name == "a.tsv" else {}
    one, other = (read(file=file, **keys).samples for file in (name, upper))
    assert np.array_equal(one.x, other.x)
    assert np.array_equal(one.y, other.y)


def test_test_samples_are_the_same_share_of_every_owner_and_class() -> None:
    rng = np.random.default_rng(3)
    owner, label = rng.integers(0, 6, 3000), rng.integers(0, 3, 3000)
    np.savez("a.npz", x=rng.normal(size=(3000, 2)), y=label, owner=owner)
    samples = read(file="a.npz", test_share=0.3).samples
    cells = 3 * owner + label
    drawn, whole = np.bincount(cells[samples.is_test]), np.bincount(cells)
    # Systematic: of a run of n samples floor or ceil of 0.3 n are taken, wherever it begins.
    assert (np.abs(drawn - 0.3 * whole) < 1.0).all()


def test_a_period_in_the_order_of_the_file_is_not_met_by_the_draw() -> None:
    row = np.arange(1000)
    np.savez("a.npz", x=np.stack([row % 5, row], axis=1), y=row // 500)
    samples = read(file="a.npz").samples
    drawn = np.bincount(samples.x[samples.is_test].reshape(-1, 2)[:, 0].astype(int), minlength=5)
    # Hypergeometric: 200 of 1000, a fifth of each kind.
    assert np.abs(drawn - 40).max() < 4.0 * np.sqrt(200 * 0.2 * 0.8 * 800 / 999)


def test_an_owner_of_one_sample_keeps_it_to_train_on() -> None:
    owner = np.concatenate([np.arange(10), np.full(50, 10)])
    np.savez("a.npz", x=np.arange(120.0).reshape(60, 2), y=np.arange(60) % 2, owner=owner)
    data = read(file="a.npz")
    assert sorted(data.samples.sizes_of_owners) == [*([1] * 10), 40]


def test_features_have_zero_mean_and_unit_variance_over_samples_to_train_on_alone() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(loc=[3.0, -40.0, 7.0], scale=[2.0, 11.0, 0.0], size=(600, 3))
    np.savez("a.npz", x_train=x[:400], y_train=np.arange(400) % 2, x_test=x[400:] + 5.0, y_test=np.arange(200) % 2)
    found = load_images(read(file="a.npz"), seed=1, trial=0)
    train, test = found.x_train.reshape(-1, 3), found.x_test.reshape(-1, 3)
    np.testing.assert_allclose(train.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(train[:, :2].std(axis=0), 1.0, atol=1e-6)
    assert (train[:, 2] == 0.0).all()
    expected = (x[400:, :2] + 5.0 - x[:400, :2].mean(axis=0)) / x[:400, :2].std(axis=0)
    np.testing.assert_allclose(test[:, :2], expected, rtol=1e-4, atol=1e-4)  # x is float32


def test_numbers_to_predict_keep_the_unit_of_the_user() -> None:
    y = np.linspace(100.0, 300.0, 50) + 0.5
    np.savez("a.npz", x=np.ones((50, 2)) * y[:, None], y=y)
    data = read(file="a.npz")
    found = load_images(data, seed=1, trial=0)
    assert data.described().predicts_numbers
    assert found.num_classes == 1
    assert found.unit == pytest.approx(y[~data.samples.is_test].std(), rel=1e-6)
    assert found.y_train.std() == pytest.approx(1.0, rel=1e-5)
    raw = load_images(read(file="a.npz", standardize=False), seed=1, trial=0)
    assert raw.unit == 1.0
    assert raw.y_train.min() >= 100.0


def test_whole_numbers_are_classes_unless_they_are_to_be_predicted() -> None:
    np.savez("a.npz", x=np.ones((30, 2)), y=np.arange(30) % 3 + 5)
    assert read(file="a.npz").samples.classes == ("5", "6", "7")
    assert read(file="a.npz", target="number").samples.classes == ()


@pytest.mark.parametrize("name", ["a.h5", "a.hdf5"])
def test_images_of_bytes_stay_bytes(name: str) -> None:
    x = np.random.default_rng(1).integers(0, 256, (20, 6, 5), np.uint8)
    with h5py.File(name, "w") as file:
        file["x"], file["y"] = x, np.arange(20) % 2
    data = read(file=name)
    found = load_images(data, seed=1, trial=0)
    assert found.x_train.dtype == np.uint8
    assert found.image_shape == (6, 5, 1)
    assert (found.scale, found.shift) == (1.0 / 255.0, 0.0)
    assert not data.standardizes


def test_every_file_of_a_pattern_is_an_owner() -> None:
    rng = np.random.default_rng(2)
    for name, count in (("north", 10), ("south", 25)):
        np.savez(f"{name}.npz", x=rng.normal(size=(count, 3)), y=np.arange(count) % 2)
    facts = read(file="*.npz").described()
    assert facts.owners == ("north", "south")
    assert facts.sizes_of_owners == (8, 20)


def test_a_given_partition_leaves_samples_with_their_owners(folder: Path) -> None:
    (folder / "a.csv").write_text(table(5))
    data = read(file="a.csv", label="ill", owner="site")
    found = load_images(data, seed=1, trial=0)
    dealt = partition(
        found.y_train,
        config=PartitionConfig(kind="given"),
        num_devices=5,
        num_classes=2,
        generator=np.random.default_rng(1),
        owner=found.owner,
        num_owners=found.num_owners,
    )
    assert found.owner is not None
    for device, own in enumerate(dealt.devices):
        assert (found.owner[own] == device).all()
    assert sorted(np.concatenate(dealt.devices)) == list(range(len(found.y_train)))


def test_fewer_devices_than_owners_are_some_of_them() -> None:
    owner = np.repeat(np.arange(50), 4)
    dealt = [
        partition(
            np.zeros(200, np.int64),
            config=PartitionConfig(kind="given"),
            num_devices=8,
            num_classes=1,
            generator=np.random.default_rng(seed),
            owner=owner,
            num_owners=50,
        )
        for seed in (1, 1, 2)
    ]
    chosen = [sorted({int(owner[own[0]]) for own in one.devices}) for one in dealt]
    assert all(len(one) == 8 for one in chosen)
    assert chosen[0] == chosen[1] != chosen[2]


def leaf(path: Path) -> None:
    """Write two users in the layout of LEAF."""
    data = {
        "users": ["a", "b"],
        "num_samples": [6, 4],
        "user_data": {
            user: {"x": [[float(i), 1.0] for i in range(count)], "y": [i % 2 for i in range(count)]}
            for user, count in (("a", 6), ("b", 4))
        },
    }
    path.write_text(json.dumps(data))


def test_leaf_names_its_owners(folder: Path) -> None:
    leaf(folder / "all.json")
    facts = read(file="all.json", test_share=0.25).described()
    assert facts.owners == ("a", "b")
    assert sum(facts.sizes_of_owners) == facts.num_train


def varint(number: int) -> bytes:
    """Return a number as protobuf writes it."""
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def example(pixels: list[float], label: int) -> bytes:
    """Return a `tf.Example`, written by hand from the wire format."""

    def inside(number: int, content: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(content)) + content

    floats = inside(2, inside(1, struct.pack(f"<{len(pixels)}f", *pixels)))
    whole = inside(3, inside(1, varint(label)))
    entries = [inside(1, inside(1, name) + inside(2, one)) for name, one in ((b"pixels", floats), (b"label", whole))]
    return inside(1, b"".join(entries))


@pytest.mark.parametrize("packed", [False, True])
def test_sqlite_of_tensorflow_federated_is_read_without_tensorflow(folder: Path, packed: bool) -> None:
    plain = folder / "emnist.sqlite"
    connection = sqlite3.connect(plain)
    connection.execute("CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)")
    for client in ("f0", "f1", "f2"):
        for number in range(5):
            pixels = [1.0] * 783 + [number / 10.0]
            row = ("test" if number == 4 else "train", client, example(pixels, number + 300))
            connection.execute("INSERT INTO examples VALUES (?, ?, ?)", row)
    connection.commit()
    connection.close()
    name = "emnist.sqlite"
    if packed:
        name += ".lzma"
        (folder / name).write_bytes(lzma.compress(plain.read_bytes()))
    data = read(file=name)
    facts = data.described()
    assert (facts.image_shape, facts.num_train, facts.num_test) == ((28, 28, 1), 12, 3)
    assert facts.owners == ("f0", "f1", "f2")
    assert data.samples.classes == ("300", "301", "302", "303", "304")
    assert data.samples.x[1, -1, -1, 0] == np.float32(0.1)


def test_a_file_that_has_changed_since_its_digest_was_written_is_refused(folder: Path) -> None:
    (folder / "a.csv").write_text(table())
    known = read(file="a.csv", label="ill").sha256
    (folder / "a.csv").write_text(table(5))
    with pytest.raises(ValidationError, match=r"a\.csv now has SHA-256 .*; leave sha256 out"):
        read(file="a.csv", label="ill", sha256=known)


def test_results_can_be_read_without_their_file(folder: Path) -> None:
    (folder / "a.csv").write_text(table())
    kept = read(file="a.csv", label="ill").model_dump(exclude_none=True)
    (folder / "a.csv").unlink()
    data = read(**kept)
    with pytest.raises(LearningError, match="is no longer there; put the file back"):
        data.described()


BAD = [
    (
        "a.csv",
        "age,ill\n1,yes\n2,no\n",
        {"label": "sick"},
        "it has no column sick; name a column of it: it has",
    ),
    ("a.csv", "age,ill\n1,yes\n2,no\n", {}, "no column is named as the label; it has age and ill; write for example l"),
    ("a.csv", "age,ill\n1,yes\n,no\n", {"label": "ill"}, "column age has 1 empty cells, the first in row 3"),
    ("a.csv", "age,sex,ill\n1,m,yes\n2,f,no\n", {"label": "ill"}, "column sex holds words, such as m"),
    ("a.csv", "age,ill\n1,yes\n2,yes\n", {"label": "ill"}, "every sample has the label yes"),
    ("a.csv", "age,ill\n1,3.5\n2,3.5\n", {"label": "ill"}, "every sample has the number 3.5"),
    ("a.csv", "age,ill\n", {"label": "ill"}, "it has no rows"),
    ("a.csv", "ill\nyes\nno\n", {"label": "ill"}, "it has no column beside the label and the owner"),
    ("a.csv", "age,ill\n1,yes\n2,no\n", {"label": "ill", "features": ["age", "ill"]}, "is one of the features"),
    ("a.csv", "age,ill\n1e60,yes\n2,no\n", {"label": "ill"}, "beyond single precision"),
    ("a.csv", "age,ill\n1,yes\n2,no\n", {"label": "ill", "target": "number"}, "the label is yes, no number"),
    ("a.csv", "age,ill\n1,0.5\n2,1.5\n", {"label": "ill", "target": "class"}, "the label 0.5 is no class"),
    ("a.json", "{}", {}, "not a whole JSON file of LEAF"),
    ("a.json", "[", {}, "not a whole JSON file of LEAF"),
    ("a.sqlite", "no database", {}, "not a whole SQLite file of TensorFlow Federated"),
    ("a.h5", "no HDF5", {}, "not a whole HDF5 file"),
    ("a.npz", "no zip", {}, "not a whole .npz file"),
]


@pytest.mark.parametrize(("name", "content", "keys", "sentence"), BAD)
def test_a_file_that_cannot_be_learnt_from_gets_one_sentence(
    folder: Path, name: str, content: str, keys: dict[str, Any], sentence: str
) -> None:
    (folder / name).write_text(content)
    with pytest.raises(LearningError) as error:
        read(file=name, **keys).described()
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


ARRAYS: list[tuple[dict[str, Any], str]] = [
    ({"x": np.ones((4, 2))}, "there is no array y; it has x"),
    ({"x": np.ones((4, 2)), "y": np.arange(3)}, "array y is int64 of shape (3,), and x has 4 samples"),
    ({"x": np.ones(4), "y": np.arange(4)}, "array x is float64 of shape (4,)"),
    ({"x": np.ones((4, 2)) * np.nan, "y": np.arange(4)}, "entries that are no finite numbers"),
    ({"x": np.ones((4, 2)), "y": np.array([1.0, 2.0, np.nan, 3.0])}, "entries that are no finite numbers"),
    ({"x": np.ones((4, 2), complex), "y": np.arange(4)}, "array x is complex128"),
    ({"x": np.ones((4, 2)), "y": np.arange(4) % 2, "owner": np.arange(3)}, "array owner has shape (3,)"),
    ({"x_train": np.ones((4, 2)), "y_train": np.arange(4)}, "there is no array x_test"),
    (
        {"x_train": np.ones((4, 2)), "y_train": np.arange(4), "x_test": np.ones((4, 3)), "y_test": np.arange(4)},
        "hold samples of shape (2,) and (3,)",
    ),
]


@pytest.mark.parametrize(("arrays", "sentence"), ARRAYS)
def test_arrays_that_do_not_fit_get_one_sentence(arrays: dict[str, Any], sentence: str) -> None:
    np.savez("a.npz", **arrays)
    with pytest.raises(LearningError) as error:
        read(file="a.npz").described()
    assert sentence in str(error.value)


def test_a_pickle_in_an_npz_file_is_never_opened() -> None:
    np.savez("a.npz", x=np.array([{"a": 1}, {"b": 2}], dtype=object), y=np.arange(2))
    with pytest.raises(LearningError):
        read(file="a.npz").described()


def test_a_small_file_that_unpacks_to_a_huge_array_is_not_unpacked() -> None:
    import zipfile

    with zipfile.ZipFile("a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, shape in (("x", (1 << 22, 1 << 12)), ("y", (1 << 22,))):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array_header_1_0(
                    file,
                    {"descr": "<f8", "fortran_order": False, "shape": shape},
                )
    with pytest.raises(LearningError, match=r"array x takes 128 GiB, at most 8"):
        read(file="a.npz").described()


def test_a_swept_file_is_pinned_by_its_path_and_digest(folder: Path) -> None:
    (folder / "a.csv").write_text(table())
    digest = hashlib.sha256(table().encode()).hexdigest()
    swept = whole_paths({"learning.data": [{"file": "a.csv", "label": "ill"}, {"file": "absent.csv"}]})
    whole = {"file": str(folder / "a.csv"), "label": "ill", "sha256": digest}
    assert swept == {"learning.data": [whole, {"file": "absent.csv"}]}


def test_two_copies_of_a_file_compute_the_same_tasks(folder: Path) -> None:
    from scenarios.plan.plan import expand
    from scenarios.schema.loader import load_scenario

    ids = []
    for place in ("one", "two"):
        (folder / place).mkdir()
        (folder / place / "a.csv").write_text(table())
        learning = {
            "algorithm": "fedavg",
            "data": {"file": f"{place}/a.csv", "label": "ill", "features": ["age", "dose"]},
            "num_devices": 2,
        }
        ids.append(expand(load_scenario({"learning": learning})).task_ids)
    assert ids[0] == ids[1]
    (folder / "two" / "a.csv").write_text(table(5))
    changed = expand(load_scenario({"learning": learning})).task_ids
    assert changed != ids[0]


def test_a_file_beside_the_scenario_comes_before_one_in_the_working_directory(folder: Path) -> None:
    from scenarios.schema.loader import load_scenario

    (folder / "study").mkdir()
    (folder / "a.csv").write_text(table())
    (folder / "study" / "a.csv").write_text(table(5))
    text = "name: s\nlearning: {algorithm: fedavg, num_devices: 2, data: {file: a.csv, label: ill, owner: site}}\n"
    (folder / "study" / "s.yaml").write_text(text)
    loaded = load_scenario(folder / "study" / "s.yaml")
    assert loaded.scenario.learning.data.file == str(folder / "study" / "a.csv")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("label", "age"),
        ("features", ["age"]),
        ("owner", "site"),
        ("test_share", 0.3),
        ("target", "class"),
        ("standardize", False),
        ("test_file", "b.csv"),
    ],
)
def test_every_key_of_own_data_changes_the_identity(folder: Path, key: str, value: Any) -> None:
    from scenarios.plan.identity import physics_json
    from scenarios.schema.schema import validate_quickly

    for name in ("a.csv", "b.csv"):
        (folder / name).write_text(table())
    one = {"name": "file", "file": "a.csv", "label": "ill", "features": ["age", "dose"]}
    texts = [
        physics_json(validate_quickly({"name": "s", "learning": {"algorithm": "fedavg", "data": data}}))
        for data in (one, {**one, key: value})
    ]
    assert texts[0] != texts[1]


def test_a_run_folder_goes_on_with_swept_files_from_anywhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import phyloop

    (folder / "study").mkdir()
    for name, owners in (("a.csv", 4), ("b.csv", 5)):
        (folder / "study" / name).write_text(table(owners))
    (folder / "study" / "s.yaml").write_text(
        "name: s\ntrials: 1\nlink: {error_model: error_free}\n"
        "learning: {algorithm: fedavg, num_devices: 2, rounds: 1, data: {file: a.csv, label: ill, owner: site}}\n"
        "sweep: {learning.data.file: [a.csv, b.csv]}\n"
    )
    run = phyloop.run(folder / "study" / "s.yaml", out=folder / "out")
    assert sorted(run.metrics["learning.data.file"]) == [str(folder / "study" / name) for name in ("a.csv", "b.csv")]
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert len(phyloop.load(folder / "out").metrics) == 2
