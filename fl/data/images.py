"""The images that one trial learns from."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from functools import lru_cache

import numpy as np

from fl.base.arrays import I64, U8
from fl.base.errors import LearningError
from fl.data.arrays import ImageData, checked_images, image_facts
from fl.data.data_set import DataName, DataSet
from fl.data.formats import read_cifar, read_idx, read_idx_set, read_npz
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
    train, test = generator(seed, trial, Purpose.DATA).spawn(2)
    have, count, held = len(whole.y_train), config.train_samples, config.validation_samples or 0
    if held and (count or 1) + held > have:
        raise LearningError(
            f"validation_samples {held} leaves {max(have - held, 0)} of the {have} images in "
            f"{whole.source} to train on",
            f"lower it{'' if count is None else ', or train_samples'}",
        )
    if held:
        count = have - held if count is None else count
    x, y = _first(whole, "train", None if count is None else count + held, generator=train)
    x_test, y_test = _first(whole, "test", config.test_samples, generator=test)
    end = len(y) - held
    return replace(
        whole,
        x_train=x[:end],
        y_train=y[:end],
        x_test=x_test,
        y_test=y_test,
        x_validation=x[end:],
        y_validation=y[end:],
        scale=(2.0 if config.pixels == "symmetric" else 1.0) * whole.scale,
        shift=-1.0 if config.pixels == "symmetric" else 0.0,
    )


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


def _first(whole: ImageData, part: str, count: int | None, *, generator: np.random.Generator) -> tuple[U8, I64]:
    """The first `count` images of a shuffle, all in their order if None."""
    images, labels = getattr(whole, f"x_{part}"), getattr(whole, f"y_{part}")
    if count is None:
        return images, labels
    if count > len(labels):
        raise LearningError(f"{part}_samples {count} exceeds the {len(labels)} images in {whole.source}", "lower it")
    chosen = generator.permutation(len(labels))[:count]
    x, y = images[chosen], labels[chosen]
    x.setflags(write=False)
    y.setflags(write=False)
    return x, y


def _whole_set(config: DataSet) -> ImageData:
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
