"""What noise of the channel is worth as privacy, and what the evidence for it costs: said before a run, not after."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import CpaScheme, FedAvgConfig, ProbitScheme, SignScheme
from fl.uplink.channel_credit import law_of_errors
from privacy.config import BitFlippingConfig
from privacy.evidence import confidence_for, evidence_delta, may_credit
from scenarios.schema.schema import Scenario

USUAL_DELTA = 1e-5
"""Of a whole run where the scenario names none: what `phyloop privacy` asks by default."""


def find_warnings(scenario: Scenario) -> Iterator[str]:
    """Sentences without their full stop."""
    learning, privacy = scenario.learning, scenario.privacy
    if not isinstance(learning, FedAvgConfig):
        return
    crediting = _crediting(learning, privacy)
    if crediting is None or scenario.link.error_model == "error_free":
        return

    where, confidence = crediting
    law = law_of_errors(scenario.link.resolve_digital())
    reason = may_credit(law=law)
    if reason is not None:
        unless = ", unless errors counted in the run pass the test of independence" if law == "unknown" else ""
        yield (
            f"{where}.channel: native credits the channel's noise as the paper does, but no proof can: {reason}; "
            f"phyloop privacy counts the devices' own flips alone{unless}"
        )
        return
    cost = evidence_delta(1.0 - confidence, num_rounds=learning.rounds)
    if cost >= USUAL_DELTA:
        enough = confidence_for(0.1 * USUAL_DELTA, num_rounds=learning.rounds)
        yield (
            f"{where}.confidence: {confidence:g} in each of {learning.rounds} rounds takes {cost:.3g} of the run's "
            f"delta as the price of evidence; for a proof at delta {USUAL_DELTA:g} with the channel credited write "
            f"confidence: {enough:.10g}, a tenth of it"
        )


def _crediting(learning: FedAvgConfig, privacy: object) -> tuple[str, float] | None:
    """The part of the scenario that lets errors of the channel count, and the confidence of its probe."""
    if isinstance(privacy, BitFlippingConfig):
        return ("privacy", privacy.confidence) if privacy.channel == "native" else None
    scheme = learning.aggregation
    if isinstance(scheme, CpaScheme | ProbitScheme | SignScheme):
        private = scheme.epsilon is not None and scheme.channel == "native"
        return ("learning.aggregation", scheme.confidence) if private else None
    return None
