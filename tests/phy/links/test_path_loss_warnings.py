"""Distances outside the table of the path loss: `phyloop check` says that they leave the standard."""

from __future__ import annotations

from typing import Any

import pytest

from phy.config import LinkConfig
from phy.links.warnings import link_warnings


@pytest.mark.parametrize(
    ("cell", "part"),
    [
        ({"min_distance_m": 5.0}, "link.channel.cell.min_distance_m: 5 m is nearer than the 10 m"),
        ({"positions_m": ((3.0, 4.0), (60.0, 0.0))}, "link.channel.cell.positions_m: 5 m is nearer than the 10 m"),
        ({"reference_distance_m": 1.0}, "link.channel.cell.reference_distance_m: 1 m is nearer than the 10 m"),
        ({"scenario": "rma", "radius_m": 7000.0}, "a device at 7000 m is beyond the 5000 m"),
    ],
)
def test_distances_outside_the_table_of_the_path_loss_are_told(cell: dict[str, Any], part: str) -> None:
    (sentence,) = link_warnings(LinkConfig.model_validate({"channel": {"cell": cell}}))
    assert part in sentence


@pytest.mark.parametrize(
    "cell",
    [
        {},
        {"min_distance_m": 10.0, "reference_distance_m": 10.0},
        {"scenario": "rma", "radius_m": 5000.0},
        {"scenario": "rma", "radius_m": 7000.0, "line_of_sight": "always"},
    ],
)
def test_distances_inside_the_table_are_not(cell: dict[str, Any]) -> None:
    assert list(link_warnings(LinkConfig.model_validate({"channel": {"cell": cell}}))) == []
