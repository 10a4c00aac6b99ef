"""Registries of the things that a scenario names: fading laws, schemes, codecs, attacks, models, data sets."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

T = TypeVar("T", bound=BaseModel)

_ALL: dict[str, Registry[Any]] = {}


class RegistryError(ValueError):
    """A class that cannot be registered, and what to do."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy = problem, remedy

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


class Registry(Generic[T]):
    """Classes of one kind by the words that a scenario writes for them.

    Every module directly in `package`, if there is one, is imported at the first look-up, and registers its classes by
    `register`. These modules must load neither TensorFlow nor Numba. `tag` is the key that names a class, a `Literal`
    field of it. `default` is the word of a mapping without that key, `default_with` of one with another key instead.
    Plug-ins extend `extended`, by default `base`. Where classes share a word, or have none, `known` has them by keys of
    any kind, and `key_of` returns the key of a mapping.

    An instance annotates a field of a pydantic model: `Annotated[Base, registry]`. Such a field takes an instance of
    `base`, a mapping with `tag`, or the bare word. Classes may be registered after the model was made.
    """

    def __init__(
        self,
        kind: str,
        base: type[Any],
        *,
        package: str | None = None,
        tag: str = "name",
        default: str | None = None,
        default_with: Mapping[str, str] | None = None,
        extended: type[Any] | None = None,
        known: Mapping[str, type[Any]] | None = None,
        key_of: Callable[[Any], str] | None = None,
    ) -> None:
        self._default, self._default_with = default, dict(default_with or {})
        self._key_of = key_of
        self.kind, self.tag, self._package = kind, tag, package
        self.base: type[T] = base
        self.extended: type[T] = extended or base
        self._classes: dict[str, type[T]] = dict(known or {})
        self._discovered = False
        _ALL[kind] = self

    def register(self, cls: type[T]) -> type[T]:
        """Register a class by each word of its `tag`; a decorator.

        ValueError for a word that is taken, and for a class that does not define what its `base` asks for: abstract
        methods, and the names that a class method `undefined` of the base returns.
        """
        if not issubclass(cls, self.base):
            remedy = f"write class {cls.__name__}({self.base.__name__})"
            raise RegistryError(f"{cls.__name__} is no {self.kind}", remedy)
        words = self._words_of(cls)
        if not words:
            remedy = f'write {self.tag}: Literal["my-word"] = "my-word"'
            raise RegistryError(f"{self.kind} {cls.__name__} has no word", remedy)
        if missing := sorted({*cls.__abstractmethods__, *getattr(cls, "undefined", tuple)()}):
            remedy = f"define it in {cls.__name__}"
            raise RegistryError(f"{self.kind} {words[0]} lacks {' and '.join(missing)}", remedy)
        inside = self._package is not None and cls.__module__.startswith(f"{self._package}.")
        known = self._classes if inside else self._found()
        for word in words:
            taken = known.get(word)
            if taken is not None and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
                file = Path(sys.modules[taken.__module__].__file__ or "").name
                problem = f"{self.kind} {word} is taken by {taken.__name__} of {file}"
                raise RegistryError(problem, "choose another word")
        self._classes.update(dict.fromkeys(words, cls))
        return cls

    def forget(self, module: str) -> None:
        """Remove what a module registered."""
        kept = {word: cls for word, cls in self._classes.items() if not f"{cls.__module__}.".startswith(f"{module}.")}
        self._classes = kept

    def words(self) -> tuple[str, ...]:
        """Return the words of all classes in alphabetical order."""
        return tuple(key for key, cls in self._found().items() if key in self._words_of(cls))

    def classes(self) -> tuple[type[T], ...]:
        """Return all classes, in the order of their words."""
        return tuple(dict.fromkeys(self._found().values()))

    def __getitem__(self, word: str) -> type[T]:
        """Return the class that a word names. KeyError for an unknown word."""
        return self._found()[word]

    def read(self, value: Any, *, strict_json: bool = False) -> T:
        """Return the thing that `value` describes. Raises what pydantic turns into a ValidationError.

        `strict_json`: read numbers, words and lists as strictly as a scenario file, "20" being no number.
        """
        if isinstance(value, self.base):
            return value
        if isinstance(value, str):
            value = {self.tag: value}
        if not isinstance(value, dict):
            raise PydanticKnownError("model_type", {"class_name": self.base.__name__})
        known, word = self._found(), value.get(self.tag, self.word_without_tag(value))
        if self._key_of is not None and word in (None, *self.words()):
            word = self._key_of(value)
        if word is None:
            words = ", ".join(known)
            raise PydanticCustomError("no_word", "the key {tag} is missing", {"tag": self.tag, "words": words})
        if not isinstance(word, str) or word not in known:
            words = ", ".join(f"'{one}'" for one in self.words())
            context = {"discriminator": f"'{self.tag}'", "tag": str(word), "expected_tags": words}
            raise PydanticKnownError("union_tag_invalid", context)
        if strict_json:
            return known[word].model_validate_json(json.dumps(value), strict=True)
        return known[word].model_validate(value)

    def word_without_tag(self, value: Mapping[str, Any]) -> str | None:
        """Return the word of a mapping that names no class; None where it must."""
        return next((word for key, word in self._default_with.items() if key in value), self._default)

    def _words_of(self, cls: type[T]) -> tuple[str, ...]:
        return get_args(cls.model_fields[self.tag].annotation) if self.tag in cls.model_fields else ()

    def _found(self) -> dict[str, type[T]]:
        if not self._discovered and self._package is not None:
            self._discovered = True
            for module in pkgutil.iter_modules(importlib.import_module(self._package).__path__):
                importlib.import_module(f"{self._package}.{module.name}")
        return dict(sorted(self._classes.items(), key=lambda item: (" " in item[0], item[0])))  # words come first

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate by `read`; serialize by the class of the instance."""
        return core_schema.with_info_plain_validator_function(
            lambda value, info: self.read(value, strict_json=info.mode == "json")
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe every word that may stand alone, and every registered class."""
        words = [] if self._key_of is not None else [{"enum": list(self.words())}]
        return {"anyOf": [*words, *(handler(cls.__pydantic_core_schema__) for cls in self.classes())]}


def registries() -> dict[str, Registry[Any]]:
    """Return every registry by its kind, each with all its classes."""
    known = 0
    while known < len(_ALL):  # the classes of one registry may bring others
        known = len(_ALL)
        for registry in [*_ALL.values()]:
            registry.words()
    return dict(_ALL)


def defines(cls: type, base: type, name: str) -> bool:
    """Return True if a class has something of its own under a name, which its base may lack."""
    return getattr(cls, name, None) is not getattr(base, name, None)


def registry_of(base: type) -> Registry[Any] | None:
    """Return the registry of a base class; None without one."""
    return next((one for one in _ALL.values() if one.base is base), None)
