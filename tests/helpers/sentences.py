"""How a wrong scenario is read in the tests: the one sentence that loading and planning it ends in."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.plan.plan import expand
from scenarios.schema.errors import ScenarioError
from scenarios.schema.loader import load_scenario


def sentence_about(text: str | bytes, folder: Path, *, overrides: tuple[str, ...] = ()) -> str:
    """What is said about a scenario file `s.yaml` of this text, its folder left out."""
    file = folder / "s.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ScenarioError) as caught:
        expand(load_scenario(file, overrides=overrides))
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence.removeprefix(f"{folder}/")
