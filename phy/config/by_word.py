"""Fields that name a registered thing by its word, with the parameters of that thing beside the field."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from phy.config.conflict import ConflictError, Say
from phy.config.registry import Registry

T = TypeVar("T", bound=BaseModel)


@lru_cache(maxsize=256)
def _built(cls: type[BaseModel], *parameters: tuple[str, Any]) -> Any:
    return cls.model_validate(dict(parameters))


class ByWord(Generic[T]):
    """Annotation of such a field: `Annotated[str | Base, ByWord(registry, beside=("k_db",))]`.

    `beside` names keys of the section that has the field; with `auto`, the section chooses for the word `auto`. A thing
    that has no other parameters is written, kept and dumped as its word. A thing with parameters of its own is a
    mapping: `{name: kappa-mu, kappa: 1.5}`, or the bare word for its defaults.
    """

    def __init__(self, registry: Registry[T], *, beside: tuple[str, ...] = (), auto: bool = False) -> None:
        self.registry, self.beside, self._auto = registry, beside, auto

    def read(self, value: Any) -> str | T:
        """Return the word of a thing without parameters of its own, else the thing. Errors as `Registry.read`."""
        tag, base = self.registry.tag, self.registry.base
        if self._auto and value == "auto":
            return "auto"
        if not isinstance(value, str | base) and not (isinstance(value, dict) and tag in value):
            words = " or ".join(f"'{word}'" for word in self.words())
            raise PydanticKnownError("literal_error", {"expected": words})
        thing = self.registry.read(value)
        if self._has_own(type(thing)):
            return thing
        word: str = getattr(thing, tag)
        others = [name for name in type(thing).model_fields if name in self.beside]
        if others and not isinstance(value, str):
            raise ConflictError(
                "", f"{word} takes {' and '.join(others)} from the section around it", Say("write the bare word")
            )
        return word

    def thing(self, section: BaseModel, value: str | T) -> T:
        """Return the thing that a field of `section` names, with its parameters."""
        if not isinstance(value, str):
            return value
        cls = self.registry[value]
        shared = ((name, getattr(section, name)) for name in self.beside if name in cls.model_fields)
        built: T = _built(cls, (self.registry.tag, value), *shared)
        return built

    def foreign(self, word: str) -> dict[str, tuple[str, ...]]:
        """Return the keys beside the field that `word` does not read, with the words that read them."""
        known = self.registry.words()
        readers = {key: tuple(one for one in known if key in self.registry[one].model_fields) for key in self.beside}
        return {key: words for key, words in readers.items() if word in known and word not in words}

    def classes(self) -> tuple[type[T], ...]:
        """Return the classes with parameters of their own, which are written as a mapping."""
        return tuple(cls for cls in self.registry.classes() if self._has_own(cls))

    def words(self) -> tuple[str, ...]:
        """Return the words of all things, and `auto` where the section may choose."""
        return (*(("auto",) if self._auto else ()), *self.registry.words())

    def _has_own(self, cls: type[T]) -> bool:
        return not set(cls.model_fields) <= {self.registry.tag, *self.beside}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate by `read`; serialize a word as itself, and a thing by its class."""
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe every word, and the mapping of every class with parameters of its own."""
        mappings = [handler(cls.__pydantic_core_schema__) for cls in self.classes()]
        return {"anyOf": [{"enum": list(self.words())}, *mappings]}


def by_words_in(annotations: Iterable[Any]) -> list[ByWord[Any]]:
    """Return those of a field's annotations by which it names a thing by its word."""
    return [one for one in annotations if isinstance(one, ByWord)]


def registry_in(annotations: Iterable[Any]) -> Registry[Any] | None:
    """Return the registry of what a field with these annotations names; None without one."""
    registries = (one.registry if isinstance(one, ByWord) else one for one in annotations)
    return next((one for one in registries if isinstance(one, Registry)), None)
