"""Data of the user in files: tables, arrays, and federated collections with their owners."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fl.base.errors import LearningError
from fl.data.data_set import DataSet, ImageFacts, data_sets
from fl.data.files.parts import ARRAYS, COLLECTIONS, TABLES, Columns
from phy.config.conflict import Conflict, ConflictError, LeaveOut, Say, listing
from phy.config.files import FilePath, Sha256, files_of, pin_file

Name = Annotated[str, Field(min_length=1, max_length=200)]


@data_sets.register
class FileData(DataSet):
    """Samples in files of one's own. `{file: mine.csv, label: diagnosis}` names this set without `name: file`.

    - tables (`.csv`, `.tsv`, `.parquet`): a sample per row;
    - arrays (`.npz`, `.h5`): `x` and `y`, or `x_train`, `y_train`, `x_test` and `y_test`, and `owner`;
    - LEAF (`.json`) and TensorFlow Federated (`.sqlite`, `.sqlite.lzma`), each with its users as owners.

    A `*` in the name of a file stands for several files. Where nothing else names owners, each file is one.
    """

    name: Literal["file"] = "file"
    file: FilePath = Field(
        description="path, beside the scenario, in the folder of PHYLOOP_DATA or in the working directory; * in its "
        "name: several files",
        examples=["mine.csv"],
    )
    sha256: Sha256 | None = Field(default=None, description="SHA-256 of file; written by phyloop run")
    test_file: FilePath | None = Field(
        default=None, description="files with samples to test on; left out: test_share of the samples of file"
    )
    test_sha256: Sha256 | None = Field(default=None, description="SHA-256 of test_file; written by phyloop run")
    label: Name | None = Field(
        default=None, description="column of the class or number to predict, or array; left out: array y"
    )
    features: Annotated[tuple[Name, ...], Field(min_length=1, max_length=100_000)] | None = Field(
        default=None,
        description="columns of numbers, or one array; left out: all columns but label and owner, or array x",
    )
    owner: Name | None = Field(
        default=None, description="column or array of the owner of each sample, for partition given; left out: none"
    )
    test_share: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        default=0.2,
        description="share of the samples of every owner and class to test on, the same in every trial; 0.2 is usual",
    )
    target: Literal["auto", "class", "number"] = Field(
        default="auto",
        description="classes, or numbers by squared loss (number); auto: numbers where the label has decimals",
    )
    standardize: bool | Literal["auto"] = Field(
        default="auto",
        description="zero mean and unit variance of every feature, and of numbers to predict, by all samples to train "
        "on; auto: for tables, not for images",
    )

    @model_validator(mode="after")
    def _files_can_be_read(self) -> FileData:
        for key, written in (("file", self.file), ("test_file", self.test_file)):
            suffix = Path(written or "").suffix.lower()
            if written is not None and suffix not in TABLES + ARRAYS + COLLECTIONS:
                known = listing([*TABLES, *ARRAYS, *COLLECTIONS[:-1], ".sqlite.lzma"])
                raise ConflictError(key, f"{key} {written} is of no known kind", Say(f"name a file in {known}"))
            named = [one for one in ("label", "features", "owner") if getattr(self, one) is not None]
            if suffix in COLLECTIONS and named:
                raise ConflictError(
                    named[0], f"{suffix} files name samples, labels and owners themselves", LeaveOut(*named)
                )
        if self.test_file is not None and "test_share" in self.model_fields_set and self.test_share != 0.2:
            raise ConflictError(
                "test_share test_file", "test_share draws from file, and test_file has its own", LeaveOut("test_share")
            )
        if self.pixels != "unit" and Path(self.file).suffix.lower() in TABLES:
            raise ConflictError("pixels", "pixels are those of images, and file is a table", LeaveOut("pixels"))
        pin_file(self)
        pin_file(self, key="test_file", digest="test_sha256")
        return self

    @classmethod
    def undefined(cls) -> tuple[str, ...]:
        """See `DataSet.undefined`: these sets are read from files."""
        return ()

    @property
    def source(self) -> str:
        """See `DataSet.source`."""
        return self.file if self.test_file is None else f"{self.file} and {self.test_file}"

    @property
    def samples(self) -> Any:
        """The samples of the files, kept in memory. LearningError for files that cannot be learnt from."""
        from fl.data.files.samples import read_samples

        parts = []
        for key, written in (("file", self.file), ("test_file", self.test_file)):
            files = () if written is None else files_of(written)
            if written is not None and not files:
                keys = f"learning.data.{key} learning.data"
                raise LearningError(Conflict(keys, f"{written} is no longer there", Say("put the file back")))
            parts.append(files)
        return read_samples(
            parts[0],
            parts[1],
            digests=(self.sha256 or "", self.test_sha256 or ""),
            columns=Columns(label=self.label, features=self.features, owner=self.owner),
            target=self.target,
            test_share=self.test_share,
        )

    def described(self) -> ImageFacts:
        """See `DataSet.described`: from the files themselves."""
        samples = self.samples
        num_test = int(samples.is_test.sum())
        height, width, channels = samples.x.shape[1:]
        return ImageFacts(
            image_shape=(height, width, channels),
            num_classes=len(samples.classes) or 1,
            num_train=len(samples.y) - num_test,
            num_test=num_test,
            is_table=samples.is_table,
            predicts_numbers=not samples.classes,
            owners=samples.owners,
            sizes_of_owners=samples.sizes_of_owners,
            classes_of_owners=samples.classes_of_owners,
            is_bytes=samples.x.dtype.kind == "u",
        )

    @property
    def standardizes(self) -> bool:
        """See `DataSet.standardizes`."""
        return self.samples.is_table if self.standardize == "auto" else self.standardize
