"""Aggregations and personal models that cannot be, or not together with the rest, and what of them hurts."""

from __future__ import annotations

from collections.abc import Iterator

from fl.config import (
    AggregatorConfig,
    Binary32Config,
    CpaScheme,
    FedAvgConfig,
    JopeqScheme,
    LaplaceScheme,
    MvuScheme,
    ProbitScheme,
    SignScheme,
)
from fl.footprint import dimension
from fl.footprint.fedavg import samples_per_device
from fl.tasks.base import LearningError
from privacy.config import SchemeBudget
from privacy.errors import PrivacyError
from scenarios.schema.consistency.conflict import Conflict
from scenarios.schema.schema import Scenario

_NAME = ("learning.aggregation.name", "learning.aggregation")
_LARGEST_MVU_EPSILON = 20.0


def learning_conflicts(scenario: Scenario) -> Iterator[Conflict]:
    """What is sent, by whom, and what else it has to go with."""
    learning = scenario.learning
    if not isinstance(learning, FedAvgConfig):
        return
    yield from _scheme(learning, found=_found(scenario))
    yield from _unused(learning)
    yield from _privacy(learning, scenario)
    yield from _personal(learning)
    yield from _bound(learning)


def find_warnings(scenario: Scenario) -> Iterator[str]:
    """Sentences without their full stop."""
    learning = scenario.learning
    if not isinstance(learning, FedAvgConfig):
        return
    scheme, link, attack = learning.aggregation, scenario.link, learning.attack
    changing = link.channel.coherence in ("symbol", "packet", "doppler") and link.channel.fades
    if _credits(learning) and changing and link.error_model not in ("error_free", "analytic"):
        yield (
            f"learning.aggregation.channel: under channel coherence {link.channel.coherence} the probe and the payload "
            "meet different fades, so that native may credit errors of fades that the payload does not meet; write "
            "coherence: round or run, or channel: agnostic"
        )
    if attack is not None and attack.kind in ("ones", "invert", "random") and _wild(learning):
        remedy = "write a learning.receiver_limit"
        if isinstance(scheme, AggregatorConfig):
            remedy = "write codec: fixed-point, or a learning.receiver_limit"
        yield (
            f"learning.attack.kind: {attack.kind} on bits of binary32 makes numbers of up to 1e38, or NaN, which ends "
            f"a trial; {remedy}"
        )


def _wild(learning: FedAvgConfig) -> bool:
    """Whether a single number of any size enters a mean."""
    scheme = learning.aggregation
    if learning.receiver_limit is not None:
        return False
    if isinstance(scheme, AggregatorConfig):
        return scheme.name in ("mean", "geometric-median") and isinstance(learning.codec, Binary32Config)
    return isinstance(scheme, LaplaceScheme)


def _credits(learning: FedAvgConfig) -> bool:
    """Whether bit errors of the channel count as privacy."""
    scheme = learning.aggregation
    if not isinstance(scheme, CpaScheme | ProbitScheme | SignScheme):
        return False
    return scheme.channel == "native" and scheme.epsilon is not None


def _found(scenario: Scenario) -> bool:
    """Whether a budget for the run finds the scheme's epsilon, and the b that it asks for."""
    return isinstance(scenario.privacy, SchemeBudget) and scenario.privacy.budget.calibrate


def _scheme(learning: FedAvgConfig, *, found: bool) -> Iterator[Conflict]:
    """Quantisers, tables and bounds that do not exist."""
    scheme = learning.aggregation
    problem = None
    keys: tuple[str, ...] = ("learning.aggregation.epsilon", *_NAME)
    try:
        if isinstance(scheme, CpaScheme):
            keys = ("learning.aggregation.rate_bits", "learning.aggregation.dimension", *_NAME)
            if scheme.radius == "decaying":
                keys = ("learning.aggregation.gamma_decay", *keys)
            if scheme.radius == "scaled":
                keys = ("learning.aggregation.radius", *keys)
            _build_cpa(scheme, rounds=learning.rounds)
        elif isinstance(scheme, JopeqScheme):
            from fl.schemes.values.build_values import build_jopeq

            build_jopeq(scheme)
        elif isinstance(scheme, ProbitScheme) and not found:
            from fl.schemes.probit.probit import probit_problem

            keys = ("learning.aggregation.b", *keys)
            problem = probit_problem(scheme, num_values=dimension(learning))
        elif isinstance(scheme, MvuScheme) and scheme.epsilon > _LARGEST_MVU_EPSILON:
            problem = (
                f"beyond epsilon {_LARGEST_MVU_EPSILON:g} the table of mvu cannot be told from no privacy; "
                "write a smaller epsilon, or aggregation: mean with codec: uniform"
            )
    except (LearningError, PrivacyError) as error:
        problem = str(error)
    if problem is not None:
        sentence, _, remedy = problem.partition("; ")
        yield Conflict(keys=keys, problem=sentence, remedy=remedy or "change one of them")


def _build_cpa(scheme: CpaScheme, *, rounds: int) -> None:
    """The quantisers and codewords of the last round, for one number."""
    import numpy as np

    from fl.schemes.cpa.cpa_build import build_cpa

    build_cpa(scheme, num_values=1, round_index=rounds - 1, scales=np.ones(0))


