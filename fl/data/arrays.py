"""The arrays of a set of images, and what makes them one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fl.arrays import I64, U8
from fl.config.data import DataName, ImageFacts, Pair, data_sets
from fl.tasks.base import LearningError

AGAIN = "fetch the file again"
_CONVERT = "write the file anew"


def image_facts(name: DataName) -> ImageFacts:
    """What every complete copy of the set `name` has; a file with a part of it has fewer images."""
    return data_sets[name].facts_of(name)


@dataclass(frozen=True, kw_only=True)
class ImageData:
    """Labelled images of one trial.

    `x_train` uint8 `[N, H, W, C]`, `y_train` int64 `[N]`, `x_test`, `y_test` alike, all read-only; pixels become
    `scale` * x + `shift`, in [0, 1] or [-1, 1], only on use. `x_validation`, `y_validation` are training images held
    out. `source` says which file they came from.
    """

    name: DataName
    x_train: U8
    y_train: I64
    x_test: U8
    y_test: I64
    x_validation: U8
    y_validation: I64
    num_classes: int
    scale: float
    shift: float
    source: str

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        height, width, channels = self.x_train.shape[1:]
        return height, width, channels


def checked_images(name: DataName, parts: tuple[Pair, Pair], *, source: str, files: tuple[str, ...] = ()) -> ImageData:
    """The whole set `parts` (train, test) in the common layout, with pixels in [0, 1] on use.

    Grey images may lack the axis of channels, labels may be `[N, 1]`. LearningError, one sentence with `source` (or
    the `files` of train and test), for anything else.
    """
    facts = image_facts(name)
    in_train, in_test = files or (source, source)
    x_train, y_train = _checked_part(name, *parts[0], part="train", source=in_train)
    x_test, y_test = _checked_part(name, *parts[1], part="test", source=in_test)
    return ImageData(
        name=name,
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        x_validation=x_train[:0],
        y_validation=y_train[:0],
        num_classes=facts.num_classes,
        scale=1.0 / facts.largest_pixel,
        shift=0.0,
        source=source,
    )


def _checked_part(
    name: DataName, images: NDArray[Any], labels: NDArray[Any], *, part: Literal["train", "test"], source: str
) -> tuple[U8, I64]:
    facts = image_facts(name)
    check_layout(name, shape=images.shape, dtype=images.dtype, what=f"x_{part}", source=source)
    check_layout(name, shape=labels.shape, dtype=labels.dtype, what=f"y_{part}", source=source)
    check_counts(len(images), len(labels), part=part, source=source)
    flat = labels.reshape(-1)
    wrong = np.flatnonzero((flat < 0) | (flat >= facts.num_classes))
    if wrong.size:
        raise LearningError(
            f"{source}: label {flat[wrong[0]]} of {part} image {wrong[0]} is outside 0 .. {facts.num_classes - 1} of "
            f"{name}; {AGAIN}, or name another set"
        )
    if (largest := int(images.max())) > facts.largest_pixel:
        raise LearningError(f"{source}: pixel {largest} in x_{part} exceeds {facts.largest_pixel} of {name}; {AGAIN}")
    pixels = np.ascontiguousarray(images).reshape(-1, *facts.image_shape)
    numbers = flat.astype(np.int64)
    pixels.setflags(write=False)
    numbers.setflags(write=False)
    return pixels, numbers


def check_layout(name: DataName, *, shape: tuple[int, ...], dtype: np.dtype[Any], what: str, source: str) -> None:
    """LearningError unless an array named `what` (x_... or y_...) of this shape and dtype can be of the set."""
    said = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
    if what.startswith("y"):
        if dtype.kind not in "iu":
            raise LearningError(f"{source}: labels {what} are {dtype}, not integers; {_CONVERT} with uint8 labels")
        if len(shape) != 1 and (len(shape) != 2 or shape[1] != 1):
            raise LearningError(f"{source}: labels {what} have shape {said}, not (N,); {_CONVERT}")
        return
    height, width, channels = image_facts(name).image_shape
    if dtype != np.uint8:
        raise LearningError(f"{source}: images {what} are {dtype}, not uint8; {_CONVERT} with pixels 0 .. 255 as uint8")
    if shape[1:] != (height, width, channels) and (channels != 1 or shape[1:] != (height, width)):
        raise LearningError(
            f"{source}: images {what} have shape {said}, those of {name} (N, {height}, {width}, {channels}); "
            "name the set that the file holds, or convert it"
        )


def check_most(name: DataName, *, claimed: int, what: str, source: str) -> None:
    """LearningError for more images or labels than the complete set has, both parts together.

    Asked before anything is unpacked: a few kilobytes may claim, and unpack to, any number of equal bytes.
    """
    facts = image_facts(name)
    if claimed > (most := facts.num_train + facts.num_test):
        raise LearningError(f"{source}: {what} claims {claimed} entries, all of {name} are {most}; {AGAIN}")


def check_counts(num_images: int, num_labels: int, *, part: str, source: str) -> None:
    """LearningError unless there are as many labels as images, and some."""
    if num_images != num_labels:
        raise LearningError(f"{source}: {num_images} {part} images have {num_labels} labels; {AGAIN}")
    if num_images == 0:
        raise LearningError(f"{source}: there is no {part} image; {AGAIN}")


def damaged(what: str, error: BaseException, *, source: object) -> LearningError:
    """Return the LearningError for a file that is not a whole `what`, for the reason in `error`."""
    reason = str(error).strip().rstrip(".") or type(error).__name__
    if isinstance(error, KeyError):
        reason = f"there is no {error.args[0]!r}"
    return LearningError(f"{source}: not a whole {what} ({reason}); {AGAIN}")
