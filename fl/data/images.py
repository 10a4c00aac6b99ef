"""The images that one trial learns from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fl.config.data import DataName, DataSet
from fl.data.arrays import Arrays, ImageData, checked_arrays
from fl.data.cifar import read_cifar
from fl.data.digits import read_digits
from fl.data.download import download
from fl.data.facts import image_facts
from fl.data.idx import read_idx_set, read_idx_shape
from fl.data.npz import check_headers, read_npz
from fl.data.whereabouts import Found, find_data
from fl.tasks.base import LearningError
from phy.numerics.random import Purpose, generator


def load_images(config: DataSet, *, seed: int, trial: int) -> ImageData:
    """The set that `config` names; `train_samples` and `test_samples` of it by a shuffle of this seed and trial.

    Train and test images are shuffled on their own, so more of one leaves the other alone, and a larger number keeps
    the images of a smaller one. The decoded set stays in memory for further trials. LearningError, one sentence, if it
    cannot be had, is damaged, or has fewer images than asked for.
    """
    whole = _whole_set(config)
    train, test = generator(seed, trial, Purpose.DATA).spawn(2)
    arrays = whole.arrays
    (x_train, y_train), (x_validation, y_validation) = _held_out(config, whole=whole, generator=train)
    x_test, y_test = _some(
        arrays.x_test, arrays.y_test, config.test_samples, key="test_samples", whole=whole, generator=test
    )
    facts = image_facts(config.name)
    return ImageData(
        name=config.name,
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        num_classes=facts.num_classes,
        x_validation=x_validation,
        y_validation=y_validation,
        scale=(2.0 if config.pixels == "symmetric" else 1.0) / facts.largest_pixel,
        shift=-1.0 if config.pixels == "symmetric" else 0.0,
        source=whole.source,
        fingerprint=whole.fingerprint,
    )


def available_images(name: DataName) -> tuple[int, int]:
    """Train and test images of the copy that would be read, from its headers alone; those of the whole set if unknown.

    LearningError if it cannot be had, or if its headers show damage.
    """
    where = find_data(name)
    if where.place == "nowhere":
        raise LearningError(where.sentence)
    if where.found is not None and where.found.format == "npz":
        return check_headers(where.found.paths[0], name=name)
    if where.found is not None and where.found.format == "idx":
        train, _, test, _ = where.found.paths
        return read_idx_shape(train, num_axes=3)[0], read_idx_shape(test, num_axes=3)[0]
    facts = image_facts(name)
    return facts.num_train, facts.num_test


_Pair = tuple[NDArray[np.uint8], NDArray[np.int64]]


@dataclass(frozen=True, kw_only=True)
class _Whole:
    arrays: Arrays
    source: str
    fingerprint: str


def _held_out(config: DataSet, *, whole: _Whole, generator: np.random.Generator) -> tuple[_Pair, _Pair]:
    """Training images, and those that follow them in the shuffle for validation."""
    images, labels = whole.arrays.x_train, whole.arrays.y_train
    held = config.validation_samples or 0
    if not held:
        train = _some(images, labels, config.train_samples, key="train_samples", whole=whole, generator=generator)
        return train, (images[:0], labels[:0])
    if held >= len(labels):
        raise LearningError(
            f"validation_samples {held} leaves nothing to train on of the {len(labels)} images in {whole.source}; "
            "lower it"
        )
    count = len(labels) - held if config.train_samples is None else config.train_samples
    if count + held > len(labels):
        raise LearningError(
            f"train_samples {count} and validation_samples {held} exceed the {len(labels)} images in {whole.source}; "
            "lower one of them"
        )
    x, y = _some(images, labels, count + held, key="train_samples", whole=whole, generator=generator)
    return (x[:count], y[:count]), (x[count:], y[count:])


def _some(
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    count: int | None,
    *,
    key: str,
    whole: _Whole,
    generator: np.random.Generator,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The first `count` of a shuffle, all in their order if None."""
    if count is None:
        return images, labels
    if count > len(labels):
        raise LearningError(f"{key} {count} exceeds the {len(labels)} images in {whole.source}; lower it")
    chosen = generator.permutation(len(labels))[:count]
    x, y = images[chosen], labels[chosen]
    x.setflags(write=False)
    y.setflags(write=False)
    return x, y


def _whole_set(config: DataSet) -> _Whole:
    if config.facts is not None:
        return _own(config)
    name, where = config.name, find_data(config.name)
    if where.place == "nowhere":
        raise LearningError(where.sentence)
    if where.place == "bundled":
        return _digits()
    if where.found is None:
        return _downloaded(name)
    return _read(name, where.found, _state_of(where.found))


def _state_of(found: Found) -> tuple[tuple[int, int], ...]:
    """Time of change and size of every file, so that a replaced file is read again."""
    files = [path for given in found.paths for path in (sorted(given.iterdir()) if given.is_dir() else [given])]
    try:
        return tuple((status.st_mtime_ns, status.st_size) for status in (path.stat() for path in files))
    except OSError as error:
        raise LearningError(f"{error.filename}: it cannot be read ({error.strerror}); allow it") from error


@lru_cache(maxsize=2)
def _read(name: DataName, found: Found, _state: tuple[tuple[int, int], ...]) -> _Whole:
    match found.format:
        case "npz":
            arrays = read_npz(found.paths[0], name=name)
        case "idx":
            arrays = read_idx_set(found.paths, name=name)
        case "cifar":
            arrays = read_cifar(found.paths[0], name=name)
    return _Whole(arrays=arrays, source=str(found.paths[0]), fingerprint=_fingerprint(arrays))


@lru_cache(maxsize=2)
def _own(config: DataSet) -> _Whole:
    found = config.read()
    if found is None:
        raise LearningError(f"data set {config.name} has facts and reads nothing; define read")
    arrays = checked_arrays(config.name, train=found[0], test=found[1], source=f"data set {config.name}")
    return _Whole(arrays=arrays, source=f"data set {config.name}", fingerprint=_fingerprint(arrays))


@lru_cache(maxsize=1)
def _digits() -> _Whole:
    arrays = read_digits()
    return _Whole(arrays=arrays, source="scikit-learn's digits", fingerprint=_fingerprint(arrays))


@lru_cache(maxsize=2)
def _downloaded(name: DataName) -> _Whole:
    source = f"keras.datasets, {name}"
    train, test = download(name)
    arrays = checked_arrays(name, train=train, test=test, source=source)
    return _Whole(arrays=arrays, source=source, fingerprint=_fingerprint(arrays))


def _fingerprint(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for array in (arrays.x_train, arrays.y_train, arrays.x_test, arrays.y_test):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()[:16]