def _unused(learning: FedAvgConfig) -> Iterator[Conflict]:
    """Numbers that were written and that nothing would ever read."""
    scheme = learning.aggregation
    if isinstance(scheme, AggregatorConfig):
        usual = AggregatorConfig()
        for key, name in (("trim", "trimmed-mean"), ("step", "rsa")):
            if getattr(scheme, key) != getattr(usual, key) and scheme.name != name:
                yield _belongs(
                    f"learning.aggregation.{key}", f"aggregation {name}", f"the aggregation is {scheme.name}"
                )
        return
    if learning.codec != Binary32Config() and learning.downlink == "ideal":
        yield Conflict(
            keys=("learning.codec.name", "learning.codec", *_NAME),
            problem=f"aggregation {scheme.name} has bits of its own, so that codec {learning.codec.name} would write "
            "nothing",
            remedy=f"leave codec out, or write aggregation: mean in place of {scheme.name}",
        )
    if learning.receiver_limit is not None and isinstance(scheme, CpaScheme | ProbitScheme | SignScheme):
        yield Conflict(
            keys=("learning.receiver_limit", *_NAME),
            problem=f"aggregation {scheme.name} receives single bits, none of which is larger than another",
            remedy="leave receiver_limit out",
        )
    if isinstance(scheme, CpaScheme) and scheme.gamma_decay != 1.0 and scheme.radius != "decaying":
        yield _belongs("learning.aggregation.gamma_decay", "radius decaying", f"the radius is {scheme.radius}")
    if isinstance(scheme, ProbitScheme) and scheme.bound == "clip" and scheme.b != ProbitScheme(name="probit").b:
        yield _belongs("learning.aggregation.b", "bound fixed or adaptive", "the bound is clip")
    if isinstance(scheme, ProbitScheme) and scheme.form != "printed" and scheme.epsilon is None:
        yield _belongs("learning.aggregation.form", "a bound that an epsilon asks for", "and there is no epsilon")
    if isinstance(scheme, SignScheme) and scheme.decode != "coded":
        if scheme.vote == "majority":
            yield _belongs("learning.aggregation.decode", "vote mean", "the vote is majority")
        elif scheme.epsilon is None:
            yield _belongs("learning.aggregation.decode", "randomized response", "and epsilon is none")


def _belongs(key: str, owner: str, found: str) -> Conflict:
    leaf = key.rpartition(".")[2]
    return Conflict(
        keys=(key, *_NAME),
        problem=f"{leaf} belongs to {owner}, {found}",
        remedy=f"leave {leaf} out, or change the other",
    )


def _privacy(learning: FedAvgConfig, scenario: Scenario) -> Iterator[Conflict]:
    """One promise at a time, and channel errors that do reach the server."""
    scheme, link = learning.aggregation, scenario.link
    if isinstance(scheme, AggregatorConfig):
        return
    if scenario.privacy != "none" and not isinstance(scenario.privacy, SchemeBudget):
        yield Conflict(
            keys=("privacy.mechanism", "privacy", *_NAME),
            problem=f"aggregation {scheme.name} has an epsilon of its own, for every number and round, and privacy "
            "stands for mechanisms on plain numbers",
            remedy="write privacy: none, and the epsilon under learning.aggregation",
        )
    if not isinstance(scheme, CpaScheme | ProbitScheme | SignScheme) or scheme.channel == "agnostic":
        return
    if link.packets.policy != "accept" and link.error_model != "error_free":
        yield Conflict(
            keys=("link.packets.policy", "learning.aggregation.channel", *_NAME),
            problem=f"channel {scheme.channel} takes bit errors of the channel into account, and under packets.policy "
            f"{link.packets.policy} packets with errors are dropped or sent again instead",
            remedy="write packets.policy: accept, or channel: agnostic under learning.aggregation",
        )


def _personal(learning: FedAvgConfig) -> Iterator[Conflict]:
    """Samples to hold out, and one pull towards the global model."""
    personal = learning.personal
    if personal is None:
        return
    if samples_per_device(learning) < 2:
        yield Conflict(
            keys=("learning.partition.samples_per_device", "learning.num_devices", "learning.personal"),
            problem="of a device's only sample none can be held out to measure its personal model on",
            remedy="give every device at least 2 samples, or leave personal out",
        )
    if learning.local.proximal not in (0.0, personal.lam):
        yield Conflict(
            keys=("learning.local.proximal", "learning.personal.lam", "learning.personal"),
            problem=f"local.proximal {learning.local.proximal:g} and personal.lam {personal.lam:g} both weigh the "
            "distance to the global model",
            remedy="leave local.proximal out",
        )


def _bound(learning: FedAvgConfig) -> Iterator[Conflict]:
    """Theorem 2 of Li et al. 2025 follows the weighted mean of honest devices."""
    if not learning.convergence_bound:
        return
    if learning.aggregation != AggregatorConfig() or learning.attack is not None or learning.personal is not None:
        yield Conflict(
            keys=("learning.convergence_bound", *_NAME, "learning.attack", "learning.personal"),
            problem="the convergence bound holds for the mean of what honest devices send to one common model",
            remedy="leave convergence_bound out, or aggregation, attack and personal",
        )
