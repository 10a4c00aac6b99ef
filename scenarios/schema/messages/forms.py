"""Allowed values and remedies, by the key or by the kind of error that pydantic reports."""

from __future__ import annotations

from operator import ge, gt, le, lt

from scenarios.schema.labels.units import in_unit_of

# Unions, of which every member reports an error: the allowed values, and an example.
FORMS = {
    "privacy": ("must be none or a mapping with epsilon", "write {epsilon: 5, delta: 0.01}, or none"),
    "privacy.budget": (
        "must be a mapping with epsilon",
        "write for example {epsilon: 10, delta: 1e-5}, or leave privacy out: a scheme keeps its epsilon without",
    ),
    "learning.model": ("must be a name, or a mapping with name", "write for example {name: mlp, hidden: [64, 32]}"),
    "link.noma": ("must be a mapping", "write for example {group_size: 2, detector: sic}"),
    "privacy.kappa": ("must be a number above 0, or measured", "write for example 0.02, or measured"),
    "learning.participation": ("must be a mapping", "write for example {devices_per_round: 6}"),
    "learning.participation.devices_per_round": (
        "must be a whole number of devices",
        "write for example 6 for 30 % of 20 devices",
    ),
    "link.csi": (
        "must be perfect or a mapping with error_variance or estimator",
        "write perfect, {error_variance: 0.01} or {estimator: ls}",
    ),
    "link.coding": ("must be none or a mapping with code", "write {code: ldpc5g, rate: 1/2}, or none"),
    "link.ofdm": ("must be none or a mapping", "write {num_subcarriers: 72, subcarrier_spacing_hz: 15e3}, or none"),
    "link.channel.gain": (
        "must be a number above 0, or a list of such numbers, one per device",
        "write for example 0.04",
    ),
    "link.channel.cell.positions_m": (
        "must be a list of [x, y] in metres within 100 km, one per device",
        "write for example [[40, 30], [-80, 10]]",
    ),
    "link.coding.block_length": (
        "must be auto or a whole number of bits from 8 to 8448",
        "write auto, or for example 1024",
    ),
    "link.ofdm.guard_carriers": (
        "must be a list of two whole numbers, guards on the left and on the right",
        "write for example [5, 6]",
    ),
    "learning.step_size": ("must be a number above 0, or auto", "write for example 1e-4, or auto"),
    "learning.task": (
        "must be gaussian-linear or logistic, or a mapping with that name",
        "write for example gaussian-linear",
    ),
    "learning.downlink": (
        "must be ideal or a mapping that describes a link",
        "write ideal, or {power: {snr_max_db: 20}}",
    ),
    "report.figures.series": ("must be a dotted path or a list of them", "write for example learning.scheme"),
    "report.tables.published.values": (
        "must be a number or a list of numbers",
        "write for example 85, or [49, 81, 85]",
    ),
    "measure.values": ("must be a list or a range", "write for example {start: 0, stop: 20, step: 2}"),
    "report.figures.y": (
        "must be the name of a metric",
        "write for example test_accuracy; phyloop show metrics lists all",
    ),
    "measure.bits_per_batch": ("must be auto or a whole number of bits", "write auto, or for example 1000000"),
    "sweep": (
        "must be a mapping of dotted paths to lists, or a list of such mappings",
        "write for example learning.scheme: [analog, digital]",
    ),
}

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
    "greater_than": ("gt", "above", "larger", gt),
    "greater_than_equal": ("ge", "at least", "larger", ge),
    "less_than": ("lt", "below", "smaller", lt),
    "less_than_equal": ("le", "at most", "smaller", le),
}

LENGTHS = {
    "too_short": ("must have at least {min_length} entries", "write at least {min_length}"),
    "too_long": ("must have at most {max_length} entries", "shorten it"),
    "string_too_long": ("must have at most {max_length} characters", "shorten it"),
    "string_too_short": ("must not be empty", "write some text"),
}


def share_of_devices(value: object, num_devices: object) -> str | None:
    """Return the remedy for a share in place of a number of devices; None for other values."""
    if value == "all":
        return "leave it out: all devices take part"
    try:
        share = float(in_unit_of("share", value) or str(value))
    except ValueError:
        return None
    if not 0.0 < share < 1.0:
        return None
    number = num_devices if type(num_devices) is int and num_devices > 0 else 20
    return f"write {max(1, round(share * number))} for {100.0 * share:g} % of {number} devices"


def pattern_of(name: str) -> tuple[str, str]:
    """Problem and remedy of text that has the wrong form."""
    if name.startswith("code"):
        return "must be a SHA-256 of 64 hexadecimal digits", "leave it out: phyloop run writes it"
    return (
        "must be 1 to 80 letters, digits, dots, dashes or underscores, the first a letter or digit",
        "write for example my-study_2",
    )
