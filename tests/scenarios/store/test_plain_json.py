"""Plain JSON fits a shape or not, whatever it holds."""

from __future__ import annotations

from typing import Any

import pytest

from scenarios.files.plain_files import fits

TASK = {"ids": [str], "seconds": float, "why": (str, None), "counts": {str: int}}
FINE = {"ids": ["a", "b"], "seconds": 1, "why": None, "counts": {"x": 1}, "more": []}


def test_what_has_the_shape_fits_and_further_keys_are_no_matter() -> None:
    assert fits(FINE, TASK)
    assert fits(FINE, {})
    assert fits({**FINE, "ids": [], "counts": {}, "why": "ä", "seconds": 0.5}, TASK)


@pytest.mark.parametrize(
    "change",
    [
        {"ids": "ab"},
        {"ids": ["a", 1]},
        {"ids": ["a", "\ud800"]},
        {"ids": [["a"]]},
        {"seconds": "1"},
        {"seconds": True},
        {"why": 3},
        {"why": "\udfff"},
        {"counts": []},
        {"counts": {"x": 1.0}},
        {"counts": {"x": True}},
    ],
)
def test_one_value_of_another_kind_does_not_fit(change: dict[str, Any]) -> None:
    assert not fits({**FINE, **change}, TASK)


@pytest.mark.parametrize("value", [None, [], "ids", 3, {"ids": []}])
def test_what_is_no_mapping_or_lacks_a_key_does_not_fit(value: object) -> None:
    assert not fits(value, TASK)
