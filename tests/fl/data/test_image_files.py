"""Images read from every layout, and damaged files refused in one sentence."""

from __future__ import annotations

import gzip
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_files import (
    Arrays,
    cifar_files,
    idx_bytes,
    images_of,
    write_archive,
    write_folder,
    write_idx,
)

from fl.base.errors import LearningError
from fl.data.arrays import ImageData
from fl.data.data_set import DataName, data_sets
from fl.data.formats import FILES
from fl.data.images import load_images

GREY = images_of((28, 28), num_classes=10)
LETTERS = images_of((28, 28), num_classes=62)
COLOUR = images_of((32, 32, 3), num_classes=10)
FINE = images_of((32, 32, 3), num_classes=100)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of PHYLOOP_DATA; keras has nothing, and nothing is downloaded."""
    given = tmp_path / "given"
    given.mkdir()
    monkeypatch.setenv("PHYLOOP_DATA", str(given))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    return given


def load(name: DataName) -> ImageData:
    return load_images(data_sets.read(name), seed=1, trial=0)


def sentence_about(name: DataName) -> str:
    with pytest.raises(LearningError) as caught:
        load(name)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def assert_holds(data: ImageData, arrays: Arrays) -> None:
    """Pixels and labels as they were written, in the common layout."""
    for key in ("x_train", "x_test"):
        read = getattr(data, key)
        assert read.dtype == np.uint8
        assert np.array_equal(read, arrays[key].reshape(read.shape))
        assert read.shape[1:] == data.image_shape
    for key in ("y_train", "y_test"):
        read = getattr(data, key)
        assert read.dtype == np.int64
        assert np.array_equal(read, arrays[key].reshape(-1))


@pytest.mark.parametrize(
    ("name", "file", "arrays"),
    [
        ("mnist", "mnist.npz", GREY),
        ("mnist", "mnist-small.npz", GREY),
        ("fashion-mnist", "fashion_mnist.npz", GREY),
        ("fashion-mnist", "fashion-mnist.npz", GREY),
        ("cifar10", "cifar10_subset.npz", COLOUR),
        ("cifar100", "cifar-100.npz", FINE),
        ("emnist", "emnist_byclass_subset.npz", LETTERS),
        ("emnist", "emnist.npz", LETTERS),
    ],
)
def test_npz_files_are_read_under_each_name(folder: Path, name: DataName, file: str, arrays: Arrays) -> None:
    np.savez_compressed(folder / file, **arrays)
    data = load(name)
    assert_holds(data, arrays)
    assert data.source == str(folder / file)


def test_labels_in_a_column_become_a_row(folder: Path) -> None:
    np.savez(folder / "cifar10.npz", **{**COLOUR, "y_train": COLOUR["y_train"][:, None].astype(np.int32)})
    assert_holds(load("cifar10"), COLOUR)


def test_the_whole_set_goes_before_its_variants_and_those_by_name(folder: Path) -> None:
    for file in ("mnist_b.npz", "mnist_a.npz"):
        np.savez(folder / file, **GREY)
    assert load("mnist").source.endswith("mnist_a.npz")
    np.savez(folder / "mnist.npz", **GREY)
    assert load("mnist").source.endswith("mnist.npz")


def test_a_file_of_cifar100_is_none_of_cifar10(folder: Path) -> None:
    np.savez(folder / "cifar10_x.npz", **COLOUR)
    np.savez(folder / "cifar100.npz", **FINE)
    assert load("cifar10").source.endswith("cifar10_x.npz")
    assert load("cifar100").source.endswith("cifar100.npz")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "below", "dot"),
    [("mnist", "", True), ("mnist", "MNIST/raw", False), ("fashion-mnist", "fashion-mnist", False)],
)
def test_idx_files_are_read_plain_and_packed(folder: Path, name: DataName, below: str, dot: bool, packed: bool) -> None:
    write_idx(folder / below, GREY, packed=packed, dot=dot)
    assert_holds(load(name), GREY)


def test_emnist_is_put_upright(folder: Path) -> None:
    turned = {key: value.swapaxes(1, 2) if key.startswith("x") else value for key, value in LETTERS.items()}
    write_idx(folder / "gzip", turned, parts=("emnist-byclass-train", "emnist-byclass-test"), packed=True)
    shutil.move(folder / "gzip", folder / "EMNIST")
    assert_holds(load("emnist"), LETTERS)


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize(
    ("name", "inner", "arrays"), [("cifar10", "cifar-10-batches-py", COLOUR), ("cifar100", "cifar-100-python", FINE)]
)
def test_the_python_archives_of_cifar_are_read(
    folder: Path, name: DataName, inner: str, arrays: Arrays, protocol: int
) -> None:
    files = cifar_files(arrays, fine=name == "cifar100", protocol=protocol)
    write_archive(folder / f"{inner.replace('-batches-py', '-python')}.tar.gz", files, folder=inner)
    assert_holds(load(name), arrays)
    write_folder(folder / inner, files)
    unpacked = load(name)
    assert unpacked.source == str(folder / inner)
    assert_holds(unpacked, arrays)


def test_a_pickle_of_python_2_is_read(folder: Path) -> None:
    rows = np.arange(2 * 3072).astype(np.uint8)
    python_2 = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T\x00\x18\x00\x00" + rows.tobytes() + b"tbU\x06labels](K\x03K\x07eu."
    )
    write_folder(folder / "cifar-10-batches-py", dict.fromkeys(FILES["cifar10"], python_2))
    data = load("cifar10")
    assert data.y_test.tolist() == [3, 7]
    assert np.array_equal(data.x_test.transpose(0, 3, 1, 2).reshape(-1), rows)


@pytest.mark.parametrize("protocol", [2, 5])
def test_arrays_written_by_column_keep_their_places(folder: Path, protocol: int) -> None:
    rows = np.random.default_rng(1).integers(0, 256, (4, 3072), np.uint8)
    content = pickle.dumps({b"data": np.asfortranarray(rows), b"labels": [0, 1, 2, 3]}, protocol=protocol)
    write_folder(folder / "cifar-10-batches-py", dict.fromkeys(FILES["cifar10"], content))
    assert np.array_equal(load("cifar10").x_test.transpose(0, 3, 1, 2).reshape(4, -1), rows)


class _Harmful:
    """Touches a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_can_run_nothing(folder: Path) -> None:
    files = cifar_files(COLOUR, fine=False)
    files["data_batch_3"] = pickle.dumps({b"data": _Harmful(folder / "harm")}, protocol=2)
    write_folder(folder / "cifar-10-batches-py", files)
    assert "data_batch_3: not a whole file of cifar10 (it calls posix.mkdir)" in sentence_about("cifar10")
    assert not (folder / "harm").exists()
    pickle.loads(files["data_batch_3"])  # as the standard reader would have had it
    assert (folder / "harm").exists()


