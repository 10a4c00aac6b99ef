"""The examples of every public name, run as they stand."""

from __future__ import annotations

import doctest
import inspect
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phyloop

ROOT = Path(__file__).parents[2]


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
def test_the_example_of_a_public_name_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    (example,) = doctest.DocTestFinder(recurse=False).find(attrgetter(name)(phyloop), name, module=False, globs={})
    found = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example)
    assert found.attempted > 1
    assert found.failed == 0


def test_every_line_of_the_overview_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    overview = (ROOT / "docs/python.md").read_text().partition("```python\n")[2].partition("```")[0]
    lines = [line for line in overview.splitlines() if line]
    assert len(lines) == 20
    few = {"sweep": {"learning.scheme": ["analog"], "link.power.snr_max_db": [0, 10]}}
    demo = phyloop.run("flmc-snr", trials=2, set=few, out="runs/flmc-snr", progress=False)
    digits = {"sweep": {"link.power.snr_max_db": [10]}, "learning.rounds": 2}
    names: dict[str, Any] = {
        "bits": np.zeros((20, 10_000), np.uint8),
        "amplitudes": np.ones((20, 1000)),
        "scenario": {"base": "flmc-snr", **few, "privacy": {"epsilon": 5, "delta": 0.01}, "trials": 1},
        **{name: phyloop.run("fedavg-digits", trials=1, set=digits, out=name, progress=False) for name in "ab"},
    }
    for line in lines:
        exec(line, names)
        if "phyloop.load" in line:
            assert names["run"].metrics.equals(demo.metrics)
    assert names["received"].bits.shape == (20, 10_000)
    assert names["study"]["bit_error_rate"].notna().any()


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
