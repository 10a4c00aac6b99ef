"""Which images are learnt from, and who holds which of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fl.config.base import Count, Frozen

DataName = Literal["digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "emnist"]


class DataConfig(Frozen):
    """A set of labelled images. `digits` is scikit-learn's (1,797 images of 8 x 8) and needs no download.

    `train_samples` and `test_samples` take the first so many of a seeded shuffle; left out, all. `validation_samples`
    of the training images are held out, to choose the best round on. `pixels` reach from 0 (`unit`) or -1 to 1.
    """

    name: DataName = "digits"
    train_samples: Count | None = None
    test_samples: Count | None = None
    validation_samples: Count | None = None
    pixels: Literal["unit", "symmetric"] = "unit"


class PartitionConfig(Frozen):
    """Which samples each device holds.

    - `iid`: drawn from all, whatever their label;
    - `labels`: each device holds samples of `labels_per_device` labels only;
    - `dirichlet`: the labels of each device follow Dirichlet(`alpha`), small alpha is far from IID.

    `samples_per_device` fixes |D_n|; left out, the samples are shared out. Devices draw from one another's rest
    (`disjoint`), or each from the whole set.
    """

    kind: Literal["iid", "labels", "dirichlet"] = "iid"
    samples_per_device: Count | None = None
    labels_per_device: Count | None = None
    alpha: Annotated[float, Field(ge=1e-3, le=1e6, allow_inf_nan=False)] | None = None
    disjoint: bool = True

    @model_validator(mode="after")
    def _a_parameter_belongs_to_its_kind(self) -> PartitionConfig:
        for key, kind in (("labels_per_device", "labels"), ("alpha", "dirichlet")):
            given = getattr(self, key) is not None
            if given != (self.kind == kind):
                raise ValueError(
                    f"kind {self.kind} needs {key}; write for example {key}: {2 if kind == 'labels' else 0.5}"
                    if not given
                    else f"{key} belongs to kind {kind}, the kind is {self.kind}; leave it out or write kind: {kind}"
                )
        if not self.disjoint and self.samples_per_device is None:
            raise ValueError("without disjoint every device draws from the whole set; say how many: samples_per_device")
        return self
