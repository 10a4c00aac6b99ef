"""The sentences that loading and planning a wrong scenario ends in."""

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
    assert len(sentence.split("\n")) == len(caught.value.errors)
    assert sentence.endswith(".")
    return sentence.replace(f"{folder}/", "")
