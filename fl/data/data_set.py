"""Images to learn from, and the devices that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fl.base.fields import Count, Frozen
from fl.base.words import plural
from phy.config.conflict import ConflictError, LeaveOut, Write
from phy.config.registry import Registry, defines

Pair = tuple[NDArray[Any], NDArray[Any]]

DataName = str


@dataclass(frozen=True, kw_only=True)
class ImageFacts:
    """Shape (height, width, channels), classes, and images of the complete set; pixels count up to `largest_pixel`.

    Of files of the user, too: a table has images of one row, `[1, features, 1]`; `predicts_numbers`: in place of
    classes one number; `owners`: names of those whose samples these are, none if nobody is named, with the samples to
    train on and the classes among them of each; `is_bytes`: pixels are whole numbers.
    """

    image_shape: tuple[int, int, int]
    num_classes: int
    num_train: int
    num_test: int
    largest_pixel: int = 255
    is_table: bool = False
    predicts_numbers: bool = False
    owners: tuple[str, ...] = ()
    sizes_of_owners: tuple[int, ...] = ()
    classes_of_owners: tuple[int, ...] = ()
    is_bytes: bool = True

    @property
    def in_words(self) -> str:
        """`images of 28 x 28, 10 classes`, `rows of 30 features, 2 classes`."""
        height, width, channels = self.image_shape
        of = f"rows of {plural(width, 'feature')}" if self.is_table else f"images of {height} x {width}"
        colours = f" x {channels}" if channels > 1 else ""
        owners = f", of {plural(len(self.owners), 'owner')}" if self.owners else ""
        return f"{of}{colours}, {'a number' if self.predicts_numbers else f'{self.num_classes} classes'}{owners}"


class DataSet(Frozen):
    """A set of labelled images, `learning.data` of a scenario. A set is a class in the registry `data_sets`.

    A set of one's own defines `facts` and `read`.
    """

    name: str
    train_samples: Count | None = Field(default=None, description="the first N of a seeded shuffle; left out: all")
    test_samples: Count | None = Field(default=None, description="the first N of a seeded shuffle; left out: all")
    validation_samples: Count | None = Field(
        default=None, description="training images held out, to choose the best round on"
    )
    pixels: Literal["unit", "symmetric"] = Field(
        default="unit", description="from 0 (unit) or -1 (symmetric) to 1; unit is usual"
    )

    facts: ClassVar[ImageFacts | None] = None
    comes_with: ClassVar[str] = "its own reader"
    """What brings the images of a set with `read`."""

    @property
    def source(self) -> str | None:
        """The files that the user names; None for sets that phyloop finds, or that come with their reader."""
        return None

    @property
    def standardizes(self) -> bool:
        """True if features are shifted and scaled by the samples to train on."""
        return False

    @classmethod
    def facts_of(cls, name: DataName) -> ImageFacts:
        """Return what every complete copy of the set `name` of this class has."""
        del name
        assert cls.facts is not None
        return cls.facts

    def described(self) -> ImageFacts:
        """Return what every complete copy of this set has. LearningError for files that cannot be read."""
        return self.facts_of(self.name)

    @classmethod
    def undefined(cls) -> tuple[str, ...]:
        """Return what a set must define and this one does not, for its registry."""
        return tuple(name for name in ("facts", "read") if not defines(cls, DataSet, name))

    if TYPE_CHECKING:  # absent for the sets that phyloop finds by their names

        def read(self) -> tuple[Pair, Pair]:
            """Return images `[N, height, width, channels]` uint8 and labels `[N]`, to train on and to test on."""


data_sets: Registry[DataSet] = Registry(
    "data set", DataSet, package="fl.data.sets", default="digits", default_with={"file": "file"}
)
"""All sets of images, by the word in `learning.data.name`."""


class PartitionRule(Frozen):
    """Samples that each device holds: a plug-in defines `deal`."""

    if TYPE_CHECKING:
        kind: str

    @classmethod
    def undefined(cls) -> tuple[str, ...]:
        """Return what a class must define to be registered and does not."""
        inside = "samples_per_device" in cls.model_fields  # PartitionConfig, which fl.data.partition deals
        return () if inside or defines(cls, PartitionRule, "deal") else ("deal",)

    def deal(
        self,
        labels: NDArray[Any],
        *,
        features: NDArray[Any],
        owner: NDArray[np.int64] | None,
        num_devices: int,
        generator: np.random.Generator,
    ) -> Sequence[NDArray[np.int64]]:
        """Return the positions of the samples of each device, `num_devices` arrays of whole numbers, none empty.

        `labels` `[N]` of the training set: classes from 0, int64, or numbers to predict, float32; `features` `[N, H, W,
        C]`: images, or tables of height 1; `owner` `[N]` of each sample, None where the data name nobody. Every random
        number comes from `generator`. LearningError (`fl.base.errors`) where the samples cannot be dealt so.
        """
        raise NotImplementedError

    @property
    def each(self) -> int | None:
        """Samples of every device; None where devices have different numbers of them."""
        return None


partitions: Registry[PartitionRule] = Registry("partition", PartitionRule, tag="kind", default="iid")
"""All ways to deal samples to devices, by the word in `learning.partition.kind`."""


@partitions.register
class PartitionConfig(PartitionRule):
    """Samples dealt at random, by their labels, or left with their owners."""

    kind: Literal["iid", "labels", "dirichlet", "given"] = Field(
        default="iid",
        description="iid: devices differ by chance alone, the usual baseline; labels: few labels per device; "
        "dirichlet: shares of labels follow Dirichlet(alpha); given: every device is an owner of the user's data",
    )
    samples_per_device: Count | None = Field(default=None, description="|D_n|; left out: the devices share all samples")
    labels_per_device: Count | None = Field(default=None, examples=[2], description="labels of a device (kind labels)")
    alpha: Annotated[float, Field(ge=1e-3, le=1e6, allow_inf_nan=False)] | None = Field(
        default=None, examples=[0.3], description="concentration, a small one is far from IID (kind dirichlet)"
    )
    disjoint: bool = Field(
        default=True,
        description="no two devices hold the same sample; false: each draws from the whole set; true: data of "
        "devices are their own",
    )

    @model_validator(mode="after")
    def _a_parameter_belongs_to_its_kind(self) -> PartitionConfig:
        for key, kind in (("labels_per_device", "labels"), ("alpha", "dirichlet")):
            given = getattr(self, key) is not None
            if given != (self.kind == kind):
                if given:
                    problem = f"{key} belongs to kind {kind}, the kind is {self.kind}"
                    raise ConflictError(f"{key} kind", problem, LeaveOut(), Write({"kind": kind}))
                usual = {"kind": kind, key: 2 if kind == "labels" else 0.5}
                remedy = Write({"partition": usual}, example=True)
                raise ConflictError(f"kind {key}", f"kind {self.kind} needs {key}", remedy)
        if self.kind == "given" and (self.samples_per_device is not None or not self.disjoint):
            unfit = [key for key in ("samples_per_device", "disjoint") if key in self.model_fields_set]
            raise ConflictError(
                f"{unfit[0]} kind", "kind given leaves every owner all of its samples", LeaveOut(*unfit)
            )
        if not self.disjoint and self.samples_per_device is None:
            raise ConflictError(
                "disjoint", "without disjoint every device draws from the whole set", Write({"samples_per_device": 50})
            )
        return self

    @property
    def each(self) -> int | None:
        """See `PartitionRule.each`."""
        return self.samples_per_device
