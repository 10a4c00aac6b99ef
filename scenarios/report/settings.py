"""What the sweep set at a point: in words, as cells of a table on the page, and as cells of a CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.plan.identity import canonical_json
from scenarios.plan.points import Plan, Point, value_of
from scenarios.schema.labels.labels import setting_cell, setting_label


def plain(label: str) -> str:
    """A label without matplotlib mathematics."""
    return label.replace("_0", "₀").replace(r"\ell", "ℓ").replace("$", "")


def setting_in_words(plan: Plan, point: Point) -> str:
    """What the sweep set at this point, as plain text; empty without a sweep."""
    words = (setting_label(path, value_of(point, path)) for path in plan.swept_paths)
    return ", ".join(filter(None, words)).replace("_0", "₀").replace(r"\ell", "ℓ").replace("$", "")


def settings_cells(plan: Plan, point: Point) -> tuple[str | None, ...]:
    """What the sweep set at a point, a cell per swept path."""
    return tuple(setting_cell(path, value_of(point, path)) or None for path in plan.swept_paths)


def swept_values(plan: Plan, point: Point) -> tuple[Any, ...]:
    """The swept settings of a point as cells of a CSV file."""
    return tuple(csv_value(value_of(point, path)) for path in plan.swept_paths)


def csv_value(value: Any) -> Any:
    """A setting as a cell of a CSV file: mappings and lists as compact JSON text."""
    return canonical_json(value) if isinstance(value, (Mapping, list, tuple)) else value
