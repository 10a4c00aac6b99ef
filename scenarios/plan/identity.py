"""Identity of a task: everything that determines its numbers, and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from privacy.config.base import UNSETTLED
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.errors import mapping
from scenarios.schema.schema import SCHEMA_VERSION, Scenario

EXECUTION_MODE = "xla-float32"
"""Execution mode of tasks. It is part of the identity: eager mode and XLA draw other numbers from one seed."""

AUTO_OF_BITS = "auto, at most 2 / (mu + L) and a / K"
"""The automatic step of one-bit gradients, which was longer in earlier tasks."""

_LATER_OF_FLMC: dict[str, Any] = {
    "quantizer_bits": 1,
    "quantizer_range": None,
    "quantizer_symbols": "pam",
    "plane_amplitudes": "significance",
    "record_samples": False,
}
"""Later keys of FLMC, and the value that older tasks had."""

_LATER_OF_PRIVACY: dict[str, Any] = {"noise_tolerance_db": 0.0, "listener_advantage_db": 0.0, "form": "printed"}

_PARTS = {"link", "learning", "privacy", "seed"}


def physics(scenario: Scenario) -> dict[str, Any]:
    """Everything that determines the numbers of a sweep point, as plain JSON data.

    Defaults are filled in and `auto` is resolved: a default that is written out changes nothing. Names, labels,
    descriptions, the number of trials, the sweep and the report are left out.
    """
    parts = resolve_auto(scenario).model_dump(mode="json", include=_PARTS)
    leave_out_later_of_link(parts["link"])
    _leave_out_later_keys(parts["learning"])
    learning: Any = scenario.learning
    if getattr(learning, "step_size", None) == "auto" and learning.sends.one_bit:
        parts["learning"]["step_size"] = AUTO_OF_BITS
    scheme = scenario.learning.upload_scheme
    if scheme is not None and not scheme.uses_codec and not scenario.learning.links():
        parts["learning"]["codec"] = {"name": "binary32"}  # one word for every codec that is not used
    counts = scenario.link.error_model != "error_free" and getattr(scheme, "channel", None) == "native"
    if not counts and getattr(scheme, "confidence", None) == "auto":
        parts["learning"]["aggregation"]["confidence"] = UNSETTLED  # one level for all where no error counts
    if (privacy := parts["privacy"]) != "none":
        if privacy["budget"] is None:
            del privacy["budget"]
        for name, usual in _LATER_OF_PRIVACY.items():
            if privacy.get(name) == usual:
                del privacy[name]
    if scenario.plugins:
        parts["plugins"] = sorted(scenario.code[word] for word in scenario.plugins)
    return {
        "schema_version": SCHEMA_VERSION,
        "execution_mode": EXECUTION_MODE,
        **{name: without_minus_zero(part) for name, part in parts.items()},
    }


_LATER_OF_CHANNEL: dict[str, Any] = {
    "file": None,
    "sha256": None,
    "source": None,
    "order": "sequential",
    "at_end": "loop",
    "users": "identity",
    "normalize": "per-site",
}

_LATER_OF_CODING = {"redundancy_version": 0, "transport_block": "payload", "tbs_lbrm_bits": None, "scrambling": "none"}


def leave_out_later_of_link(link: dict[str, Any]) -> None:
    """Drop later keys of a link with the value that older links had.

    The engine if it is `sionna`, the only engine at first, or `auto`, which means no radio. Codes had the conventions
    of Sionna.
    """
    if link["engine"] in ("sionna", "auto"):
        del link["engine"]
    if link["receiver"]["combining"] == "mrc":
        del link["receiver"]["combining"]
    if link["receiver"]["scaling"] == "auto":
        del link["receiver"]["scaling"]
    channel = link["channel"]
    if channel["sha256"]:
        channel.pop("file")  # what a file holds, wherever it lies
    for key, default in _LATER_OF_CHANNEL.items():
        if channel.get(key, default) == default:
            channel.pop(key, None)
    if channel["movement"] == "space" or not channel["model"].startswith("cdl"):
        del channel["movement"]  # earlier devices of CDL moved in space, and other models have no rays
    if link["power"]["budget"] is None:
        del link["power"]["budget"]
    if link["power"]["transmit_power_dbm"] is None:
        del link["power"]["transmit_power_dbm"], link["power"]["noise_figure_db"]
    if not link["impairments"]["estimated"]:
        del link["impairments"]["estimated"]
    if (ofdm := mapping(link["ofdm"])) and ofdm["packing"] == "whole-slots":
        del ofdm["packing"]
    if link["packets"]["combining"] == "chase":
        del link["packets"]["combining"]
    if coding := mapping(link["coding"]):
        if coding["standard"] == "sionna" or coding["code"] == "repetition":
            del coding["standard"]
        for key, usual in _LATER_OF_CODING.items():
            if coding[key] == usual:
                del coding[key]


def _leave_out_later_keys(learning: dict[str, Any]) -> None:
    """Drop later keys with the value that older tasks had, which then keep their identity."""
    if downlink := mapping(learning.get("downlink")):
        leave_out_later_of_link(downlink)
    if (data := mapping(learning.get("data"))) and data.get("sha256"):  # what a file holds, wherever it lies
        for key in ("file", "test_file"):
            data.pop(key, None)
    if learning["algorithm"] == "flmc" and learning["attack"] is None:
        del learning["attack"]
    if learning["algorithm"] == "flmc":
        for key, usual in _LATER_OF_FLMC.items():
            if learning[key] == usual:
                del learning[key]
        if learning["task"].get("preconditioned") is False:
            del learning["task"]["preconditioned"]
    if "stem" in (model := learning.get("model") or {}):
        model["function"] = None  # a key of earlier tasks
        if model["activation"] is None:
            del model["activation"]
    for key, usual in (("decay_steps", None), ("precision", "float32")):
        if (local := learning.get("local")) is not None and local[key] == usual:
            del local[key]
    if (part := learning.get("participation")) is not None and part["selection"] == {"name": "random"}:
        del part["selection"]
    if learning.get("timing", ...) is None:
        del learning["timing"]
    if (attack := learning.get("attack")) is not None and attack.get("signal") == "random":
        del attack["signal"]


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, ASCII: one text per value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def identity_of(value: Any) -> str:
    """Return the SHA-256, in hex, of the canonical JSON of plain data."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def physics_json(scenario: Scenario) -> str:
    """The canonical JSON of `physics`, for `task_ids`."""
    return canonical_json(physics(scenario))


def task_ids(physics_json: str, *, trials: Iterable[int]) -> tuple[str, ...]:
    """Return the SHA-256, in hex, of the canonical JSON of `{"physics": ..., "trial": n}`, for each trial n."""
    prefix = hashlib.sha256(f'{{"physics":{physics_json},"trial":'.encode())

    def of(trial: int) -> str:
        digest = prefix.copy()
        digest.update(b"%d}" % trial)
        return digest.hexdigest()

    return tuple(map(of, trials))


def without_minus_zero(value: Any) -> Any:
    """Replace -0.0 by 0.0, which is equal and has another text, in plain data."""
    match value:
        case dict():
            return {key: without_minus_zero(item) for key, item in value.items()}
        case list():
            return [without_minus_zero(item) for item in value]
        case float():
            return value + 0.0  # -0.0 + 0.0 is 0.0
    return value
