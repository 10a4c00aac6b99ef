"""Any bytes given as a scenario, and any word given as an override, are told or taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from law import outcome, read_scenario
from mutations import library, overrides, spoilt_scenarios, spoilt_text

CHECKS = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large)
SOME = settings(max_examples=60, deadline=None, suppress_health_check=CHECKS)
MANY = settings(max_examples=10_000, deadline=None, suppress_health_check=CHECKS)


@pytest.fixture(autouse=True)
def bundled_data_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data set but the bundled one is looked for in this machine's folders."""
    monkeypatch.setenv("PHYLOOP_DATA", str(tmp_path))


def said_of(raw: bytes, tmp_path: Path, *words: str) -> str:
    file = tmp_path / "s.yaml"
    file.write_bytes(raw)
    return outcome(lambda: read_scenario(file, words))


@given(raw=spoilt_scenarios())
@SOME
def test_a_library_scenario_with_other_keys_and_values_is_told_or_taken(raw: bytes, tmp_path: Path) -> None:
    said_of(raw, tmp_path)


@given(raw=spoilt_text())
@SOME
def test_a_library_scenario_with_other_bytes_is_told_or_taken(raw: bytes, tmp_path: Path) -> None:
    said_of(raw, tmp_path)


@given(text=st.sampled_from(library()), words=st.lists(overrides, min_size=1, max_size=3))
@SOME
def test_overrides_of_a_library_scenario_are_told_or_taken(text: str, words: list[str], tmp_path: Path) -> None:
    said_of(text.encode(), tmp_path, *words)


@pytest.mark.slow
@given(raw=spoilt_scenarios() | spoilt_text())
@MANY
def test_of_ten_thousand_spoilt_scenarios_each_is_told_or_taken(raw: bytes, tmp_path: Path) -> None:
    said_of(raw, tmp_path)


@pytest.mark.slow
@given(text=st.sampled_from(library()), words=st.lists(overrides, min_size=1, max_size=3), raw=st.binary(max_size=300))
@MANY
def test_of_ten_thousand_overrides_and_random_files_each_is_told_or_taken(
    text: str, words: list[str], raw: bytes, tmp_path: Path
) -> None:
    said_of(text.encode(), tmp_path, *words)
    said_of(raw, tmp_path)
