"""Allowed values and remedies, by the key or by the kind of error that pydantic reports."""

from __future__ import annotations

from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from fl.base.words import plural
from phy.config.conflict import LeaveOut, Remedy, Write
from scenarios.schema.errors import Change, KeyPath
from scenarios.schema.labels.units import in_unit_of

FORMS: dict[str, tuple[str, Any]] = {
    "privacy": ("none or a mapping with epsilon", {"epsilon": 5, "delta": 0.01}),
    "privacy.budget": ("a mapping with epsilon", {"epsilon": 10, "delta": 1e-5}),
    "privacy.kappa": ("a number above 0, or measured", 0.02),
    "learning.model": ("a name, or a mapping with name", {"name": "mlp", "hidden": [64, 32]}),
    "learning.participation": ("a mapping with devices_per_round", {"devices_per_round": 6}),
    "learning.participation.devices_per_round": ("a whole number of devices", 6),
    "learning.step_size": ("a number above 0, or auto", 1e-4),
    "learning.task": ("gaussian-linear or logistic, or a mapping with that name", "gaussian-linear"),
    "learning.downlink": ("ideal or a mapping that describes a link", {"power": {"snr_max_db": 20}}),
    "link.csi": ("perfect or a mapping with error_variance or estimator", {"error_variance": 0.01}),
    "link.coding": ("none or a mapping with code", {"code": "ldpc5g", "rate": 0.5}),
    "link.coding.block_length": ("auto or a whole number of bits from 8 to 8448", 1024),
    "link.mcs": ("an index from 0 to 28, a list of one for each device, or a mapping with adapt", {"adapt": "snr"}),
    "link.noma": ("a mapping", {"group_size": 2, "detector": "sic"}),
    "link.ofdm": ("none or a mapping", {"num_subcarriers": 72}),
    "link.ofdm.guard_carriers": ("a list of two whole numbers, guards on the left and on the right", [5, 6]),
    "link.channel.gain": ("a number above 0, or a list of such numbers, one per device", 0.04),
    "link.channel.cell.positions_m": (
        "a list of [x, y] in metres within 100 km, one per device",
        [[40, 30], [-80, 10]],
    ),
    "measure.values": ("a list or a range", {"start": 0, "stop": 20, "step": 2}),
    "measure.bits_per_batch": ("auto or a whole number of bits", 1000000),
    "report.figures.y": ("the name of a metric", "test_accuracy"),
    "report.figures.series": ("a dotted path or a list of them", "learning.scheme"),
    "report.tables.published.values": ("a number or a list of numbers", 85),
    "sweep": (
        "a mapping of dotted paths to lists, or a list of such mappings",
        {"link.power.snr_max_db": [0, 10, 20]},
    ),
}
"""Unions, of which every member reports an error: the allowed values, and an example."""

TYPES = {
    "float_type": ("must be a number", "write one"),
    "finite_number": ("must be a finite number", "write one"),
    "int_type": ("must be a whole number", "write one"),
    "int_from_float": ("must be a whole number", "write one"),
    "bool_type": ("must be true or false", "write one"),
    "string_type": ("must be text", "write one"),
    "tuple_type": ("must be a list", "write it in brackets: [...]"),
    "list_type": ("must be a list", "write it in brackets: [...]"),
    "dict_type": ("must be a mapping", "write path: [value, value] below it"),
    "model_type": ("must be a mapping of keys to values", "write key: value pairs below it"),
}
"""Wrong types, and the remedy for a key without a default."""

LIMITS = {
    "greater_than": ("gt", "above", "more", gt),
    "greater_than_equal": ("ge", "at least", "more", ge),
    "less_than": ("lt", "below", "less", lt),
    "less_than_equal": ("le", "at most", "less", le),
}

NAME = "must be 1 to 80 letters, digits, dots, dashes or underscores, the first a letter or digit"

LENGTHS = {
    "too_short": ("must have at least {min_length} entries", "write at least {min_length}"),
    "too_long": ("must have at most {max_length} entries", "shorten it"),
    "string_too_long": ("must have at most {max_length} characters", "shorten it"),
    "string_too_short": ("must not be empty", "write some text"),
}


class Diagnosis(NamedTuple):
    """The key that is wrong, its value if that is shown, problem and remedy in words, and what the remedy does."""

    path: KeyPath
    problem: str
    remedy: str
    change: Change
    value: object = None


def share_of_devices(value: object, num_devices: object, *, example: bool = False) -> Remedy | None:
    """Return the remedy for a share in place of a number of devices; None for other values."""
    if value == "all":
        return LeaveOut(note=": all devices take part")
    try:
        share = float(in_unit_of("share", value) or str(value))
    except ValueError:
        return None
    if not 0.0 < share < 1.0:
        return None
    number = num_devices if type(num_devices) is int and num_devices > 0 else 20
    return Write(
        {"": max(1, round(share * number))},
        example=example,
        note=f"for {100.0 * share:g} % of {plural(number, 'device')}",
    )
