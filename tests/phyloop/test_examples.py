"""The examples of every public name, run as they stand."""

from __future__ import annotations

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import phyloop

MODULES = ("phyloop.comparison", "phyloop.links", "phyloop.results", "phyloop.studies")


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    found = doctest.testmod(import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 5
    assert found.failed == 0


def documented() -> list[str]:
    """Public functions and classes that compute something, and their public methods."""
    own = [name for name in phyloop.__all__ if getattr(phyloop, name).__module__.startswith("phyloop.")]
    results = ("Received", "Superposed", "Comparison")
    methods = [
        f"{name}.{method}"
        for name in own
        if inspect.isclass(thing := getattr(phyloop, name)) and name not in results
        for method, value in vars(thing).items()
        if inspect.isfunction(value) and not method.startswith("_")
    ]
    return [name for name in own if name not in results] + methods


@pytest.mark.parametrize("name", documented())
def test_a_public_name_has_arguments_result_and_example(name: str) -> None:
    thing, text = phyloop, ""
    for part in name.split("."):
        thing = getattr(thing, part)
    text = thing.__doc__ or ""
    assert "Example:" in text
    assert ">>> " in text
    if inspect.isfunction(thing):
        assert "Returns:" in text
        taken = [one for one in inspect.signature(thing).parameters if one not in ("self", "folder")]
        assert [one for one in taken if f"{one}: " not in text] == []


def test_every_public_name_can_be_had() -> None:
    assert [name for name in phyloop.__all__ if not getattr(phyloop, name).__doc__] == []
    assert set(phyloop.__all__) <= set(dir(phyloop))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        phyloop.nothing  # noqa: B018
