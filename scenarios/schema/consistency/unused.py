"""Keys that are written and that change no number, one sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import BaseModel

from fl.algorithms.fedavg.config import FedAvgConfig
from fl.schemes.codecs.codec import codecs
from phy.config.by_word import by_words_in
from phy.config.link import LinkConfig
from scenarios.schema.consistency.resolve import links_of
from scenarios.schema.schema import Scenario

Unused = tuple[str, str]
"""Dotted path of a key, and the reason that it has no effect with a remedy."""


def unused_keys(scenarios: Iterable[Scenario]) -> list[str]:
    """Return a sentence for each written key that no resolved sweep point reads."""
    found = [dict(_unused(scenario)) for scenario in scenarios]
    everywhere = [key for key in found[0] if all(key in others for others in found)] if found else []
    return [f"{key}: has no effect, because {found[0][key]}" for key in everywhere]


def _unused(scenario: Scenario) -> Iterator[Unused]:
    if scenario.learning.uses_radio or scenario.measure is not None:
        for path, link in links_of(scenario):
            yield from _of_link(path, link)
    yield from _codec(scenario)
    if isinstance(scenario.learning, FedAvgConfig):
        yield from _averaging(scenario.learning)
    privacy, scheme = scenario.mechanism, scenario.learning.upload_scheme
    calibrated = privacy is not None and privacy.protects == "scheme" and privacy.calibrated
    if calibrated and scheme is not None and _written(scheme, "epsilon"):
        yield (
            "learning.aggregation.epsilon",
            "privacy.budget sets the epsilon of a round; leave it out, or write privacy.budget.calibrate: false for a "
            "budget that only watches",
        )


def _averaging(learning: FedAvgConfig) -> Iterator[Unused]:
    scheme = learning.aggregation
    if learning.personal is not None and _written(learning.local, "proximal"):
        yield "learning.local.proximal", "learning.personal.lam takes its place; leave it out"
    if not scheme.uses_codec and scheme.response is not None and _written(learning, "receiver_limit"):
        reason = f"aggregation {scheme.name} receives single bits, which need no limit"
        yield "learning.receiver_limit", f"{reason}; leave it out"


def _codec(scenario: Scenario) -> Iterator[Unused]:
    learning = scenario.learning
    if scenario.link.access == "superposition" and not learning.links() and _written(learning, "codec"):
        yield "learning.codec", "numbers add up in the air as they are; leave it out, or write access: orthogonal"
        return
    # Comparisons with a mean write full precision once for all.
    scheme, codec = learning.upload_scheme, getattr(learning, "codec", codecs.read("binary32"))
    if scheme is None or scheme.uses_codec or learning.links() or codec == codecs.read("binary32"):
        return
    if _written(learning, "codec"):
        reason = f"aggregation {scheme.name} makes its own bits"
        yield "learning.codec", f"{reason}; leave it out, or write aggregation: mean"


def _of_link(path: str, link: LinkConfig) -> Iterator[Unused]:
    channel = link.channel
    for name, section in (("channel", channel), ("power", link.power)):
        yield from ((f"{path}.{name}.{key}", reason) for key, reason in _beside(section))
    if not channel.selective and _written(channel, "delay_spread_s"):
        reason = f"it belongs to the tdl and cdl models, and the model is {channel.model}"
        yield f"{path}.channel.delay_spread_s", f"{reason}; leave it out, or write for example model: tdl-a"
    cell = channel.cell if link.power.transmit_power_dbm is not None else None
    if cell is not None and _written(cell, "reference_distance_m"):
        reason = "gains are absolute under power.transmit_power_dbm"
        yield f"{path}.channel.cell.reference_distance_m", f"{reason}; leave it out"
    budget = link.power.budget
    if budget is not None and budget.spread != "convergence" and _written(budget, "contraction"):
        reason = f"it belongs to spread convergence, and the spread is {budget.spread}"
        yield f"{path}.power.budget.contraction", f"{reason}; leave it out, or write spread: convergence"
    if link.access != "noma" and _written(link, "noma"):
        yield f"{path}.noma", f"the access is {link.access}; leave it out, or write access: noma"
    if link.access == "superposition" and link.ofdm != "none" and link.ofdm.packing != "whole-slots":
        yield f"{path}.ofdm.packing", f"the access is {link.access}, which has no packets; leave it out"
    if link.access not in ("auto", "superposition") and _written(link.receiver, "combining"):
        reason = f"the access is {link.access}; leave it out, or write access: superposition"
        yield f"{path}.receiver.combining", reason


def _beside(section: BaseModel) -> Iterator[Unused]:
    """Parameters beside a word, such as that of a fading law, that belong to other words."""
    for name, field in type(section).model_fields.items():
        for by_word in by_words_in(field.metadata):
            word = getattr(getattr(section, name), by_word.registry.tag, getattr(section, name))
            for key, words in by_word.foreign(word).items():
                if words and _written(section, key):
                    reason = f"it belongs to {name} {' or '.join(words)}, and the {name} is {word}"
                    yield key, f"{reason}; leave it out, or write {name}: {words[0]}"


def _written(section: BaseModel, key: str) -> bool:
    """Return True if the user wrote a key; not so in a section with all defaults, as a run writes it."""
    written, fields = section.model_fields_set, type(section).model_fields
    in_full = all(name in written or field.default is None for name, field in fields.items())
    return key in written and not in_full
