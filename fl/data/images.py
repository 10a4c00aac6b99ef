"""The images that one trial learns from."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from fl.base.arrays import F32, I64, U8
from fl.base.errors import LearningError
from fl.data.arrays import ImageData, checked_images, image_facts
from fl.data.data_set import DataName, DataSet
from fl.data.formats import read_cifar, read_idx, read_idx_set, read_npz
from fl.data.sets.own import FileData
from fl.data.whereabouts import Found, keras_cache, place_of, remedy
from phy.numerics.random import Purpose, generator

_PARTS = ("train_samples", "test_samples", "validation_samples")


def load_images(config: DataSet, *, seed: int, trial: int) -> ImageData:
    """The set that `config` names; `train_samples` and `test_samples` of it by a shuffle of this seed and trial.

    Train and test images are shuffled on their own, and a larger number keeps the images of a smaller one; images for
    validation follow those to train on. The decoded set stays in memory. LearningError, one sentence, if it cannot be
    had, is damaged, or has fewer images than asked for.
    """
    whole = _whole_set(config)
    noun = "images" if whole.owner is None and config.source is None else "samples"
    train, test = generator(seed, trial, Purpose.DATA).spawn(2)
    have, count, held = len(whole.y_train), config.train_samples, config.validation_samples or 0
    if held and (count or 1) + held > have:
        raise LearningError(
            f"validation_samples {held} leaves {max(have - held, 0)} of the {have} {noun} in "
            f"{whole.source} to train on",
            f"lower it{'' if count is None else ', or train_samples'}",
        )
    if held:
        count = have - held if count is None else count
    x, y, owner = _first(whole, "train", None if count is None else count + held, generator=train, noun=noun)
    x_test, y_test, _ = _first(whole, "test", config.test_samples, generator=test, noun=noun)
    end = len(y) - held
    cut = replace(
        whole,
        x_train=x[:end],
        y_train=y[:end],
        x_test=x_test,
        y_test=y_test,
        x_validation=x[end:],
        y_validation=y[end:],
        owner=None if owner is None else owner[:end],
    )
    if config.standardizes:
        return _standardized(cut)
    if cut.x_train.dtype.kind == "f":
        return cut
    return replace(
        cut,
        scale=(2.0 if config.pixels == "symmetric" else 1.0) * whole.scale,
        shift=-1.0 if config.pixels == "symmetric" else 0.0,
    )


def _standardized(data: ImageData) -> ImageData:
    """Features, and numbers to predict, with zero mean and unit variance over the samples to train on.

    A feature that never changes there becomes zero.
    """
    mean, deviation = data.x_train.mean(axis=0, dtype=np.float64), data.x_train.std(axis=0, dtype=np.float64)
    factor = np.where(deviation > 1e-7 * np.abs(mean), 1.0 / np.where(deviation > 0.0, deviation, 1.0), 0.0)
    found: dict[str, Any] = {
        f"x_{part}": ((getattr(data, f"x_{part}") - mean) * factor).astype(np.float32)
        for part in ("train", "test", "validation")
    }
    found |= {"scale": 1.0, "shift": 0.0}
    if data.unit is not None:
        middle, unit = float(data.y_train.mean(dtype=np.float64)), float(data.y_train.std(dtype=np.float64)) or 1.0
        for part in ("train", "test", "validation"):
            found[f"y_{part}"] = ((getattr(data, f"y_{part}") - middle) / unit).astype(np.float32)
        found["unit"] = data.unit * unit
    for array in found.values():
        if isinstance(array, np.ndarray):
            array.setflags(write=False)
    return replace(data, **found)


def available_images(name: DataName) -> tuple[int, int]:
    """Train and test images of the copy that would be read, from its labels; those of the whole set if unknown."""
    where = place_of(name)
    if where.found is not None and where.found.format == "npz":
        train, test = read_npz(where.found.paths[0], "y_train", "y_test")
        return len(train), len(test)
    if where.found is not None and where.found.format == "idx":
        _, labels, _, test_labels = where.found.paths
        return len(read_idx(labels)), len(read_idx(test_labels))
    facts = image_facts(name)
    return facts.num_train, facts.num_test


def _first(
    whole: ImageData, part: str, count: int | None, *, generator: np.random.Generator, noun: str
) -> tuple[U8 | F32, I64 | F32, I64 | None]:
    """The first `count` images of a shuffle, all in their order if None, with labels and owners."""
    images, labels = getattr(whole, f"x_{part}"), getattr(whole, f"y_{part}")
    owner = whole.owner if part == "train" else None
    if count is None:
        return images, labels, owner
    if count > len(labels):
        raise LearningError(f"{part}_samples {count} exceeds the {len(labels)} {noun} in {whole.source}", "lower it")
    chosen = generator.permutation(len(labels))[:count]
    x, y = images[chosen], labels[chosen]
    x.setflags(write=False)
    y.setflags(write=False)
    return x, y, None if owner is None else owner[chosen]


def _whole_set(config: DataSet) -> ImageData:
    if isinstance(config, FileData):
        return _of_files(config)
    if config.facts is not None:
        return _read_by_itself(config.model_copy(update=dict.fromkeys(_PARTS) | {"pixels": "unit"}))
    where = place_of(config.name)
    if where.found is None:
        return _fetched(config.name)
    # Time of change and size of every file, so that a replaced file is read again.
    files = [path for given in where.found.paths for path in (sorted(given.iterdir()) if given.is_dir() else [given])]
    return _read(config.name, where.found, tuple((path.stat().st_mtime_ns, path.stat().st_size) for path in files))


@lru_cache(maxsize=2)
def _read(name: DataName, found: Found, _state: tuple[tuple[int, int], ...]) -> ImageData:
    first = found.paths[0]
    match found.format:
        case "npz":
            x, y, x_test, y_test = read_npz(first, "x_train", "y_train", "x_test", "y_test")
            parts = (x, y), (x_test, y_test)
        case "cifar":
            parts = read_cifar(first, name=name)
        case "idx":
            parts = read_idx_set(found.paths, name=name)
    return checked_images(name, parts, source=str(first))


def _of_files(config: FileData) -> ImageData:
    samples = config.samples
    train, tested = ~samples.is_test, samples.is_test
    return ImageData(
        name=config.name,
        x_train=samples.x[train],
        y_train=samples.y[train],
        x_test=samples.x[tested],
        y_test=samples.y[tested],
        x_validation=samples.x[:0],
        y_validation=samples.y[:0],
        num_classes=len(samples.classes) or 1,
        scale=1.0 / 255.0 if samples.x.dtype.kind == "u" else 1.0,
        shift=0.0,
        source=config.source,
        owner=None if samples.owner is None else samples.owner[train],
        num_owners=len(samples.owners),
        unit=None if samples.classes else 1.0,
    )


@lru_cache(maxsize=3)
def _read_by_itself(config: DataSet) -> ImageData:
    return checked_images(config.name, config.read(), source=f"{config.name}, which comes with {config.comes_with}")


@lru_cache(maxsize=3)
def _fetched(name: DataName) -> ImageData:
    """The set that keras fetches, checks and keeps; LearningError with the remedy if that fails."""
    from tensorflow.keras import datasets

    try:
        with redirect_stdout(sys.stderr):  # what keras says is no result of a command
            parts = getattr(datasets, name.replace("-", "_")).load_data()
    except Exception as error:  # keras raises a bare Exception where an address cannot be reached
        reason = " ".join(str(error).split()) or type(error).__name__
        raise LearningError(f"{name} could not be downloaded to {keras_cache()} ({reason})", remedy(name)) from error
    return checked_images(name, parts, source=f"keras.datasets, {name}")