def cut(path: Path, *, keep: float = 0.6) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])


def test_a_truncated_npz_is_one_sentence(folder: Path) -> None:
    file = folder / "mnist.npz"
    np.savez_compressed(file, **GREY)
    cut(file)
    assert sentence_about("mnist") == f"{file}: not a whole .npz file (File is not a zip file); fetch the file again"


def test_a_flipped_byte_in_an_npz_is_noticed(folder: Path) -> None:
    file = folder / "mnist.npz"
    np.savez(file, **GREY)
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1  # among the pixels
    file.write_bytes(content)
    assert sentence_about("mnist").startswith(f"{file}: not a whole .npz file (Bad CRC-32 for file 'x_train.npy')")


def test_an_npz_of_pickled_objects_is_refused(folder: Path) -> None:
    np.savez(folder / "mnist.npz", **{**GREY, "y_test": np.array([{}] * 7, object)})
    assert "(Object arrays cannot be loaded when allow_pickle=False); fetch the file again" in sentence_about("mnist")


def test_an_npz_that_claims_more_than_it_holds_is_one_sentence(folder: Path) -> None:
    file = folder / "mnist.npz"
    np.savez(file, **GREY)
    content = file.read_bytes()
    claim, more = b"(12, 28, 28), ", b"(1000000000000, 28, 28), "
    header = content[content.index(claim) :]
    padding = b" " * (len(more) - len(claim))
    start = content.index(claim)
    assert padding in header[:200]
    file.write_bytes(content[:start] + header.replace(claim, more, 1).replace(padding, b"", 1))
    assert sentence_about("mnist").startswith(f"{file}: not a whole .npz file (")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"x_train": GREY["x_train"][:, :14]},
            "x_train are uint8 of shape (12, 14, 28), each of mnist is uint8 (28, 28, ",
        ),
        (
            {"x_test": COLOUR["x_test"]},
            "x_test are uint8 of shape (7, 32, 32, 3), each of mnist is uint8 (28, 28, 1); w",
        ),
        (
            {"x_train": GREY["x_train"] / 255},
            "images x_train are float64 of shape (12, 28, 28), each of mnist is uint8 ",
        ),
        (
            {"y_train": GREY["y_train"] * 1.0},
            "labels y_train are float64 of shape (12,), each of mnist is an integer; w",
        ),
        ({"y_test": np.eye(10, dtype=np.uint8)[:7]}, "labels y_test are uint8 of shape (7, 10), each of mnist is an i"),
        ({"y_train": GREY["y_train"] + 10}, f"label {GREY['y_train'][0] + 10} of train image 0 is outside 0 .. 9"),
        ({"y_test": np.array([0, 1, 2, -3, 4, 5, 6])}, "label -3 of test image 3 is outside 0 .. 9 of mnist; fetch"),
        ({"y_test": GREY["y_test"][:3]}, "7 test images have 3 labels; fetch the file again"),
        (
            {"x_test": GREY["x_test"][:0], "y_test": GREY["y_test"][:0]},
            "0 test images have 0 labels; fetch the file again",
        ),
        ({"x_train": np.uint8(0)}, "images x_train are uint8 of shape (), each of mnist"),
    ],
)
def test_an_npz_with_wrong_arrays_is_one_sentence(folder: Path, change: Arrays, sentence: str) -> None:
    np.savez(folder / "mnist.npz", **{**GREY, **change})
    said = sentence_about("mnist")
    assert said.startswith(f"{folder / 'mnist.npz'}: ")
    assert sentence in said


