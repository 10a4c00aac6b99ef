"""Conflicts of aggregation schemes and of privacy mechanisms with learning and with the radio."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import (
    AggregatorConfig,
    Binary32Config,
    CpaScheme,
    FedAvgConfig,
    FixedPointConfig,
    FlmcConfig,
    JopeqScheme,
    MvuScheme,
    ProbitScheme,
    SignScheme,
)
from fl.footprint import dimension
from fl.tasks.base import LearningError
from privacy.config import (
    AmplitudeBudget,
    BitFlippingBudget,
    BitFlippingConfig,
    PrivacyConfig,
    SchemeBudget,
)
from privacy.errors import PrivacyError
from scenarios.schema.consistency.conflict import Conflict
from scenarios.schema.consistency.fedavg import personal_conflicts
from scenarios.schema.schema import Scenario

_NAME = "learning.aggregation.name learning.aggregation"
_LARGEST_MVU_EPSILON = 20.0


def learning_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Check the aggregation scheme, its numbers, its privacy and its channel."""
    learning, privacy = scenario.learning, scenario.privacy
    if not isinstance(learning, FedAvgConfig):
        return
    # A calibrated budget for the run sets the scheme's epsilon, and b with it.
    calibrated = isinstance(privacy, SchemeBudget) and privacy.budget.calibrate
    yield from _scheme(learning, calibrated=calibrated)
    yield from _unread(learning)
    yield from _privacy(learning, scenario)
    yield from personal_conflicts(learning)


def _scheme(learning: FedAvgConfig, *, calibrated: bool) -> Iterator[Conflict]:
    """Quantisers, tables and bounds that do not exist."""
    scheme = learning.aggregation
    problem = None
    keys = f"learning.aggregation.epsilon {_NAME}"
    try:
        if isinstance(scheme, CpaScheme):
            first = {"decaying": "learning.aggregation.gamma_decay ", "scaled": "learning.aggregation.radius "}
            keys = f"learning.aggregation.rate_bits learning.aggregation.dimension {_NAME}"
            keys = first.get(scheme.radius, "") + keys
            _build_cpa(scheme, rounds=learning.rounds)
        elif isinstance(scheme, JopeqScheme):
            from fl.schemes.values.build_values import build_jopeq

            build_jopeq(scheme)
        elif isinstance(scheme, ProbitScheme) and not calibrated:
            from fl.schemes.probit.probit import probit_problem

            keys = f"learning.aggregation.b {keys}"
            problem = probit_problem(scheme, num_values=dimension(learning))
        elif isinstance(scheme, MvuScheme) and scheme.epsilon > _LARGEST_MVU_EPSILON:
            problem = (
                f"beyond epsilon {_LARGEST_MVU_EPSILON:g} the table of mvu gives no noticeable privacy; "
                "write a smaller epsilon, or aggregation: mean with codec: uniform"
            )
    except (LearningError, PrivacyError) as error:
        problem = str(error)
    if problem is not None:
        yield Conflict.of(keys, problem)


def _build_cpa(scheme: CpaScheme, *, rounds: int) -> None:
    """Build the quantisers and codewords of the last round, for one number."""
    import numpy as np

    from fl.schemes.cpa.cpa_build import build_cpa

    build_cpa(scheme, num_values=1, round_index=rounds - 1, scales=np.ones(0))


def _unread(learning: FedAvgConfig) -> Iterator[Conflict]:
    """Settings that differ from their default and that the scheme never reads."""
    scheme = learning.aggregation
    if isinstance(scheme, AggregatorConfig):
        usual = AggregatorConfig()
        for key, name in (("trim", "trimmed-mean"), ("step", "rsa")):
            if getattr(scheme, key) != getattr(usual, key) and scheme.name != name:
                yield _belongs(key, f"aggregation {name}", f"the aggregation is {scheme.name}")
        return
    if learning.codec != Binary32Config() and learning.downlink == "ideal":
        yield Conflict(
            f"learning.codec.name learning.codec {_NAME}",
            f"aggregation {scheme.name} makes its own bits and never uses codec {learning.codec.name}",
            f"leave codec out, or write aggregation: mean in place of {scheme.name}",
        )
    if learning.receiver_limit is not None and isinstance(scheme, CpaScheme | ProbitScheme | SignScheme):
        yield Conflict(
            f"learning.receiver_limit {_NAME}",
            f"aggregation {scheme.name} receives single bits, which need no limit",
            "leave receiver_limit out",
        )
    if isinstance(scheme, CpaScheme) and scheme.gamma_decay != 1.0 and scheme.radius != "decaying":
        yield _belongs("gamma_decay", "radius decaying", f"the radius is {scheme.radius}")
    if isinstance(scheme, ProbitScheme) and scheme.bound == "clip" and scheme.b != ProbitScheme(name="probit").b:
        yield _belongs("b", "bound fixed or adaptive", "the bound is clip")
    if isinstance(scheme, ProbitScheme) and scheme.form != "printed" and scheme.epsilon is None:
        yield _belongs("form", "a bound that an epsilon asks for", "and there is no epsilon")
    if isinstance(scheme, SignScheme) and scheme.decode != "coded" and scheme.vote == "majority":
        yield _belongs("decode", "vote mean", "the vote is majority")
    elif isinstance(scheme, SignScheme) and scheme.decode != "coded" and scheme.epsilon is None:
        yield _belongs("decode", "randomized response", "and epsilon is none")


