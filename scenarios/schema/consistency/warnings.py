"""What is allowed and will hurt, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import AggregatorConfig, Binary32Config, FedAvgConfig, LaplaceScheme
from fl.uplink.channel_credit import errors_together
from phy.links.conflicts import link_warnings
from privacy.config import BitFlippingConfig, GaussianBudget, GaussianConfig
from scenarios.schema.consistency.radio import links_of
from scenarios.schema.consistency.resolve import resolve_auto
from scenarios.schema.schema import Scenario

_LOOKS = 10
"""Independent looks at a channel below which the lower confidence limit of its error rate is next to nothing."""


def find_warnings(scenario: Scenario) -> Iterator[str]:
    """Sentences without their full stop."""
    learning, privacy = scenario.learning, scenario.privacy
    if learning.uses_radio:
        for _, link in links_of(scenario):
            yield from link_warnings(link)
    if not isinstance(learning, FedAvgConfig):
        return
    yield from _data(learning)
    yield from _bare_numbers(learning, scenario)
    if isinstance(privacy, BitFlippingConfig):
        yield from _target(learning, privacy)
        yield from _probe(privacy, scenario)
    if isinstance(privacy, BitFlippingConfig | GaussianConfig | GaussianBudget):
        yield from _steps(learning, privacy)


def _data(learning: FedAvgConfig) -> Iterator[str]:
    """Images that are not here, or fewer of them than asked for."""
    from fl.data import available_images, missing_data
    from fl.tasks.base import LearningError

    missing = missing_data(learning.data.name)
    if missing is not None:
        yield f"learning.data: {missing}"
        return
    try:
        have = available_images(learning.data.name)
    except LearningError as error:
        yield f"learning.data: {error}"
        return
    for key, there in zip(("train_samples", "test_samples"), have, strict=True):
        wanted = getattr(learning.data, key)
        if wanted is not None and wanted > there:
            yield f"learning.data.{key}: {wanted} images are asked for, this copy of {learning.data.name} has {there}"


def _bare_numbers(learning: FedAvgConfig, scenario: Scenario) -> Iterator[str]:
    for path, link in links_of(scenario):
        if path == "link" and not isinstance(learning.aggregation, AggregatorConfig | LaplaceScheme):
            continue  # bits of their own
        codec = learning.codec if path == "link" else learning.downlink_codec or learning.codec
        if not isinstance(codec, Binary32Config) or learning.receiver_limit is not None:
            continue
        if link.error_model != "error_free" and link.packets.policy == "accept":
            yield (
                f"{path}: a wrong exponent bit turns a weight of codec binary32 into anything up to 1e38, which ends a "
                "trial; write codec: fixed-point, packets.policy: drop, or a learning.receiver_limit"
            )


def _target(learning: FedAvgConfig, privacy: BitFlippingConfig) -> Iterator[str]:
    """Theorem 1 asks for fair coins once K kappa >= (lambda - 1) eps."""
    if privacy.kappa == "measured":
        return
    least = learning.rounds * privacy.kappa / (privacy.order - 1.0)
    if privacy.epsilon <= least:
        yield (
            f"privacy.epsilon: {privacy.epsilon:g} over {learning.rounds} rounds at kappa {privacy.kappa:g} asks for "
            "a bit error rate of one half (Li et al. 2025, Theorem 1), at which nothing can be learnt; raise epsilon "
            f"above {least:.4g}, or lower learning.rounds"
        )


def _probe(privacy: BitFlippingConfig, scenario: Scenario) -> Iterator[str]:
    link = scenario.link
    changing = link.channel.coherence in ("symbol", "packet", "doppler") and link.channel.fades
    if privacy.channel == "native" and changing and link.error_model not in ("error_free", "analytic"):
        yield (
            f"privacy.channel: under channel coherence {link.channel.coherence} the probe and the payload meet "
            "different fades, so that few errors or none are surely there for channel native to credit; write "
            "coherence: round or run, or channel: agnostic"
        )
    coded = link.coding != "none" or link.mcs is not None
    if privacy.channel == "native" and coded and link.error_model not in ("error_free", "analytic"):
        yield (
            "privacy.channel: what a decoder leaves wrong lies in whole packets, and the bits of the others carry the "
            "device's own flips alone, while Theorem 1 wants every bit flipped on its own; native credits next to "
            "nothing here, write channel: agnostic to credit nothing"
        )
    if privacy.channel != "native" or changing or coded or link.error_model in ("error_free", "analytic"):
        return
    together = errors_together(resolve_auto(scenario).link)
    if together > 1 and link.probe_bits < _LOOKS * together:
        yield (
            f"link.probe_bits: a probe of {link.probe_bits:,} bits is short against {together:,} that may err "
            "together, as those of a packet do under one channel estimate, so that channel native credits next to "
            f"nothing; write probe_bits: {_LOOKS * together} or more, a smaller packet_size_bytes, or channel: agnostic"
        )


def _steps(learning: FedAvgConfig, privacy: BitFlippingConfig | GaussianConfig | GaussianBudget) -> Iterator[str]:
    printed = isinstance(privacy, BitFlippingConfig) or privacy.sensitivity == "printed"
    if learning.local.steps > 1 and printed:
        gaussian = isinstance(privacy, GaussianConfig | GaussianBudget)
        remedy = (
            "write sensitivity: all-steps for a figure that counts them all, though it is no proof either, or "
            "local.steps: 1"
            if gaussian
            else "write local.steps: 1 for a bound that holds"
        )
        yield (
            f"learning.local.steps: the sensitivity (13) of Li et al. 2025 holds for one local step, there are "
            f"{learning.local.steps}; {remedy}"
        )
