"""The arrays of a set of images, and what makes them one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fl.base.arrays import F32, I64, U8
from fl.base.errors import LearningError
from fl.data.data_set import DataName, ImageFacts, Pair, data_sets

AGAIN = "fetch the file again"


def image_facts(name: DataName) -> ImageFacts:
    """What every complete copy of the set `name` has; a file with a part of it has fewer images."""
    return data_sets[name].facts_of(name)


@dataclass(frozen=True, kw_only=True)
class ImageData:
    """Labelled images of one trial, or the rows of a table.

    - `x_train` uint8 or float32 `[N, H, W, C]`, `y_train` int64 `[N]`, `x_test`, `y_test` alike, all read-only; pixels
      become `scale` * x + `shift`, in [0, 1] or [-1, 1], only on use;
    - `x_validation`, `y_validation`: training images held out;
    - `source`: the file they came from;
    - `owner` int64 `[N]` of each training sample, one of `num_owners`; None where nobody is named;
    - `unit`: where numbers are predicted, `y` float32 times this is in the unit of the user; None for classes.
    """

    name: DataName
    x_train: U8 | F32
    y_train: NDArray[Any]
    x_test: U8 | F32
    y_test: NDArray[Any]
    x_validation: U8 | F32
    y_validation: NDArray[Any]
    num_classes: int
    scale: float
    shift: float
    source: str
    owner: I64 | None = None
    num_owners: int = 0
    unit: float | None = None

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        height, width, channels = self.x_train.shape[1:]
        return height, width, channels


@contextmanager
def reading(what: str, *, source: object) -> Iterator[None]:
    """Raise LearningError, one sentence, where the file `source` turns out to be no whole `what`."""
    try:
        yield
    except LearningError:
        raise
    except Exception as error:  # NumPy, gzip, tarfile, zipfile and pickle have no class in common
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise LearningError(f"{source}: not a whole {what} ({reason})", AGAIN) from error


def checked_images(name: DataName, parts: tuple[Pair, Pair], *, source: str) -> ImageData:
    """The whole set `parts` (train, test) in the common layout, with pixels in [0, 1] on use.

    Grey images may lack the axis of channels, labels may be `[N, 1]`. LearningError, one sentence with `source`, for
    anything else.
    """
    facts = image_facts(name)
    x_train, y_train = _checked_part(name, parts[0], part="train", source=source)
    x_test, y_test = _checked_part(name, parts[1], part="test", source=source)
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


def _checked_part(name: DataName, pair: Pair, *, part: Literal["train", "test"], source: str) -> tuple[U8, I64]:
    facts, (images, labels) = image_facts(name), pair
    shapes = facts.image_shape, facts.image_shape[: 2 if facts.image_shape[2] == 1 else 3]
    for what, array, right, wanted in (
        ("images x", images, images.dtype == np.uint8 and images.shape[1:] in shapes, f"uint8 {facts.image_shape}"),
        ("labels y", labels, labels.dtype.kind in "iu" and labels.shape[1:] in ((), (1,)), "an integer"),
    ):
        if not right or not array.ndim:
            raise LearningError(
                f"{source}: {what}_{part} are {array.dtype} of shape {array.shape}, each of {name} is {wanted}",
                "write the file anew, or name the set that it holds",
            )
    if len(images) != len(labels) or not len(images):
        raise LearningError(f"{source}: {len(images)} {part} images have {len(labels)} labels", AGAIN)
    flat = labels.reshape(-1)
    wrong = np.flatnonzero((flat < 0) | (flat >= facts.num_classes))
    if wrong.size:
        raise LearningError(
            f"{source}: label {flat[wrong[0]]} of {part} image {wrong[0]} is outside 0 .. "
            f"{facts.num_classes - 1} of {name}",
            f"{AGAIN}, or name another set",
        )
    if (largest := int(images.max())) > facts.largest_pixel:
        raise LearningError(f"{source}: pixel {largest} in x_{part} exceeds {facts.largest_pixel} of {name}", AGAIN)
    pixels = np.ascontiguousarray(images).reshape(-1, *facts.image_shape)
    numbers = flat.astype(np.int64)
    pixels.setflags(write=False)
    numbers.setflags(write=False)
    return pixels, numbers