def _belongs(key: str, owner: str, found: str) -> Conflict:
    keys, problem = f"learning.aggregation.{key} {_NAME}", f"{key} belongs to {owner}, {found}"
    return Conflict(keys, problem, f"leave {key} out, or change the other")


def _privacy(learning: FedAvgConfig, scenario: Scenario) -> Iterator[Conflict]:
    """A scheme with an epsilon allows no other mechanism, and needs packets that keep the channel's bit errors."""
    scheme, policy = learning.aggregation, scenario.link.packets.policy
    if isinstance(scheme, AggregatorConfig):
        return
    if scenario.privacy != "none" and not isinstance(scenario.privacy, SchemeBudget):
        yield Conflict(
            f"privacy.mechanism privacy {_NAME}",
            f"aggregation {scheme.name} has its own epsilon, for every number and round, but privacy is for "
            "mechanisms on plain numbers",
            "write privacy: none, and the epsilon under learning.aggregation",
        )
    if not isinstance(scheme, CpaScheme | ProbitScheme | SignScheme) or scheme.channel == "agnostic":
        return
    if policy != "accept" and scenario.link.error_model != "error_free":
        yield Conflict(
            f"link.packets.policy learning.aggregation.channel {_NAME}",
            f"channel {scheme.channel} needs the bit errors of the channel, but packets.policy {policy} drops packets "
            "with errors or sends them again",
            "write packets.policy: accept, or channel: agnostic under learning.aggregation",
        )


def mechanism_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """Check the privacy mechanism against the algorithm, the codec and the radio."""
    learning, privacy = scenario.learning, scenario.privacy
    if privacy == "none":
        return
    if isinstance(learning, FlmcConfig):
        if not isinstance(privacy, PrivacyConfig | AmplitudeBudget):
            yield Conflict(
                "privacy.mechanism privacy learning.algorithm",
                f"mechanism {privacy.mechanism} protects the uploads of fedavg; flmc bounds the amplitude of "
                "every round instead",
                "leave mechanism out and write {epsilon: 5, delta: 0.01}, or use algorithm: fedavg",
            )
    elif not isinstance(learning, FedAvgConfig):
        yield Conflict(
            "privacy learning.algorithm",
            f"{learning.algorithm} studies a codec on random numbers, which need no privacy",
            "write privacy: none",
        )
    elif isinstance(privacy, PrivacyConfig | AmplitudeBudget):
        yield Conflict(
            "privacy learning.algorithm",
            "privacy without a mechanism bounds the amplitudes of flmc, the algorithm is fedavg",
            "add mechanism: bit-flipping or mechanism: gaussian",
        )
    elif not isinstance(privacy, SchemeBudget) and isinstance(learning.aggregation, AggregatorConfig):
        # `budget_conflicts` checks a budget for the scheme; a scheme with bits of its own protects them itself.
        yield from _sensitivity(learning, mechanism=privacy.mechanism)
        if isinstance(privacy, BitFlippingConfig | BitFlippingBudget):
            yield from _bit_flipping(learning, privacy, scenario)


def _sensitivity(learning: FedAvgConfig, *, mechanism: str) -> Iterator[Conflict]:
    """Both mechanisms rely on the sensitivity 2 eta G / |D_n|, Li et al. 2025 (13)."""
    if learning.local.clip is None:
        yield Conflict(
            "privacy.mechanism privacy",
            f"mechanism {mechanism} needs the gradient of every sample clipped, and learning.local.clip is missing: "
            "one sample can change a model without limit",
            "write learning.local.clip: 1",
        )
    if learning.local.optimizer != "gd":
        yield Conflict(
            "learning.local.optimizer privacy.mechanism",
            "the sensitivity 2 eta G / |D_n| holds for full-batch gradient descent, the optimizer is "
            f"{learning.local.optimizer}",
            "write optimizer: gd and leave batch_size out, or privacy: none",
        )


def _bit_flipping(
    learning: FedAvgConfig, privacy: BitFlippingConfig | BitFlippingBudget, scenario: Scenario
) -> Iterator[Conflict]:
    codec, policy = learning.codec, scenario.link.packets.policy
    keys = "learning.codec.name learning.codec privacy.mechanism privacy"
    measured = isinstance(privacy, BitFlippingConfig) and privacy.kappa == "measured"
    if isinstance(codec, Binary32Config):
        yield Conflict(
            keys,
            "flipped exponent bits of binary32 make weights of up to 1e38",
            "write codec: fixed-point or codec: uniform",
        )
    elif measured and not isinstance(codec, FixedPointConfig):
        yield Conflict(
            f"privacy.kappa {keys}",
            f"kappa is measured on the fraction bits of codec fixed-point, the codec is {codec.name}",
            "write codec: fixed-point, or give kappa as a number",
        )
    if privacy.channel == "native" and policy != "accept" and scenario.link.error_model != "error_free":
        yield Conflict(
            "link.packets.policy privacy.channel privacy.mechanism",
            f"channel native counts bit errors of the channel as flips, but packets.policy {policy} drops packets with "
            "errors or sends them again",
            "write packets.policy: accept, or channel: agnostic",
        )
