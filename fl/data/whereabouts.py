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
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from fl.base.errors import LearningError
from fl.data.data_set import DataName, DataSet, data_sets
from fl.data.formats import ARCHIVES, FILES, FOLDERS, idx_names
from phy.config.files import VARIABLE

_WORDS: dict[DataName, str] = {
    "mnist": "mnist",
    "fashion-mnist": "fashion[_-]?mnist",
    "cifar10": "cifar[_-]?10",
    "cifar100": "cifar[_-]?100",
    "emnist": "emnist[_-]?byclass",  # `emnist_letters.npz` and the like are other sets
}
"""With what the names of files and folders of a set begin."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """Files of one set: one `.npz`, four IDX files (see `idx_names`), or a folder or archive of CIFAR."""

    format: Literal["npz", "idx", "cifar"]
    paths: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class Whereabouts:
    """Where a set is; `found` for a folder and the cache; `sentence` says it; `nowhere` has a `remedy`."""

    place: Literal["bundled", "folder", "cache", "download", "nowhere"]
    sentence: str
    found: Found | None = None
    remedy: str = ""


def missing_data(name: DataName) -> str | None:
    """None if the set can be had, if only by a download; else one sentence that says why not and what to do."""
    where = find_data(name)
    return f"{where.sentence}; {where.remedy}" if where.place == "nowhere" else None


def place_of(name: DataName) -> Whereabouts:
    """Return the place from which `name` is read or fetched. LearningError where it cannot be had."""
    where = find_data(name)
    if where.place == "nowhere":
        raise LearningError(where.sentence, where.remedy)
    return where


def where_is(data: DataSet) -> Whereabouts:
    """Return the place from which a set is read. Opens no file and imports no TensorFlow."""
    if data.source is not None:
        return Whereabouts(place="folder", sentence=f"in {data.source}")
    return find_data(data.name)


def find_data(name: DataName) -> Whereabouts:
    """Return the place from which the set `name` is read."""
    if data_sets[name].facts is not None:
        return Whereabouts(place="bundled", sentence=f"{name} comes with {data_sets[name].comes_with}")
    folder, nowhere = os.environ.get(VARIABLE, ""), partial(Whereabouts, place="nowhere")
    if folder:
        given = Path(folder).expanduser()
        if not given.is_dir():
            return nowhere(sentence=f"{VARIABLE} names {folder}, which is no folder", remedy="correct it, or unset it")
        try:
            found = _find_in(name, given, variants=True)
        except LearningError as error:
            said = error.conflict
            return nowhere(sentence=said.problem, remedy=", or ".join(map(str, said.remedies)))
        if found:
            return Whereabouts(place="folder", sentence=f"{name} is in {found.paths[0]} ({VARIABLE})", found=found)
    if name == "emnist":
        absent = f"is not in {folder}" if folder else "was not found"
        return nowhere(sentence=f"{name} {absent} and keras knows no download of it", remedy=remedy(name))
    try:
        found = _find_in(name, keras_cache(), variants=False)
    except LearningError:  # keras fetches what is not there yet
        found = None
    if found:
        return Whereabouts(place="cache", sentence=f"{name} is in keras' cache, {found.paths[0]}", found=found)
    later = f"will be downloaded to {keras_cache()} at the first run; {VARIABLE}: a folder with files instead"
    return Whereabouts(place="download", sentence=f"{name} {later}")


def remedy(name: DataName) -> str:
    """What the user has to put where."""
    folder = os.environ.get(VARIABLE, "")
    where = f"put into {folder} ({VARIABLE})" if folder else f"set {VARIABLE} to a folder with"
    if name in FOLDERS:
        other = f"{ARCHIVES[name]} or the folder {FOLDERS[name]}"
    else:
        below = "" if name == "mnist" else f"{name}/"
        other = f"{below}{_plain(idx_names(name)[0])}[.gz] and its three companions"
    return f"{where} {name}.npz (keras layout) or {other}, or write data: digits"


def keras_cache() -> Path:
    """Where keras keeps data sets: KERAS_HOME or ~/.keras, below it `datasets`."""
    return Path(os.environ.get("KERAS_HOME") or "~/.keras").expanduser() / "datasets"


def _find_in(name: DataName, folder: Path, *, variants: bool) -> Found | None:
    """Files of the set in `folder`, in the order above; without `variants` only `.npz` of the exact name.

    LearningError if a part of the files of a set is there and another is missing.
    """
    npz = [path for path in folder.glob("*.npz") if _is_of(name, path.stem, whole=not variants)]
    if npz:
        return Found(format="npz", paths=(min(npz, key=lambda path: (not _is_of(name, path.stem, whole=True), path)),))
    for home in _homes(name, folder):
        if found := _find_cifar(name, home) if name in FOLDERS else _find_idx(name, home):
            return found
    return None


def _is_of(name: DataName, found: str, *, whole: bool = False) -> bool:
    """True if a file or folder that is called `found` is of the set; `whole`: nothing follows the word of the set."""
    more = "" if whole else "([_-].*)?"
    return found.lower() == name or re.fullmatch(_WORDS[name] + more, found.lower()) is not None


def _homes(name: DataName, folder: Path) -> Iterator[Path]:
    """Folders in which IDX files and archives of the set may lie."""
    own = folder.resolve().name
    if _is_of(name, own) or (name != "fashion-mnist" and not any(_is_of(other, own) for other in _WORDS)):
        yield folder
    if folder.is_dir():
        for path in sorted(path for path in folder.iterdir() if _is_of(name, path.name) and path.is_dir()):
            yield from (path, path / "raw", path / "gzip")


def _find_idx(name: DataName, home: Path) -> Found | None:
    paths = _all_of(home, idx_names(name))
    return Found(format="idx", paths=paths) if paths else None


def _find_cifar(name: DataName, home: Path) -> Found | None:
    # Files of CIFAR-100 have everyday names: `home` itself must be called as the author's folder.
    own = [home] if home.resolve().name == FOLDERS[name] else []
    for folder in (home / FOLDERS[name], *own):
        if _all_of(folder, FILES[name]):
            return Found(format="cifar", paths=(folder,))
    archive = home / ARCHIVES[name]
    return Found(format="cifar", paths=(archive,)) if archive.is_file() else None


def _all_of(folder: Path, patterns: tuple[str, ...]) -> tuple[Path, ...]:
    """The files in `folder`, plain or .gz, one for each pattern; LearningError if only some are there."""
    found = {pattern: [*folder.glob(pattern), *folder.glob(f"{pattern}.gz")] for pattern in patterns}
    paths = tuple(some[0] for some in found.values() if some)
    if paths and len(paths) < len(patterns):
        absent = next(pattern for pattern, some in found.items() if not some)
        raise LearningError(f"{folder}: {_plain(absent)} is missing beside {paths[0].name}", "add it")
    return paths


def _plain(pattern: str) -> str:
    return pattern.replace("[.-]", "-")