def test_an_npz_without_an_array_is_one_sentence(folder: Path) -> None:
    np.savez(folder / "mnist.npz", **{key: value for key, value in GREY.items() if key != "y_test"})
    assert "not a whole .npz file ('y_test is not a file in the archive'); fetch" in sentence_about("mnist")


def test_what_is_no_npz_at_all_is_one_sentence(folder: Path) -> None:
    (folder / "mnist.npz").write_bytes(b"<html>not found</html>")
    assert "not a whole .npz file (File is not a zip file)" in sentence_about("mnist")


IDX_DAMAGE = [
    (b"", "not a whole IDX file (it begins with , an IDX file of bytes with 00 00 08); fetch the file again"),
    (b"<html>", "not a whole IDX file (it begins with 3c 68 74, an IDX file of bytes with 00 00 08); fetch"),
    (idx_bytes(GREY["x_train"])[:-1], "cannot reshape array of size 9407 into shape (12,28,28)); fetch"),
    (idx_bytes(GREY["x_train"]) + b"\0", "cannot reshape array of size 9409 into shape (12,28,28)); fetch"),
    (struct.pack(">BBBB3I", 0, 0, 8, 3, 2**32 - 1, 28, 28), "not a whole IDX file ("),
    (idx_bytes(GREY["y_train"]), "images x_train are uint8 of shape (12,), each of mnist is uint8 (28, 28, 1)"),
    (idx_bytes(GREY["x_train"].reshape(12, 14, 56)), "x_train are uint8 of shape (12, 14, 56), each of mnist is"),
    (idx_bytes(GREY["x_train"][:5]), "5 train images have 12 labels"),
]


