"""Where a set of images is: looked up by file names, nothing read, so that `check` answers at once.

The folder named by PHYLOOP_DATA goes first, then the cache of keras, then a download. In a folder:

1. `.npz`: `mnist.npz`, then parts and variants of it, `mnist_*.npz` and `mnist-*.npz`, in order of their names;
2. IDX files, each plain or `.gz`;
3. the python archives of CIFAR, unpacked or as `.tar.gz`.

IDX files and archives may also lie in a folder of the set's name, below it in `raw` or `gzip`. Since MNIST and
Fashion-MNIST call their files alike, those of Fashion-MNIST count only in a folder of that name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fl.config.data import DataName, data_sets
from fl.data.cifar import ARCHIVES, FOLDERS, TEST_FILES, TRAIN_FILES
from fl.data.idx import file_names
from fl.tasks.base import LearningError

VARIABLE = "PHYLOOP_DATA"

_SPELLINGS: dict[DataName, tuple[str, ...]] = {
    "mnist": ("mnist",),
    "fashion-mnist": ("fashion_mnist", "fashion-mnist", "fashionmnist"),
    "cifar10": ("cifar10", "cifar-10", "cifar_10"),
    "cifar100": ("cifar100", "cifar-100", "cifar_100"),
    "emnist": ("emnist_byclass", "emnist-byclass", "emnist"),
}

Format = Literal["npz", "idx", "cifar"]
Place = Literal["bundled", "folder", "cache", "download", "nowhere"]


@dataclass(frozen=True, kw_only=True)
class Found:
    """Files of one set: one `.npz`, four IDX files (see `fl.data.idx.file_names`), or a folder or archive of CIFAR."""

    format: Format
    paths: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class Whereabouts:
    """Where a set is; `found` for a folder and the cache; `sentence` says it, for `nowhere` with the remedy."""

    place: Place
    sentence: str
    found: Found | None = None


def missing_data(name: DataName) -> str | None:
    """None if the set can be had, if only by a download; else one sentence that says why not and what to do."""
    whereabouts = find_data(name)
    return whereabouts.sentence if whereabouts.place == "nowhere" else None


def find_data(name: DataName) -> Whereabouts:
    """Where `name` would be taken from; file names are looked at, no file is opened, TensorFlow stays asleep."""
    if name == "digits":
        return Whereabouts(place="bundled", sentence="digits comes with scikit-learn")
    if data_sets[name].facts is not None:
        return Whereabouts(place="bundled", sentence=f"{name} comes with a plug-in")
    folder = os.environ.get(VARIABLE, "")
    try:
        if folder and (found := find_in(name, given_folder(folder), variants=True)):
            return Whereabouts(place="folder", sentence=f"{name} is in {found.paths[0]} ({VARIABLE})", found=found)
    except LearningError as error:
        return Whereabouts(place="nowhere", sentence=str(error))
    if name != "emnist":
        try:
            cached = find_in(name, keras_cache(), variants=False)
        except LearningError:  # keras fetches what is not there yet
            cached = None
        if cached:
            return Whereabouts(place="cache", sentence=f"{name} is in keras' cache, {cached.paths[0]}", found=cached)
        return Whereabouts(
            place="download",
            sentence=f"{name} will be downloaded to {keras_cache()} at the first run; to spare that, {remedy(name)}",
        )
    absent = f"is not in {folder}" if folder else "was not found"
    return Whereabouts(place="nowhere", sentence=f"{name} {absent} and keras knows no download of it; {remedy(name)}")


def remedy(name: DataName) -> str:
    """What the user has to put where."""
    folder = os.environ.get(VARIABLE, "")
    npz = f"{_SPELLINGS[name][0]}.npz (keras layout)"
    if name in FOLDERS:
        other = f"{ARCHIVES[name]} or the folder {FOLDERS[name]}"
    else:
        below = "" if name == "mnist" else f"{_SPELLINGS[name][1]}/"
        other = f"{below}{file_names(name)[0][0]}[.gz] and its three companions"
    where = f"put into {folder} ({VARIABLE})" if folder else f"set {VARIABLE} to a folder with"
    where = f"{where} {npz} or {other}"
    return f"{where}, or write data: digits"


def given_folder(folder: str) -> Path:
    """The folder named by PHYLOOP_DATA; LearningError if it is none."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise LearningError(f"{VARIABLE} names {folder}, which is no folder; correct it, or unset it")
    return path


