"""Notes of library scenarios explain; measured numbers stand in the reference results, with seed, version and date."""

from __future__ import annotations

import re

import pytest

from scenarios.schema.loader import as_yaml, library_names, load_scenario, resolved_data

NUMBER = r"\d+(?:\.\d+)?(?:e[-+]?\d+)?"
RESULT = re.compile(r"(?<![\w.^])(?:\d+\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+|\d\d+|\d+(?= ?%))(?![\w^])")
"""A decimal, a percentage, or a number of two digits or more."""
OF_OTHERS = re.compile(r"\b(paper|published|printed|reference code)\b", re.IGNORECASE)
DURATION = re.compile(rf"{NUMBER} ?(h|min|hours?|minutes|days?)\b|\b(months|days|hours|minutes)\b")


def results_in(notes: str, settings: str) -> list[str]:
    """Numbers of the notes that are neither settings of the scenario nor in a sentence about the paper."""
    known = {float(one) for one in re.findall(NUMBER, settings)}
    sentences = re.split(r"(?<=[.:;])\s", " ".join(notes.split()))
    ours = [one for one in sentences if not OF_OTHERS.search(one)]
    return [one for sentence in ours for one in RESULT.findall(sentence) if float(one) not in known]


def settings_of(name: str) -> str:
    data = resolved_data(load_scenario(name).scenario)
    return as_yaml({key: value for key, value in data.items() if key not in ("description", "report")})


@pytest.mark.parametrize("name", [name for name, _ in library_names()])
def test_notes_hold_no_measured_number_and_texts_no_duration(name: str) -> None:
    scenario = load_scenario(name).scenario
    assert results_in(scenario.report.notes, settings_of(name)) == []
    assert not DURATION.search(f"{scenario.description} {scenario.report.notes}")


@pytest.mark.parametrize(
    ("note", "found"),
    [
        ("CPA ends at 85.2 [84.9, 85.5].", ["85.2", "84.9", "85.5"]),
        ("The SNR rises to 19 dB, and 7 % are lost.", ["19", "7"]),
        ("The error is 1e-4 at epsilon 0.5 with 1000 devices.", ["1e-4"]),
        ("The published accuracy is 87 %. Ours is 86 %.", ["86"]),
        ("It falls as 1/M and b^2, at a rate of 1/2.", []),
    ],
)
def test_a_measured_number_is_found(note: str, found: list[str]) -> None:
    assert results_in(note, settings_of("cpa-table4")) == found