@pytest.mark.parametrize(("content", "sentence"), IDX_DAMAGE)
@pytest.mark.parametrize("packed", [False, True])
def test_a_damaged_idx_file_is_one_sentence(folder: Path, content: bytes, sentence: str, packed: bool) -> None:
    path = write_idx(folder, GREY, packed=packed)["x_train"]
    path.write_bytes(gzip.compress(content) if packed else content)
    said = sentence_about("mnist")
    assert said.startswith(str(path))
    assert sentence in said


def test_a_wrong_label_in_an_idx_file_names_the_file(folder: Path) -> None:
    path = write_idx(folder, {**GREY, "y_test": np.uint8([0, 1, 2, 3, 4, 5, 77])})["x_train"]
    said = f"{path}: label 77 of test image 6 is outside 0 .. 9 of mnist; fetch"
    assert sentence_about("mnist").startswith(said)


@pytest.mark.parametrize("keep", [0.001, 0.6])
def test_a_truncated_gzip_file_is_one_sentence(folder: Path, keep: float) -> None:
    path = write_idx(folder, GREY, packed=True)["x_test"]
    cut(path, keep=keep)
    assert sentence_about("mnist").startswith(f"{path}: ")


def test_a_corrupted_gzip_file_is_one_sentence(folder: Path) -> None:
    path = write_idx(folder, GREY, packed=True)["x_test"]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)
    assert sentence_about("mnist").startswith(f"{path}: not a whole IDX file (")


def test_an_idx_file_that_is_missing_is_named(folder: Path) -> None:
    paths = write_idx(folder, GREY, packed=True)
    paths["y_test"].unlink()
    absent = "t10k-labels-idx1-ubyte is missing beside train-images-idx3-ubyte.gz; add it"
    assert sentence_about("mnist") == f"{folder}: {absent}"


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_archive_is_one_sentence(folder: Path, keep: float) -> None:
    path = folder / "cifar-100-python.tar.gz"
    write_archive(path, cifar_files(FINE, fine=True), folder="cifar-100-python")
    cut(path, keep=keep)
    assert sentence_about("cifar100").startswith(str(path))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "data_batch_2: not a whole file of cifar10 (EOFError)"),
        (cifar_files(COLOUR, fine=False)["data_batch_2"][:-400], "data_batch_2: not a whole file of cifar10 ("),
        (pickle.dumps({b"labels": [1]}, protocol=2), "data_batch_2: not a whole file of cifar10 (there is no data)"),
        (
            pickle.dumps({b"data": np.zeros((1, 3072), np.uint8)}, protocol=2),
            "data_batch_2: not a whole file of cifar10 (there is no labels)",
        ),
        (
            pickle.dumps({b"data": np.zeros((2, 3000), np.uint8), b"labels": [0, 0]}, protocol=2),
            "data_batch_2: not a whole file of cifar10 (cannot reshape",
        ),
        (
            pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 10]}, protocol=2),
            "cifar-10-batches-py: label 10 of train image 4 is outside 0 .. 9 of cifar10",
        ),
    ],
)
def test_a_damaged_batch_of_cifar_is_one_sentence(folder: Path, content: bytes, sentence: str) -> None:
    files = {**cifar_files(COLOUR, fine=False), "data_batch_2": content}
    write_folder(folder / "cifar-10-batches-py", files)
    assert sentence in sentence_about("cifar10")


def test_a_batch_of_cifar_that_is_missing_is_named(folder: Path) -> None:
    files = cifar_files(COLOUR, fine=False)
    del files["data_batch_4"]
    write_archive(folder / "cifar-10-python.tar.gz", files, folder="cifar-10-batches-py")
    assert "data_batch_4 is missing, cifar10 has data_batch_1, data_batch_2" in sentence_about("cifar10")
    write_folder(folder / "cifar-10-batches-py", files)
    assert sentence_about("cifar10").endswith("data_batch_4 is missing beside data_batch_1; add it")
