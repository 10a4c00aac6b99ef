"""Where images are looked for, which of them a trial gets, and how often they are read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from image_files import cifar_files, images_of, write_archive, write_folder, write_idx

import fl.data.images
from fl.base.errors import LearningError
from fl.data.arrays import ImageData, image_facts
from fl.data.data_set import DataName, data_sets
from fl.data.images import available_images, load_images
from fl.data.whereabouts import find_data, missing_data

GREY = images_of((28, 28), num_classes=10, num_train=30, num_test=20)
COLOUR = images_of((32, 32, 3), num_classes=10)
ALL: tuple[DataName, ...] = ("digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "emnist")


@pytest.fixture(autouse=True)
def keras_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither the user's folder nor the user's cache; what keras would have goes into `datasets` below this."""
    monkeypatch.delenv("PHYLOOP_DATA", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    return tmp_path / "keras"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of PHYLOOP_DATA."""
    given = tmp_path / "given"
    given.mkdir()
    monkeypatch.setenv("PHYLOOP_DATA", str(given))
    return given


def digits(*, seed: int = 1, trial: int = 0, **config: Any) -> ImageData:
    return load_images(data_sets.read(config), seed=seed, trial=trial)


def rows(images: np.ndarray[Any, Any]) -> set[bytes]:
    return {image.tobytes() for image in images}


def test_digits_are_all_there_once_and_as_the_facts_say() -> None:
    from sklearn.datasets import load_digits

    data, facts = digits(), image_facts("digits")
    assert data.x_train.shape == (facts.num_train, *facts.image_shape)
    assert data.x_test.shape == (facts.num_test, *facts.image_shape)
    assert data.num_classes == facts.num_classes
    images, labels = load_digits(return_X_y=True)
    ours = np.column_stack(
        [
            np.concatenate([data.x_train, data.x_test]).reshape(1797, 64),
            np.concatenate([data.y_train, data.y_test]),
        ]
    )
    theirs = np.column_stack([images, labels]).astype(np.int64)
    assert sorted(map(tuple, ours.tolist())) == sorted(map(tuple, theirs.tolist()))


def test_digits_are_split_label_by_label() -> None:
    data = digits()
    of_test, of_all = np.bincount(data.y_test), np.bincount(np.concatenate([data.y_train, data.y_test]))
    assert (np.abs(of_test - 360 / 1797 * of_all) < 1).all()


def test_pixels_scaled_on_use_reach_from_zero_to_one() -> None:
    for data in (digits(), digits(train_samples=700)):
        assert data.x_train.dtype == np.uint8
        assert data.scale * data.x_train.min() == 0.0
        assert data.scale * data.x_train.max() == 1.0


def test_trials_share_the_split_and_draw_their_own_samples() -> None:
    whole, other = digits(), digits(trial=1, seed=5)
    assert np.array_equal(whole.x_train, other.x_train)
    first, again, next_trial, next_seed = (
        digits(train_samples=200, test_samples=50, seed=seed, trial=trial)
        for seed, trial in ((1, 0), (1, 0), (1, 1), (2, 0))
    )
    assert np.array_equal(first.x_train, again.x_train)
    assert np.array_equal(first.x_test, again.x_test)
    for unlike in (next_trial, next_seed):
        assert not np.array_equal(first.y_train, unlike.y_train)
        assert not np.array_equal(first.y_test, unlike.y_test)


def test_samples_are_drawn_without_repetition_and_with_their_labels(folder: Path) -> None:
    np.savez(folder / "mnist.npz", **GREY)
    data = digits(name="mnist", train_samples=25, test_samples=11)
    label_of = {image.tobytes(): label for image, label in zip(GREY["x_train"], GREY["y_train"], strict=True)}
    assert len(rows(data.x_train)) == 25
    assert [label_of[image.tobytes()] for image in data.x_train] == data.y_train.tolist()
    assert len(rows(data.x_test)) == 11
    assert rows(data.x_test) < rows(GREY["x_test"])


def test_more_samples_keep_those_of_fewer_and_leave_the_other_part_alone() -> None:
    few, many = digits(train_samples=100, test_samples=30), digits(train_samples=400, test_samples=30)
    assert np.array_equal(many.x_train[:100], few.x_train)
    assert np.array_equal(many.x_test, few.x_test)
    assert np.array_equal(digits(test_samples=30).x_test, few.x_test)


@pytest.mark.parametrize(("key", "most"), [("train_samples", 1437), ("test_samples", 360)])
def test_more_samples_than_there_are_is_one_sentence(key: str, most: int) -> None:
    assert len(getattr(digits(**{key: most}), f"y_{key.split('_')[0]}")) == most
    with pytest.raises(
        LearningError, match=rf"^{key} {most + 1} exceeds the {most} images in digits, which comes with scikit-learn; l"
    ):
        digits(**{key: most + 1})


def test_nobody_can_change_the_images_of_the_next_trial() -> None:
    for data in (digits(), digits(train_samples=20, test_samples=20)):
        for array in (data.x_train, data.y_train, data.x_test, data.y_test):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_a_file_is_read_once_and_again_when_it_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    read_npz = fl.data.images.read_npz
    monkeypatch.setattr(fl.data.images, "read_npz", lambda path, *keys: reads.append(path) or read_npz(path, *keys))
    file = folder / "mnist.npz"
    np.savez(file, **GREY)
    before = [digits(name="mnist", trial=trial).y_train for trial in range(3)]
    assert len(reads) == 1
    np.savez(file, **{**GREY, "y_train": (GREY["y_train"] + 1) % 10})
    os.utime(file, ns=(1, 1))
    after = digits(name="mnist").y_train
    assert len(reads) == 2
    assert all(np.array_equal(one, before[0]) for one in before)
    assert np.array_equal(after, (before[0] + 1) % 10)


def test_labels_and_pixels_are_the_same_whatever_the_file(folder: Path) -> None:
    write_idx(folder, GREY, packed=True)
    packed = digits(name="mnist")
    np.savez(folder / "mnist.npz", **{**GREY, "y_train": GREY["y_train"][:, None].astype(np.int16)})
    other = digits(name="mnist")
    assert packed.source != other.source
    assert np.array_equal(packed.x_train, other.x_train)
    assert np.array_equal(packed.y_train, other.y_train)


def test_npz_goes_before_idx_and_the_folder_before_the_cache(folder: Path, keras_home: Path) -> None:
    cache = keras_home / "datasets"
    cache.mkdir(parents=True)
    assert find_data("mnist").place == "download"
    np.savez(cache / "mnist.npz", **GREY)
    assert find_data("mnist").place == "cache"
    assert digits(name="mnist").source == str(cache / "mnist.npz")
    write_idx(folder / "mnist", GREY)
    assert find_data("mnist").sentence == f"mnist is in {folder}/mnist/train-images-idx3-ubyte (PHYLOOP_DATA)"
    np.savez(folder / "mnist.npz", **GREY)
    assert find_data("mnist").sentence == f"mnist is in {folder}/mnist.npz (PHYLOOP_DATA)"


def test_what_keras_has_kept_is_found_without_it(keras_home: Path) -> None:
    cache = keras_home / "datasets"
    write_idx(cache / "fashion-mnist", GREY, packed=True)
    write_folder(cache / "cifar-10-batches-py-target" / "cifar-10-batches-py", cifar_files(COLOUR, fine=False))
    assert np.array_equal(digits(name="fashion-mnist").y_test, GREY["y_test"])
    assert np.array_equal(digits(name="cifar10").x_test, COLOUR["x_test"])


def test_a_download_that_was_interrupted_goes_on(keras_home: Path) -> None:
    write_idx(keras_home / "datasets" / "fashion-mnist", GREY, packed=True)["x_test"].unlink()
    assert find_data("fashion-mnist").place == "download"


def test_files_of_mnist_are_not_taken_for_fashion(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(folder, GREY)
    assert find_data("mnist").place == "folder"
    assert find_data("fashion-mnist").place == "download"
    own = folder / "FashionMNIST"
    write_idx(own, GREY)
    monkeypatch.setenv("PHYLOOP_DATA", str(own))
    assert find_data("fashion-mnist").place == "folder"
    assert find_data("mnist").place == "download"


def test_other_splits_of_emnist_are_not_taken_for_this_one(folder: Path) -> None:
    np.savez(folder / "emnist_letters.npz", **GREY)
    write_idx(folder, GREY, parts=("emnist-letters-train", "emnist-letters-test"))
    assert find_data("emnist").place == "nowhere"


def test_images_are_counted_without_reading_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(folder, GREY, packed=True)
    np.savez(folder / "cifar10.npz", **COLOUR)
    monkeypatch.delattr(fl.data.images, "read_idx_set")
    assert available_images("mnist") == (30, 20)
    assert available_images("cifar10") == (12, 7)
    assert available_images("digits") == (1437, 360)
    assert available_images("cifar100") == (50_000, 10_000)
    with pytest.raises(LearningError, match="emnist is not in"):
        available_images("emnist")


def test_emnist_without_files_is_one_sentence_with_the_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = (
        "emnist.npz (keras layout) or emnist/emnist-byclass-train-images-idx3-ubyte[.gz] and its three "
        "companions, or write data: digits"
    )
    absent = f"emnist is not in {folder} and keras knows no download of it"
    assert missing_data("emnist") == f"{absent}; put into {folder} (PHYLOOP_DATA) {files}"
    monkeypatch.delenv("PHYLOOP_DATA")
    sentence = f"emnist was not found and keras knows no download of it; set PHYLOOP_DATA to a folder with {files}"
    assert missing_data("emnist") == sentence
    with pytest.raises(LearningError) as caught:
        digits(name="emnist")
    assert str(caught.value) == sentence


def test_a_folder_that_is_none_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHYLOOP_DATA", str(tmp_path / "no"))
    sentence = f"PHYLOOP_DATA names {tmp_path}/no, which is no folder; correct it, or unset it"
    assert missing_data("mnist") == sentence
    assert missing_data("digits") is None
    with pytest.raises(LearningError) as caught:
        digits(name="mnist")
    assert str(caught.value) == sentence


@pytest.mark.parametrize("name", ALL[:-1])
def test_what_can_be_downloaded_is_not_missing(name: DataName) -> None:
    assert missing_data(name) is None
    where = find_data(name)
    assert where.place == ("bundled" if name == "digits" else "download")
    assert ("will be downloaded" in where.sentence) == (name != "digits")


def keras_that(loads: Any) -> dict[str, ModuleType]:
    """TensorFlow with the data sets of keras and nothing else."""
    datasets = SimpleNamespace(
        **{name: SimpleNamespace(load_data=loads) for name in ("mnist", "fashion_mnist", "cifar10", "cifar100")}
    )
    tensorflow, keras = ModuleType("tensorflow"), ModuleType("tensorflow.keras")
    keras.datasets, tensorflow.keras = datasets, keras
    return {"tensorflow": tensorflow, "tensorflow.keras": keras}


def test_a_download_is_checked_like_a_file_and_keeps_its_words_off_the_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def loads() -> Any:
        print("Downloading data from afar")
        return (COLOUR["x_train"], COLOUR["y_train"][:, None]), (COLOUR["x_test"], COLOUR["y_test"][:, None] + shift)

    for name, module in keras_that(loads).items():
        monkeypatch.setitem(sys.modules, name, module)
    shift = 0
    data = digits(name="cifar10")
    assert np.array_equal(data.y_test, COLOUR["y_test"])
    assert data.source == "keras.datasets, cifar10"
    assert capsys.readouterr().out == ""
    fl.data.images._fetched.cache_clear()
    shift = 90
    with pytest.raises(LearningError, match=r"keras\.datasets, cifar10: label"):
        digits(name="cifar10")


def test_a_download_that_fails_is_one_sentence_with_the_remedy(
    keras_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loads() -> Any:
        raise Exception(
            "URL fetch failure on https://far.away/x.tar.gz:\nNone -- [Errno -2] Name not known"
        )  # as keras

    for name, module in keras_that(loads).items():
        monkeypatch.setitem(sys.modules, name, module)
    with pytest.raises(LearningError) as caught:
        digits(name="cifar100")
    assert str(caught.value) == (
        f"cifar100 could not be downloaded to {keras_home}/datasets (URL fetch failure on https://far.away/x.tar.gz: "
        "None -- [Errno -2] Name not known); set PHYLOOP_DATA to a folder with cifar100.npz (keras layout) or "
        "cifar-100-python.tar.gz or the folder cifar-100-python, or write data: digits"
    )


def test_files_are_found_and_read_while_tensorflow_sleeps(folder: Path) -> None:
    np.savez(folder / "mnist.npz", **GREY)
    write_archive(folder / "cifar-10-python.tar.gz", cifar_files(COLOUR, fine=False), folder="cifar-10-batches-py")
    program = (
        "import sys; from fl.data.data_set import data_sets; from fl.data.images import load_images\n"
        "from fl.data.whereabouts import missing_data\n"
        f"print(*(missing_data(name) and name for name in {ALL}))\n"
        "for name in ('mnist', 'cifar10'): load_images(data_sets.read(name), seed=1, trial=0)\n"
        "print(*({'tensorflow', 'keras', 'sklearn', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "None None None None None emnist\n\n"


@pytest.mark.parametrize("name", ALL)
def test_facts_fit_each_other(name: DataName) -> None:
    facts = image_facts(name)
    height, width, channels = facts.image_shape
    assert height == width
    assert channels == (3 if name.startswith("cifar") else 1)
    assert facts.num_train > facts.num_test > facts.num_classes


def test_symmetric_pixels_reach_from_minus_one_to_one() -> None:
    data = load_images(data_sets.read({"pixels": "symmetric"}), seed=1, trial=0)
    assert data.scale * data.x_train.min() + data.shift == -1.0
    assert data.scale * data.x_train.max() + data.shift == 1.0


def test_images_held_out_for_validation_are_not_trained_on() -> None:
    whole = load_images(data_sets.read("digits"), seed=1, trial=0)
    held = load_images(data_sets.read({"validation_samples": 300}), seed=1, trial=0)
    assert len(whole.y_validation) == 0
    assert len(held.y_validation) == 300
    assert len(held.y_train) == len(whole.y_train) - 300
    together = np.concatenate([held.x_train, held.x_validation]).reshape(len(whole.y_train), -1)
    assert sorted(map(bytes, together)) == sorted(map(bytes, whole.x_train.reshape(len(whole.y_train), -1)))
    with pytest.raises(LearningError, match=r"leaves 0 of the 1437 images .* to train on; lower it$"):
        load_images(data_sets.read({"validation_samples": 5000}), seed=1, trial=0)
    with pytest.raises(LearningError, match=r"leaves 1137 of the .* to train on; lower it, or train_samples"):
        load_images(data_sets.read({"train_samples": 1400, "validation_samples": 300}), seed=1, trial=0)
