"""Plug-ins: Python files of the user that register schemes, codecs, attacks, fading laws, models or data sets.

A scenario names them, `plugins: [my_idea.py]`. Their code runs with all rights of the user, so it needs permission.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from phy.config.conflict import listing
from phy.config.registry import RegistryError, registries
from scenarios.schema.errors import KeyPath, Mark, ScenarioError
from scenarios.schema.permission import ALLOW, is_code_allowed
from scenarios.schema.schema_keys import schema_keys

ENTRY_POINTS = "phyloop.plugins"
IMPORT_S = 20.0
"""Longest time that importing a plug-in may take [s]."""

_OURS = {"phy", "fl", "privacy", "scenarios", "__main__"}
_PREFIX = "phyloop_plugin_"
_loaded: dict[str, Plugin] = {}


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """The source files of a plug-in by their path within it; `main` is imported, from `place`.

    `module`: its name where it is installed; None for a file or package beside the scenario.
    """

    word: str
    main: str
    files: Mapping[str, bytes]
    place: Path
    module: str | None = None

    @property
    def imported_as(self) -> str:
        """Name of the module in this process."""
        return self.module or _PREFIX + self.digest[:16]

    @property
    def digest(self) -> str:
        """SHA-256 of all files, in hexadecimal."""
        if len(self.files) == 1:
            return hashlib.sha256(self.files[self.main]).hexdigest()
        digest = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            digest.update(f"{name} {len(content)}\n".encode() + content)
        return digest.hexdigest()


def load_plugins(words: Sequence[str], *, folder: Path, file: Path | str, line: int | None = None) -> dict[str, Plugin]:
    """Import plug-ins, which register their classes, and return them by their words.

    A word is looked up beside the scenario first: `my_idea.py`, `my_idea` as a file or a package. Otherwise it is an
    entry point of the group `phyloop.plugins`, or an installed module. `file` and `line` are where the scenario names
    them. ScenarioError for code without permission, and for code that cannot be found or that fails.
    """

    def refuse(problem: str, remedy: str) -> ScenarioError:
        return ScenarioError(problem=problem, remedy=remedy, file=file, line=line, key="plugins")

    if words and not is_code_allowed():
        raise refuse(
            f"the scenario names {listing(words, last='and')}, Python code that runs with your rights",
            f"read it, and if you trust it and all that it imports, add {ALLOW}",
        )
    found: dict[str, Plugin] = {}
    for word in words:
        try:
            plugin = find_plugin(word, folder=folder)
        except OSError as error:
            raise refuse(f"{error.filename} cannot be read ({error.strerror})", "make it readable") from error
        if plugin is None:
            raise refuse(
                f"no Python file or package {word} lies in or below {folder}, and none is installed",
                "put the file beside the scenario, or install the package",
            )
        found[word] = plugin
    import_plugins(found)
    return found


def import_plugins(plugins: Mapping[str, Plugin]) -> None:
    """Import plug-ins and forget all others. ScenarioError as `load_plugins`."""
    for word, known in [*_loaded.items()]:
        if word not in plugins or plugins[word].digest != known.digest:
            _forget(_loaded.pop(word))
    for plugin in plugins.values():
        _import(plugin)


def pin_plugins(document: dict[str, Any], marks: Mapping[KeyPath, Mark], *, folder: Path) -> None:
    """Load the plug-ins of a scenario, and write their digests under its key `code`.

    `folder` is that of the scenario's file; a base file has its own. ScenarioError as `load_plugins`, and for a plug-in
    that has changed since its digest was written.
    """
    words = document.get("plugins") or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return  # an error that the schema explains
    mark = marks.get(("plugins",), Mark(folder, None))
    beside = mark.file.parent if isinstance(mark.file, Path) and mark.file.is_file() else folder
    code = document.get("code") or {}
    for word, plugin in load_plugins(words, folder=beside, file=mark.file, line=mark.line).items():
        if code.get(word, plugin.digest) != plugin.digest:
            raise ScenarioError(
                problem=f"{plugin.place} now has SHA-256 {plugin.digest[:12]}..., {code[word][:12]}... is written here",
                remedy="put the file back, or leave code: out to compute every trial anew",
                file=mark.file,
                key=f"code.{word}",
            )
        code = {**code, word: plugin.digest}
    if words:
        document["code"] = code


def find_plugin(word: str, *, folder: Path) -> Plugin | None:
    """Return the plug-in that a word names; None if there is none. Nothing is imported."""
    if Path(word).is_absolute() or ".." in Path(word).parts:
        return None
    path = folder / word
    for candidate in (path, Path(f"{path}.py"), path / "__init__.py"):
        if candidate.suffix == ".py" and candidate.is_file() and candidate.resolve().is_relative_to(folder.resolve()):
            return _read(word, candidate)
    module = next((one.module for one in entry_points(group=ENTRY_POINTS) if one.name == word), word)
    if word.endswith(".py") or module.split(".")[0] in _OURS or not all(map(str.isidentifier, module.split("."))):
        return None
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    except Exception as error:  # of a package around it
        problem = f"a package of {module} failed with {type(error).__name__}: {error}"
        raise ScenarioError(problem=problem, remedy="correct it", file=word) from error
    if spec is None or not spec.has_location or spec.origin is None:
        return None
    return _read(word, Path(spec.origin), module=module)


def _read(word: str, path: Path, *, module: str | None = None) -> Plugin:
    """Read a file, or a package with all its modules."""
    package = path.name == "__init__.py"
    root = path.parent
    paths = sorted(root.rglob("*.py")) if package else [path]
    files = {one.relative_to(root).as_posix(): one.read_bytes() for one in paths}
    return Plugin(word=word, main=path.name, files=files, place=path, module=module)


def _import(plugin: Plugin) -> None:
    """Import a plug-in under a name of its own, once per process.

    ScenarioError, with file and line, for code that fails, takes too long, or registers nothing.
    """
    name = plugin.imported_as
    _loaded[plugin.word] = plugin
    if name in sys.modules:
        return
    before = _registered()
    try:
        with _time_limit(IMPORT_S):
            if plugin.module is not None:
                importlib.import_module(name)
            else:
                _execute(plugin, name)
        new = _registered() - before
        for kind, registered in new:
            registries()[kind][registered].model_rebuild()  # raises for an annotation that names nothing
        if not new:
            raise ScenarioError(
                problem="the plug-in registers nothing",
                remedy="decorate a class with, for example, @schemes.register; see phyloop new NAME --kind plugin",
                file=plugin.place,
            )
    except ScenarioError:
        _forget(plugin)
        raise
    except (Exception, SystemExit) as error:
        _forget(plugin)
        raise _explained(error, plugin) from error
    schema_keys.cache_clear()


def _execute(plugin: Plugin, name: str) -> None:
    """Execute the bytes that the digest is of: the file may change at any moment."""
    inside = [str(plugin.place.parent)] if plugin.main == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, plugin.place, submodule_search_locations=inside)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    exec(compile(plugin.files[plugin.main], str(plugin.place), "exec"), module.__dict__)


def _registered() -> set[tuple[str, str]]:
    """Return kind and word of everything registered."""
    return {(kind, word) for kind, registry in registries().items() for word in registry.words()}


def has_plugins() -> bool:
    """Return True if this process computes with plug-ins."""
    return bool(_loaded)


def is_plugin_file(path: str) -> bool:
    """Return True for a source file of a plug-in that this process has imported."""
    return any(_is_inside(path, one) for one in _loaded.values())


def _is_inside(path: str, plugin: Plugin) -> bool:
    place = plugin.place.parent if plugin.main == "__init__.py" else plugin.place
    return Path(path).absolute().is_relative_to(place.absolute())


def send_plugins(words: Iterable[str]) -> dict[str, Plugin]:
    """Return plug-ins of this process for another one: `receive_plugins` imports them there."""
    return {word: _loaded[word] for word in words}


def receive_plugins(sent: Mapping[str, Plugin]) -> None:
    """Import plug-ins that `send_plugins` returned, once per process. ScenarioError as `load_plugins`."""
    plugins = {}
    for word, plugin in sent.items():
        known = _loaded.get(word)
        if known is None or known.digest != plugin.digest:
            folder = Path(tempfile.mkdtemp(prefix="phyloop-plugin-"))
            write_plugin(plugin, folder)
            known = replace(plugin, place=folder / plugin.main)
        plugins[word] = known
    import_plugins(plugins)


def loaded_plugin(word: str) -> Plugin:
    """Return a plug-in that a scenario of this process has named."""
    return _loaded[word]


def write_plugin(plugin: Plugin, folder: Path, *, write: Callable[[Path, bytes], Any] = Path.write_bytes) -> None:
    """Write the files of a plug-in that are not there as they are into a folder."""
    for name, content in plugin.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != content:
            write(path, content)


def _forget(plugin: Plugin) -> None:
    """Remove a plug-in from the modules and the registries."""
    name = plugin.imported_as
    for registry in registries().values():
        registry.forget(name)
    for part in [one for one in sys.modules if f"{one}.".startswith(f"{name}.")]:
        del sys.modules[part]
    schema_keys.cache_clear()


class _TooLongError(Exception):
    """The time limit of an import has passed."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise _TooLongError in the block after some seconds, where the system has signals for it."""

    def stop(*_: object) -> None:
        raise _TooLongError

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _explained(error: BaseException, plugin: Plugin) -> ScenarioError:
    """Return the error as one sentence with file and line."""
    lines = [one for one in traceback.extract_tb(error.__traceback__) if _is_inside(one.filename, plugin)]
    where, line = (lines[-1].filename, lines[-1].lineno) if lines else (str(plugin.place), None)
    text = " ".join(str(getattr(error, "msg", error)).split())
    problem, remedy = f"the plug-in failed with {type(error).__name__}" + (f": {text}" if text else ""), "correct it"
    match error:
        case SyntaxError():
            where, line = error.filename or where, error.lineno
        case _TooLongError():
            problem, remedy = f"the plug-in was still being imported after {IMPORT_S:g} s", "end the loop there"
        case ModuleNotFoundError() if plugin.module is None:
            remedy = "install it; put modules of your own into one package with the plug-in, and write from . import"
        case RegistryError():
            problem, remedy = error.problem, error.remedy
    return ScenarioError(problem=problem, remedy=remedy, file=where, line=line)