def keras_cache() -> Path:
    """Where keras keeps data sets: KERAS_HOME or ~/.keras, below it `datasets`."""
    return Path(os.environ.get("KERAS_HOME") or "~/.keras").expanduser() / "datasets"


def find_in(name: DataName, folder: Path, *, variants: bool) -> Found | None:
    """Files of the set in `folder`, in the order above; without `variants` only `.npz` of the exact name.

    LearningError if a part of the files of a set is there and another is missing.
    """
    for path in _npz_files(name, folder, variants=variants):
        return Found(format="npz", paths=(path,))
    homes = list(_homes(name, folder))
    if name in FOLDERS:
        for home in homes:
            if found := _find_cifar(name, home):
                return found
        return None
    for home in homes:
        if found := _find_idx(name, home):
            return found
    return None


def _npz_files(name: DataName, folder: Path, *, variants: bool) -> Iterator[Path]:
    spellings = _SPELLINGS[name]
    yield from (path for spelling in spellings if (path := folder / f"{spelling}.npz").is_file())
    if variants:
        # `emnist_letters.npz` and the like are other sets.
        for spelling in spellings[:2] if name == "emnist" else spellings:
            yield from sorted(path for sign in "_-" for path in folder.glob(f"{spelling}{sign}*.npz"))


def _homes(name: DataName, folder: Path) -> Iterator[Path]:
    """Folders in which IDX files and archives of the set may lie."""
    names = {_plain(spelling) for spelling in _SPELLINGS[name]}
    if name in FOLDERS:
        names |= {_plain(FOLDERS[name]), _plain(f"{FOLDERS[name]}-target")}
    others = {_plain(spelling) for other, spellings in _SPELLINGS.items() if other != name for spelling in spellings}
    own = _plain(folder.resolve().name)
    if own in names or (name != "fashion-mnist" and own not in others):
        yield folder
    try:
        below = sorted(path for path in folder.iterdir() if _plain(path.name) in names and path.is_dir())
    except OSError:
        return
    for path in below:
        yield from (path, path / "raw", path / "gzip")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _find_idx(name: DataName, home: Path) -> Found | None:
    """The four IDX files in `home`; LearningError if only some are there."""
    paths: list[Path | None] = []
    for spellings in file_names(name):
        candidates = [home / f"{spelling}{ending}" for ending in ("", ".gz") for spelling in spellings]
        paths.append(next((path for path in candidates if path.is_file()), None))
    there = [path for path in paths if path is not None]
    if not there:
        return None
    if len(there) < len(paths):
        absent = file_names(name)[paths.index(None)][0]
        raise LearningError(f"{home}: {absent}[.gz] is missing beside {there[0].name}; add it")
    return Found(format="idx", paths=tuple(there))


def _find_cifar(name: DataName, home: Path) -> Found | None:
    """The unpacked folder or the archive in `home`, or `home` itself; LearningError for a folder with gaps."""
    wanted = (*TRAIN_FILES[name], TEST_FILES[name])
    # Files of CIFAR-100 have everyday names: `home` itself must be called as the author's folder.
    own = [home] if _plain(home.resolve().name) == _plain(FOLDERS[name]) else []
    for folder in (home / FOLDERS[name], *own):
        there = [file for file in wanted if (folder / file).is_file()]
        if there and len(there) < len(wanted):
            absent = next(file for file in wanted if file not in there)
            raise LearningError(f"{folder}: {absent} is missing beside {there[0]}; add it")
        if there:
            return Found(format="cifar", paths=(folder,))
    if (archive := home / ARCHIVES[name]).is_file():
        return Found(format="cifar", paths=(archive,))
    return None
